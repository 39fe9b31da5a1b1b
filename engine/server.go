package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("engine: server closed")

// Server serves one Protocol on any number of listeners. Fill the fields, call
// Serve; do not change them afterwards. The zero value of every field but
// Protocol is a working default.
type Server struct {
	// Protocol gives the bytes their meaning. Required.
	Protocol Protocol
	// Engine moves the bytes. Zero: the default of this operating system.
	Engine Engine
	// Limits protect the server.
	Limits Limits
	// TrustedProxies are the addresses whose connections begin with a PROXY
	// protocol header, version 1 or 2; from everybody else such a header is
	// just bytes. Zero: nobody.
	TrustedProxies []netip.Prefix
	// Logger hears of panics, of accept errors and of refused connections, at
	// most once a second each. Zero: silence.
	Logger *slog.Logger
	// OnOpen is called when a connection begins, before its first message.
	OnOpen func(Conn)
	// OnClose is called exactly once for every connection that OnOpen saw,
	// after its last handler has returned.
	OnClose func(Conn, Reason)

	once     sync.Once
	how      Engine
	limits   Limits
	rules    rules
	clock    clock
	ordered  bool // one reply at a time: replies keep the order of requests
	perVisit int  // messages that one visit may serve

	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed when the background may end
	hurry    chan struct{} // closed by Close: no more patience
	draining atomic.Bool
	leaving  atomic.Bool   // somebody shuts down
	gone     chan struct{} // closed when that is done
	hurried  sync.Once

	buffers    pool.Buffers
	desks      sync.Pool // of *desk, for connections that borrow
	flushers   []*flusher
	goroutines sync.WaitGroup // sweeper, flushers, late writers, refusals, loops

	loops     []*loop       // of Events; see started
	running   chan struct{} // closed when there are loops
	crew      crew
	watch     watch
	seats     sync.Pool // of *seat, for goroutines that run a loop
	flights   sync.Pool // of *flight
	handOffs  atomic.Uint64
	abandoned atomic.Bool // the loops end with connections still open

	tallies  [8]tally
	accepted atomic.Uint64
	panics   atomic.Uint64
	ended    [reasons]atomic.Uint64
	queued   atomic.Int64 // bytes posted and not yet written
	noise    noise

	mu        sync.Mutex
	open      int // connections
	sessions  []*session
	moved     bool // a session has changed its slot since the last sweep
	addresses map[netip.Addr]int
	listeners map[*net.Listener]struct{}
	refusing  int           // refused connections that are still being told so
	empty     chan struct{} // closed when a drain has no connection left
	drained   Drained
	counted   bool       // drained is final
	condemned []sentence // the sweeper's own
	over      int        // the sweeper's own: sweeps since the output budget was kept
}

// Drained says how a Shutdown went, in connections but for Owed.
type Drained struct {
	Clean  int // answered, flushed and closed in peace
	Forced int // cut off when the context ended
	Owed   int // late replies that never came
	Stuck  int // of the forced: still inside user code when Shutdown returned
}

// init prepares a server for its first use.
func (s *Server) init() {
	s.once.Do(func() {
		if s.Protocol == nil {
			panic("engine: Server.Protocol is nil")
		}
		s.how = s.Engine.orDefault()
		s.limits = s.Limits.OrDefaults()
		s.rules = rulesOf(s.limits)
		s.clock.init()
		s.ordered = s.limits.InFlight == 1
		s.buffers.Max = maxPooled
		s.running = make(chan struct{})
		s.crew.srv = s
		s.watch.kick = make(chan struct{}, 1)
		s.seats.New = func() any { return &seat{in: make([]byte, loopRead)} }
		s.flights.New = func() any { return new(flight) }
		s.perVisit = -1 // no end
		if s.how.style == direct {
			s.perVisit = 1
		}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.stop = make(chan struct{})
		s.gone = make(chan struct{})
		s.hurry = make(chan struct{})
		s.empty = make(chan struct{})
		s.listeners = map[*net.Listener]struct{}{}
		s.addresses = map[netip.Addr]int{}
		s.desks.New = func() any { return &desk{in: make([]byte, s.how.size)} }
		s.goroutines.Add(1)
		go s.sweep()
		for range runtime.GOMAXPROCS(0) {
			f := &flusher{wake: make(chan struct{}, 1)}
			s.flushers = append(s.flushers, f)
			s.goroutines.Add(1)
			go func() {
				defer s.goroutines.Done()
				f.run(s.stop)
			}()
		}
	})
}

