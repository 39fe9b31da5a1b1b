package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// The driver plays a history against one server: it is the clients, the operator and the
// clock. It waits for what the model predicts, and where the model predicts nothing,
// until the server seems to be at rest.

// playing is one history on one engine.
type playing struct {
	h        history
	without  map[string]bool
	srv      *Server
	inline   bool // a handler that waits at a gate must leave its loop first
	tongues  [tongues]Protocol
	ln       *handing
	tcp      net.Listener // nil before the first use; making one for each connection took half of all CPU time
	served   chan error   // result of Serve
	deadline time.Time
	patience time.Duration
	moves    atomic.Int32   // made
	events   atomic.Int64   // notes of the server's side, and sweeps
	failing  atomic.Bool    // a handler has failed: it may have kept buffers
	users    sync.WaitGroup // of sockets that were given away
	guests   [mostGuests + 1]atomic.Pointer[guest]
	unopened uint64    // clients whose handshake has failed
	env      reasons64 // for which any connection without predictions may end

	now           timing.Tick   // of the server's clock, which only moves advance
	stops         atomic.Uint32 // the sweeper must wait before it carries out verdicts of this time or later; 0: never
	judged, carry chan struct{}

	down   chan error // result of Shutdown; nil before
	force  func()     // ends its context
	forced atomic.Bool
	timer  *time.Timer

	mu      sync.Mutex
	opening *guest // the client for which OnOpen is due
	byConn  map[Conn]*guest

	once      sync.Once
	failed    chan struct{} // closed at the first violation
	violation *violation
}

// violation is what a playing has found.
type violation struct {
	rule, text string
	moves      int // after so many moves
}

// reasons64 is a set of reasons.
type reasons64 uint64

func (r *reasons64) add(all ...Reason) {
	for _, why := range all {
		*r |= 1 << why
	}
}

func (r reasons64) has(why Reason) bool { return why < 64 && r>>why&1 == 1 }

// guest is a client, with its model and with what the server's side knows of it.
type guest struct {
	l      *playing
	id     uint16
	model  forecast
	nc     net.Conn
	raw    syscall.RawConn
	tls    *sealing // nil: in the clear, or not accepted
	unsent []byte   // not yet accepted by the socket
	back   []byte   // kept for the move rest
	heard  heard
	deaf   bool // it does not read
	gone   bool // it has closed before the end
	eof    bool // it has seen the end
	denied bool // it was not accepted

	cutShort bool // it has closed its side within a request

	written, consumed atomic.Int64 // bytes of requests

	changed chan struct{}
	permits chan struct{} // to pass gates

	mu        sync.Mutex // guards everything below
	conn      Conn
	isOpen    bool
	asked     []asked
	owed      []debt
	revoked   []Reply
	posts     []post
	pushes    uint16
	contexts  []context.Context
	running   int // handlers
	served    int
	entered   int // gates
	passed    int
	closed    int // calls of OnClose
	farewells int // calls of Ended
	why       Reason
	tongue    uint8
	state     uint64
}

// enact plays a history and returns the first violation. Everything that it waits for must
// happen within the patience.
func enact(h history, e Engine, patience time.Duration, without map[string]bool) *violation {
	l := &playing{
		h: h, without: without, inline: e == Events(Inline), byConn: map[Conn]*guest{},
		ln: newHanding(), served: make(chan error, 1), patience: patience, deadline: time.Now().Add(patience),
		judged: make(chan struct{}), carry: make(chan struct{}), failed: make(chan struct{}), timer: time.NewTimer(0),
	}
	for n := range l.tongues {
		l.tongues[n] = newTongue(l, uint8(n))
	}
	l.srv = &Server{Protocol: l.tongues[h.tongue], Engine: e, Limits: h.limits, OnOpen: l.opened, OnClose: l.ended, judged: l.sweeps,
		Logger: slog.New(slog.DiscardHandler)} // panics are intended
	l.env = h.ends()
	pprof.Do(context.Background(), pprof.Labels("server", "metamorphic"), func(context.Context) {
		l.srv.init()
		l.now = l.srv.clock.Now() + 5*60*1000 // real time does not reach it
		l.srv.clock.Set(l.now)
		ln := net.Listener(l.ln)
		if h.secure {
			ln = NewTLSListener(ln, secureConfig())
		}
		go func() { l.served <- l.srv.Serve(ln) }()
		<-l.ln.ready
		over := make(chan struct{})
		defer close(over)
		go l.acknowledge(over)
		for i := 0; i < len(h.moves) && !l.isOver(); i++ {
			l.do(h.moves[i])
			l.moves.Store(int32(i + 1))
		}
		l.finish()
	})
	return l.violation
}

