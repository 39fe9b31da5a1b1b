package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/admission"
	"github.com/hone-go/hone/engine/internal/input"
	"github.com/hone-go/hone/engine/internal/outbox"
	"github.com/hone-go/hone/engine/internal/pace"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/faultlog"
)

// ErrServerClosed is returned by Serve after Shutdown or Close.
var ErrServerClosed = errors.New("engine: server closed")

// Server serves one Protocol on any number of listeners. Fill the fields, then call
// Serve; do not change the fields afterwards. The zero value of every field but Protocol
// is a working default.
type Server struct {
	// Protocol parses and answers messages. Required.
	Protocol Protocol
	// Engine does the I/O. Zero: the default of this operating system.
	Engine Engine
	// Limits are the server's limits and timeouts.
	Limits Limits
	// TrustedProxies are the addresses whose connections begin with a PROXY protocol
	// header, version 1 or 2; from all others such a header is ordinary input. Zero:
	// none.
	TrustedProxies []netip.Prefix
	// Uncounted are addresses that Limits.ConnsPerAddress does not count, such as those of
	// reverse proxies. Zero: none.
	Uncounted []netip.Prefix
	// OwnReasons are the names of the reasons for which Protocol ends connections in
	// addition to the engine's, starting with the name of Own: lower case and
	// underscores, 8 at most. Zero: none.
	OwnReasons []string
	// HandshakeFailed returns the reason for which a connection ends after the peer sent
	// an invalid TLS handshake; 0 leaves that to the engine. Zero: the Reason that the
	// error is or wraps, as a tls.Config's VerifyConnection may return it, else
	// Malformed.
	HandshakeFailed func(err error) Reason
	// Logger gets panics of user code with their stack (at level Error), and accept errors,
	// refused connections and failed TLS handshakes (Warn): one line a second for each reason, with the number of
	// suppressed lines. Zero: panics go to slog.Default(), and nothing else is logged. For
	// silence, use slog.DiscardHandler.
	Logger *slog.Logger
	// OnOpen is called when a connection begins, before its first message.
	OnOpen func(Conn)
	// OnClose is called exactly once for every connection for which OnOpen was, after its
	// last handler has returned.
	OnClose func(Conn, Reason)

	once    sync.Once
	begun   atomic.Bool // the once function has completed
	how     Engine
	limits  Limits
	rules   timing.Rules
	clock   timing.Clock
	ordered bool // one reply at a time: replies keep the order of requests

	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed to end the background goroutines
	hurry    chan struct{} // closed by Close: a Shutdown in progress stops waiting
	draining atomic.Bool
	forced   atomic.Bool   // connections are being forced closed
	leaving  atomic.Bool   // a Shutdown is in progress
	gone     chan struct{} // closed when it is done
	result   error         // of it
	hurried  sync.Once

	spoken   atomic.Pointer[[]*spoken] // Protocol, and what connections have switched to
	learning sync.Mutex                // held while a protocol is added

	buffers    outbox.Memory
	workspaces sync.Pool // of *workspace, for loops and helpers
	inflights  sync.Pool // of *inflight, for connections of loops
	goroutines sync.WaitGroup
	flushers   []*flusher // of the goroutine engines, and of what an Events server cannot put on a loop

	loops     []*loop       // of Events; see started
	running   chan struct{} // closed when there are loops
	helpers   helpers
	watchdog  pace.Watch
	turns     admission.Turns[Conn] // at TLS handshakes of loops
	shaken    struct{ done, failed, resumed atomic.Uint64 }
	handOffs  atomic.Uint64
	waits     func(wakeUp <-chan struct{}) // for tests: called before an owner waits in the middle of a visit
	judged    func(now timing.Tick)        // for tests: called between the sweeper's verdicts and their execution
	abandoned atomic.Bool                  // all connections were cut off or given away: loops end even if user code still has some

	accepted atomic.Uint64
	panics   atomic.Uint64
	ended    [reasons]atomic.Uint64
	endedOwn [mostOwn]atomic.Uint64
	output   ration.Output
	input    input.Budget
	requests ration.Requests
	faults   faultlog.Log
	silent   admission.Silent[Conn]
	idlers   admission.Idlers[Conn]
	refusals admission.Refusals
	sweeper  sweeper

	mu         sync.Mutex
	open       int    // connections
	given      int    // of these, ones whose socket was given away: a drain does not wait for them
	displacing int    // of these, silent ones that are being displaced
	newcomers  []Conn // admitted meanwhile
	excess     int    // newcomers to refuse that are not queued yet
	addresses  admission.Addresses
	listeners  map[*func()]struct{} // what closes them, once
	empty      chan struct{}        // closed when a drain has no connection left to wait for
	isEmpty    bool                 // empty is closed
	drained    Drained
	drainEnded bool   // drained is final
	lateTold   uint64 // the highest Stats.Late so far, which must not fall
}

// init prepares a server for its first use.
func (s *Server) init() {
	s.once.Do(func() {
		s.checkOwnReasons()
		s.how = s.Engine.orDefault()
		s.limits = s.Limits.OrDefaults()
		s.rules = s.limits.rules()
		s.clock.Init()
		s.ordered = s.limits.InFlight == 1
		s.spoken.Store(&[]*spoken{newSpoken(s.Protocol)})
		s.buffers.Max = maxShared
		s.output.Init(s.limits.TotalOutput, &s.buffers.Spares, &s.clock)
		s.input.Init(s.limits.TotalInput, &s.buffers.Buffers, s.clock.SweepNow)
		s.requests.Init(s.limits.TotalInFlight, &s.clock)
		s.running = make(chan struct{})
		s.helpers.srv = s
		s.watchdog.Init()
		s.turns.Init(runtime.GOMAXPROCS(0))
		s.workspaces.New = func() any { return &workspace{in: make([]byte, s.how.size)} }
		s.inflights.New = func() any { return new(inflight) }
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.stop = make(chan struct{})
		s.gone = make(chan struct{})
		s.hurry = make(chan struct{})
		s.empty = make(chan struct{})
		s.listeners = map[*func()]struct{}{}
		s.addresses.Init(s.limits.ConnsPerAddress, s.Uncounted)
		for range runtime.GOMAXPROCS(0) {
			f := newFlusher(s)
			s.flushers = append(s.flushers, f)
			s.goroutines.Go(f.sendPosted)
		}
		s.goroutines.Go(s.sweep)
		s.begun.Store(true)
	})
}

// Context returns a context that is cancelled when the server is closed or a Shutdown's
// context ends, not when a drain starts.
func (s *Server) Context() context.Context {
	s.init()
	return s.ctx
}

// eachShard calls do with those of all loops, also of loops that have ended, and of the flushers.
func (s *Server) eachShard(do func(sh *shard)) {
	for _, l := range s.started() {
		do(&l.shard)
	}
	for _, f := range s.flushers {
		do(&f.shard)
	}
}

// each calls do with every connection, with its mutex held.
func (s *Server) each(do func(k connRef)) { s.eachShard(func(sh *shard) { sh.each(do) }) }

// reportPanic counts and logs a panic of user code. The deferred function that has recovered
// v calls it.
func (s *Server) reportPanic(c Conn, v any) {
	s.panics.Add(1)
	s.faults.Panic(cmp.Or(s.Logger, slog.Default()), c.RemoteAddr(), v)
}