// Context ends when the server is closed or a Shutdown's patience has ended,
// not when it begins to drain.
func (s *Server) Context() context.Context {
	s.init()
	return s.ctx
}

// bufferSize is the read buffer of a connection that owns one.
func (s *Server) bufferSize() int {
	if s.how.style == parked || s.how.style == events {
		return Buffered(0).size
	}
	return s.how.size
}

// desk is own or, where a connection has none, a borrowed one.
func (s *Server) desk(own *desk) *desk {
	if own != nil {
		return own
	}
	return s.desks.Get().(*desk)
}

// release gives a borrowed desk back.
func (s *Server) release(own, d *desk, why Reason) {
	if own == nil {
		s.returnDesk(d, why)
	}
}

// returnDesk takes a desk back. What a panic may have left half done is not
// used again, and a desk grown by one large reply does not stay large.
func (s *Server) returnDesk(d *desk, why Reason) {
	if why == Panicked {
		return
	}
	d.turn.Out = d.turn.Out[:0]
	if cap(d.turn.Out) > maxPooled {
		d.turn.Out = nil
	}
	s.desks.Put(d)
}

// enlist makes nc a session, or says why it may not be one.
func (s *Server) enlist(nc net.Conn) (*session, Reason) {
	c := &session{srv: s, nc: nc, fd: noDescriptor}
	if isSocket(nc) {
		c.raw = rawConn(nc.(syscall.Conn))
	}
	addr := c.remoteAddr().Addr()
	c.proxy = s.trusts(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.admit(addr, c.proxy, &c.counted); why != 0 {
		return nil, why
	}
	c.slot = len(s.sessions)
	s.sessions = append(s.sessions, c)
	n := s.accepted.Load()
	c.tally = &s.tallies[n%uint64(len(s.tallies))]
	c.flusher = s.flushers[n%uint64(len(s.flushers))]
	return c, 0
}

// rawConn is a plain socket's descriptor, where the system lets us use it.
func rawConn(socket syscall.Conn) syscall.RawConn {
	if !sys.Readiness {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// admit enters one more connection from addr in the books, or says why it may
// not be served; mu is held. One that speaks for another address is not counted
// for its own.
func (s *Server) admit(addr netip.Addr, proxy bool, counted *bool) Reason {
	switch {
	case s.draining.Load():
		return ShuttingDown
	case s.open >= s.limits.Conns:
		return TooManyConns
	case !proxy && !s.count(addr, counted):
		return TooManyPerAddress
	}
	s.open++
	s.accepted.Add(1)
	return 0
}

// count takes one of addr's places, if there is one; mu is held.
func (s *Server) count(addr netip.Addr, counted *bool) bool {
	if !addr.IsValid() || s.Limits.ConnsPerAddress <= 0 {
		return true
	}
	if s.addresses[addr] >= s.limits.ConnsPerAddress {
		return false
	}
	s.addresses[addr]++
	*counted = true
	return true
}

// leave tells OnClose of an ended session.
func (s *Server) leave(c *session) {
	why := c.reason()
	defer func() { // whatever OnClose does
		s.mu.Lock()
		last := len(s.sessions) - 1
		if c.slot != last {
			s.sessions[c.slot] = s.sessions[last]
			s.sessions[c.slot].slot = c.slot
			s.moved = true
		}
		s.sessions[last] = nil
		s.sessions = s.sessions[:last]
		var holds netip.Addr
		if c.counted {
			holds = c.remoteAddr().Addr()
		}
		s.mu.Unlock()
		c.ended.Store(true)
		c.value.Store(nil)
		s.strike(why, holds)
	}()
	if s.OnClose != nil && c.known {
		s.guard(c.conn(), func() { s.OnClose(c.conn(), why) })
	}
}

// strike takes a connection off the books, and the place of its address.
func (s *Server) strike(why Reason, holds netip.Addr) {
	s.ended[why].Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if holds.IsValid() {
		if s.addresses[holds]--; s.addresses[holds] == 0 {
			delete(s.addresses, holds)
		}
	}
	if s.draining.Load() {
		switch {
		case s.counted:
		case why == Forced:
			s.drained.Forced++
		default:
			s.drained.Clean++
		}
		if s.open == 0 {
			close(s.empty)
		}
	}
}

// Shutdown stops accepting, answers what was sent, flushes and closes. When ctx
// ends first, the connections that are left are cut off; handlers that do not
// return are left behind and counted. It returns ctx's error in that case.
func (s *Server) Shutdown(ctx context.Context) (Drained, error) {
	s.init()
	var err error
	if s.leaving.CompareAndSwap(false, true) {
		err = s.shutdown(ctx)
		close(s.gone)
	} else {
		select {
		case <-s.gone:
		case <-ctx.Done():
			err = fmt.Errorf("engine: shutdown: %w", ctx.Err())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained, err
}

func (s *Server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for ln := range s.listeners {
		(*ln).Close()
	}
	if s.open == 0 {
		close(s.empty)
	}
	for _, c := range s.sessions {
		c.hurry()
	}
	s.mu.Unlock()
	for _, l := range s.started() {
		l.links(func(k link) { k.notify() })
	}

	var err error
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = s.force(ctx.Err())
	case <-s.hurry:
		err = s.force(ErrServerClosed)
	}
	s.cancel()
	s.mu.Lock()
	stuck := s.drained.Stuck
	s.mu.Unlock()
	s.abandoned.Store(stuck > 0)
	close(s.stop)
	for _, l := range s.started() {
		l.leave()
	}
	s.crew.end()
	if stuck == 0 {
		s.goroutines.Wait()
	}
	return err
}

// force cuts off every connection that is left and gives those that are not
// inside user code the moment that they need to end.
func (s *Server) force(cause error) error {
	s.cancel()
	owed := 0
	s.mu.Lock()
	for _, c := range s.sessions {
		owed += int(c.owed.Load())
		c.abort(Forced)
	}
	s.mu.Unlock()
	for _, l := range s.started() {
		l.links(func(k link) {
			if x := k.x.Load(); x != nil {
				owed += x.promises.open
			}
			k.abort(Forced)
		})
	}
	s.mu.Lock()
	s.drained.Owed += owed
	s.mu.Unlock()
	if done := s.emptyWithin(forceTime) || s.rescue() && s.emptyWithin(forceTime); !done {
		s.mu.Lock()
		s.drained.Stuck = s.open
		s.drained.Forced += s.drained.Stuck
		s.counted = true
		s.mu.Unlock()
	}
	return fmt.Errorf("engine: shutdown: %w", cause)
}

// forceTime is what connections need to end that are not inside user code.
const forceTime = 250 * time.Millisecond

func (s *Server) emptyWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.empty:
		return true
	case <-t.C:
		return false
	}
}

// Close cuts off every connection at once; a Shutdown under way loses its
// patience too. It does not wait for handlers that do not return.
func (s *Server) Close() error {
	s.init()
	s.hurried.Do(func() { close(s.hurry) })
	s.Shutdown(context.Background())
	return nil
}

// reportPanic counts a panic of user code and tells the logger.
func (s *Server) reportPanic(c Conn, v any, stack []byte) {
	s.panics.Add(1)
	s.noise.say(s.Logger, slog.LevelError, Panicked, "panic in a handler", "remote", c.RemoteAddr(), "panic", fmt.Sprint(v), "stack", string(stack))
}

// noise keeps repeated faults from flooding the log: one line a second for each
// reason, with the number of those left out.
type noise struct {
	mu    sync.Mutex
	last  [reasons]time.Time
	muted [reasons]int
}

func (n *noise) say(l *slog.Logger, level slog.Level, why Reason, text string, args ...any) {
	if l == nil {
		return
	}
	n.mu.Lock()
	now := time.Now()
	if now.Sub(n.last[why]) < time.Second {
		n.muted[why]++
		n.mu.Unlock()
		return
	}
	muted := n.muted[why]
	n.last[why], n.muted[why] = now, 0
	n.mu.Unlock()
	if muted > 0 {
		args = append(args, "suppressed", muted)
	}
	l.Log(context.Background(), level, text, append(args, "reason", why.String())...)
}