// acknowledge has the sweeper look, without advancing the clock, while connections wait for
// their peers to receive an unfinished reply.
func (l *playing) acknowledge(over <-chan struct{}) {
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-over:
			return
		case <-every.C:
		}
		waits := false
		l.srv.each(func(k connRef) {
			x := k.x.Load()
			waits = waits || x != nil && x.unfinished
		})
		if waits {
			l.srv.clock.SweepNow()
		}
	}
}

// ends returns the reasons for which limits may end any connection.
func (h *history) ends() (all reasons64) {
	if h.limits.TotalOutput > 0 {
		all.add(OutputBudget)
	}
	if h.limits.TotalInput > 0 {
		all.add(InputBudget)
	}
	if h.limits.Conns > 0 {
		all.add(TooManyConns, Displaced)
	}
	if h.shared {
		all.add(SlowReader)
	}
	return all
}

// fail records a violation, unless there was one or it is left out.
func (l *playing) fail(rule, format string, args ...any) {
	if l.without[rule] {
		return
	}
	l.once.Do(func() {
		l.violation = &violation{rule, fmt.Sprintf(format, args...), int(l.moves.Load())}
		close(l.failed)
		for i := range l.guests {
			if g := l.guests[i].Load(); g != nil {
				g.nc.SetDeadline(transport.Past())
			}
		}
	})
}

func (l *playing) isOver() bool {
	select {
	case <-l.failed:
		return true
	default:
		return false
	}
}

// each calls do with every client.
func (l *playing) each(do func(g *guest)) {
	for i := range l.guests {
		if g := l.guests[i].Load(); g != nil && !l.isOver() {
			do(g)
		}
	}
}

func (l *playing) guestOf(c Conn) *guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byConn[c]
}

// calm waits until the server seems to be at rest.
func (l *playing) calm() {
	for still := 0; still < 2 && !l.isOver(); {
		before := l.progress()
		<-time.After(100 * time.Microsecond)
		if still++; l.progress() != before {
			still = 0
		}
	}
}

// progress changes with everything that the server does.
func (l *playing) progress() (n int64) {
	n = l.events.Load()
	l.srv.eachShard(func(sh *shard) { n += int64(sh.counts.bytesIn.Load() + sh.counts.bytesOut.Load()) })
	return n
}

// do makes one move.
func (l *playing) do(m move) {
	g := l.guests[m.on+1].Load()
	switch m.do {
	case "connect", "connect tcp", "connect adapter":
		if g == nil && l.down == nil {
			l.connect(m)
		}
	case "idle":
		l.endIdle()
	case "pass":
		l.pass(m)
	case "calm":
		l.calm()
	case "check":
		l.check()
	case "shutdown":
		l.shutdown()
	case "force":
		if l.down != nil && !l.forced.Load() {
			l.each(func(g *guest) {
				g.catchUp()
				g.model.loosen()
				g.model.cut = g.model.cut || !g.eof
				g.model.blind = true // the end and an answer may cross
			})
			l.env.add(Forced)
			l.forced.Store(true)
			l.force()
			for cut := false; !cut; { // until then it serves what clients send from now on
				select {
				case <-l.srv.empty:
					cut = true
				case <-time.After(50 * time.Microsecond):
					cut = l.srv.abandoned.Load()
				}
			}
		}
	default:
		if g != nil && !g.denied {
			g.do(m)
		}
	}
}

