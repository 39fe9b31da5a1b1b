package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
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
	// Places has Limits.Conns count the connections of all servers with the same Places, each of
	// which has the same limit. Zero: the server has its own.
	Places *Places
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
	draining atomic.Bool   // no connection comes any more
	endsAll  atomic.Bool   // every connection ends, see Limits.SpreadTime
	idle     atomic.Uint64 // Drained.Idle
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
	pace     admission.Pace
	sweeper  sweeper
	places   *Places

	mu         sync.Mutex
	open       int // connections
	given      int // of these, ones whose socket was given away: a drain does not wait for them
	addresses  admission.Addresses
	listeners  map[*func()]struct{} // what closes them, once
	empty      chan struct{}        // closed when a drain has no connection left to wait for
	isEmpty    bool                 // empty is closed
	drained    Drained
	drainEnded bool   // drained is final
	lateTold   uint64 // the highest Stats.Late so far, which must not fall
}

// Places are those of open connections. Servers that share them have Limits.Conns together: a newcomer at one of
// them displaces a connection of any.
type Places struct {
	mu         sync.Mutex // taken behind a Server's mu, and before that of a connection
	servers    []*Server
	taken      int    // by connections, but for those that are being displaced
	displacing int    // connections that are being displaced
	newcomers  []Conn // admitted meanwhile
	excess     int    // newcomers to refuse that are not queued yet
}

// reportPanic counts and logs a panic of user code. The deferred function that has recovered
// v calls it.
func (s *Server) reportPanic(c Conn, v any) {
	s.panics.Add(1)
	s.faults.Panic(cmp.Or(s.Logger, slog.Default()), c.RemoteAddr(), v)
}

// Drained reports the progress or result of a Shutdown, in connections except for Owed.
// It is final when Shutdown has returned.
type Drained struct {
	Clean  int // answered, flushed and closed
	Forced int // forced closed when the context ended
	Owed   int // late replies that were never sent
	Stuck  int // of the forced: still open when Shutdown returned, mostly because of user code
	Idle   int // of a Parter: had no last answer in Limits.SpreadTime, so a request may have crossed their end
}

// checkOwnReasons panics if a protocol's reasons cannot be used as labels.
func (s *Server) checkOwnReasons() {
	if len(s.OwnReasons) > mostOwn {
		panic(fmt.Sprintf("engine: Server.OwnReasons has %d names; the maximum is %d", len(s.OwnReasons), mostOwn))
	}
	known := map[string]bool{}
	for r := range reasons {
		known[r.String()] = true
	}
	for _, name := range s.OwnReasons {
		if name == "" || known[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			panic(fmt.Sprintf("engine: Server.OwnReasons has %q; use a unique name of lower case letters and underscores", name))
		}
		known[name] = true
	}
}

// endedFor returns the counter of connections that ended for why.
func (s *Server) endedFor(why Reason) *atomic.Uint64 {
	switch {
	case why < reasons:
		return &s.ended[why]
	case why >= Own && int(why-Own) < len(s.OwnReasons):
		return &s.endedOwn[why-Own]
	}
	return &s.ended[Malformed]
}

// started returns the loops, or nil before they run.
func (s *Server) started() []*loop {
	select {
	case <-s.running:
		return s.loops
	default:
		return nil
	}
}

// guard recovers panics of user code.
func (s *Server) guard(c Conn, call func()) {
	defer func() {
		if v := recover(); v != nil {
			s.reportPanic(c, v)
		}
	}()
	call()
}