// connect opens a connection, and waits until the server has accepted or refused it.
func (l *playing) connect(m move) {
	near, far, err := l.dial(m)
	if err != nil {
		l.fail("harness", "connecting: %v", err)
		return
	}
	near.SetDeadline(l.deadline)
	id := uint16(m.on + 1)
	g := &guest{
		l: l, id: id, nc: near, tongue: l.h.tongue, changed: make(chan struct{}, 1), permits: make(chan struct{}, 1<<10),
		model: forecast{id: id, exact: !l.h.shared, inFlight: l.h.limits.InFlight, tongue: l.h.tongue, time: l.now, seen: l.now, lent: -1},
	}
	g.raw, _ = near.(syscall.Conn).SyscallConn()
	l.mu.Lock()
	l.opening = g
	l.mu.Unlock()
	l.guests[id].Store(g)
	before := l.srv.accepted.Load()
	l.ln.conns <- far
	<-l.ln.ready
	switch g.denied = l.srv.accepted.Load() == before; {
	case g.denied:
	case l.h.secure:
		g.shake()
	default:
		g.await("OnOpen", func() bool { return g.isOpen })
	}
}

func (l *playing) dialTCP() (near, far net.Conn, err error) {
	if l.tcp == nil {
		if l.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			l.tcp = nil
			return nil, nil, err
		}
	}
	if near, err = net.Dial("tcp", l.tcp.Addr().String()); err == nil {
		far, err = l.tcp.Accept()
	}
	return near, far, err
}

// dial returns the two ends of a connection; the server's comes second.
func (l *playing) dial(m move) (near, far net.Conn, err error) {
	if m.do == "connect tcp" {
		near, far, err = l.dialTCP()
	}
	if near == nil && err == nil || errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) { // many ports rest in TIME_WAIT
		var fds [2]int
		if fds, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
			return nil, nil, err
		}
		near, err = sys.NetConn(sys.Socket(fds[0]))
		if err == nil {
			far, err = sys.NetConn(sys.Socket(fds[1]))
		}
	}
	if err == nil && m.size > 0 {
		far.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(m.size)
	}
	if m.do == "connect adapter" && err == nil {
		far = wrapped{far}
	}
	return near, far, err
}

// wrapped is a connection other than a plain socket.
type wrapped struct{ net.Conn }

func (w wrapped) CloseWrite() error { return w.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// handing is a listener that the driver hands connections to.
type handing struct {
	conns  chan net.Conn
	ready  chan struct{} // Accept was called: the connection before has been dealt with
	closed chan struct{}
}

func newHanding() *handing {
	return &handing{make(chan net.Conn), make(chan struct{}, 1), make(chan struct{})}
}

func (h *handing) Accept() (net.Conn, error) {
	h.ready <- struct{}{}
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handing) Close() error   { close(h.closed); return nil }
func (h *handing) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// sweeps is called by the sweeper before it carries out its verdicts.
func (l *playing) sweeps(now timing.Tick) {
	l.events.Add(1)
	if from := l.stops.Load(); from != 0 && int32(now-from) >= 0 {
		select {
		case l.judged <- struct{}{}:
			<-l.carry
		case <-l.srv.stop:
		case <-l.failed:
		}
	}
}

// sweep stops the sweeper when it has judged by the present time, calls the first function,
// and lets it carry out its verdicts; then the same with the next function. What the last
// one finds is still to be carried out when sweep returns.
func (l *playing) sweep(all ...func()) {
	for _, do := range all {
		l.stops.Store(l.now)
		l.srv.clock.SweepNow()
		select {
		case <-l.judged:
			l.stops.Store(0)
			do()
			l.carry <- struct{}{}
		case <-l.srv.stop:
		case <-l.failed:
		}
		l.stops.Store(0)
	}
}

// jump advances the clock.
func (l *playing) jump(by timing.Tick) {
	l.now += by
	l.srv.clock.Set(l.now)
	l.each(func(g *guest) { g.model.time = l.now })
}

// mostPassing bounds how far the clock may be ahead of real time, see ahead.
const mostPassing = 13 * 60 * 1000

// pass advances the clock and lets the sweeper judge. Between that and the execution of
// its verdicts come the moves within.
func (l *playing) pass(m move) {
	if l.each((*guest).rests); l.now > mostPassing {
		return
	}
	for _, inner := range m.within {
		if g := l.guests[inner.on+1].Load(); g != nil {
			g.model.loosen(IdleTimeout, FrameTimeout, WriteStall)
		}
	}
	l.env.add(IdleTimeout, FrameTimeout, WriteStall)
	jump, look := func() { l.jump(timing.Tick(m.n) * 1000) }, func() {}
	l.sweep(jump, func() {
		for _, inner := range m.within {
			l.do(inner)
			l.calm()
		}
	}, look)
	l.untilEnded(func(f *forecast) { f.expire(l.srv.limits, l.srv.rules.Period) }, func() { l.sweep(jump, look, look) })
}

// endIdle calls EndIdle.
func (l *playing) endIdle() {
	if l.each((*guest).rests); l.down == nil {
		l.srv.EndIdle()
		l.untilEnded((*forecast).endIdle, l.srv.EndIdle)
	}
}

// untilEnded waits for the connections that must end after an event. The server may have
// stored a time, or have been busy, a moment after the client had read its last reply:
// then the event is repeated, and predicted again.
func (l *playing) untilEnded(predict func(*forecast), again func()) {
	for try := range 4 {
		if try > 0 {
			again()
		}
		all := true
		l.each(func(g *guest) {
			if f := &g.model; !g.eof && !g.denied {
				if predict(f); f.exact && f.why != 0 {
					all = g.endsWithin(50*time.Millisecond) && all
				}
			}
		})
		if all {
			break
		}
	}
	l.each((*guest).catchUp)
}

// shutdown begins a Shutdown.
func (l *playing) shutdown() {
	if l.down != nil {
		return
	}
	l.each(func(g *guest) {
		g.catchUp()
		g.model.drain()
	})
	l.env.add(ShuttingDown)
	ctx, cancel := context.WithCancel(context.Background())
	l.force, l.down = cancel, make(chan error, 1)
	go func() { l.down <- l.srv.Shutdown(ctx) }()
	l.each(func(g *guest) {
		if g.model.exact && g.model.why != 0 && !g.eof && !g.endsWithin(l.patience) {
			g.stuck("its drain")
		}
	})
}

// quiesce reads and settles everything and opens all gates, until nothing is left to do.
func (l *playing) quiesce() {
	for round := 0; !l.isOver(); round++ {
		busy, quiet, before := false, true, l.progress()
		l.each(func(g *guest) {
			g.deaf = false
			g.sendRest()
			g.catchUp()
			if g.release() || g.settleOne(move{size: 10}) {
				busy = true
			}
			quiet = g.isQuiet() && quiet
		})
		switch {
		case busy || l.progress() != before:
			round = 0
			continue
		case quiet:
			return
		case time.Now().After(l.deadline):
			l.each(func(g *guest) {
				if !g.isQuiet() {
					g.stuck("rest")
				}
			})
		}
		if <-time.After(100 * time.Microsecond); round%50 == 49 && l.h.shared {
			l.srv.clock.SweepNow()
			if round == 99 || round == 149 { // what waits for a budget may wait for a sweep
				l.env.add(IdleTimeout, FrameTimeout, WriteStall)
				l.jump(l.srv.rules.Period + 1)
			}
		}
	}
}

// check is a checkpoint: everything is settled and read, and nothing may be left.
func (l *playing) check() {
	if l.quiesce(); !l.isOver() {
		l.checkGauges()
	}
}

// finish ends the playing.
func (l *playing) finish() {
	if l.check(); l.down == nil && !l.isOver() {
		l.each(func(g *guest) {
			if !g.gone && !g.eof && !g.model.shut {
				g.shut()
			}
		})
		l.check()
		l.shutdown()
	}
	if !l.isOver() {
		select {
		case err := <-l.down:
			if err != nil && !l.forced.Load() {
				l.fail("shutdown", "Shutdown returned %v", err)
			}
		case <-time.After(time.Until(l.deadline)):
			l.fail("stuck", "Shutdown does not return; %d connections are open", l.srv.Stats().Open)
		}
	}
	l.checkEnd()
	l.stops.Store(0)
	for i := range l.guests {
		if g := l.guests[i].Load(); g != nil {
			close(g.permits)
			g.nc.Close()
		}
	}
	if l.tcp != nil {
		l.tcp.Close()
	}
	l.srv.Close()
	<-l.served
	l.users.Wait()
}
