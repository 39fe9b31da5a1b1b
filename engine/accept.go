package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine/internal/admission"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// Serve accepts connections from ln until Shutdown or Close, and then returns
// ErrServerClosed; it always closes ln. It keeps running when descriptors run out. But
// when there are none for the server's first connection at the start, Serve returns an
// error: the server would refuse everybody and look as if it ran.
//
// On Linux, Events accepts by itself what a *net.TCPListener or *net.UnixListener brings in
// quick succession. It then notices up to 20 ms late that ln was closed or has a deadline. The
// socket of ln gets the options that package net gives to connections (TCP_NODELAY,
// keep-alive), which other owners of that socket see.
func (s *Server) Serve(ln net.Listener) error {
	if s.Protocol == nil {
		panic("engine: Server.Protocol is nil")
	}
	s.init()
	var config *tls.Config
	if secured, ok := ln.(*tlsListener); ok {
		ln, config = secured.inner, secured.config
	}
	closer := sync.OnceFunc(func() { ln.Close() })
	defer closer()
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[&closer] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, &closer)
		s.mu.Unlock()
	}()
	if s.accepted.Load() == 0 && len(s.started()) == 0 {
		if err := s.how.CheckDescriptors(0); err != nil {
			return err
		}
	}
	if err := s.prepare(ln); err != nil {
		return err
	}

	var quick sys.Acceptor
	next := func(socket sys.Socket, from netip.AddrPort) {
		s.acceptSocket(socket, arrival{from: from, config: config})
	}
	var spare sys.Spare
	spare.Hold()
	defer spare.Release()
	pause := time.Duration(0) // after a failed accept: 5 ms, doubling to 1 s
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			if !spare.Hold() {
				// nc uses the spare descriptor's number, so there is no room for it.
				nc.Close()
				s.refused(NoDescriptors)
				spare.Hold()
				continue
			}
			if s.how.style == events {
				quick.Learn(ln, nc)
			}
			s.accept(nc, arrival{config: config})
			quick.Follow(next)
		case s.draining.Load():
			return ErrServerClosed
		case sys.Exhausted(err) && spare.Release():
			// With one descriptor free, Accept blocks until the next connection instead
			// of failing in a busy loop.
		case sys.Exhausted(err) || temporary(err):
			s.faults.Write(s.Logger, slog.LevelWarn, "accept_failed", func() (string, []any) {
				return "accept failed; trying again", []any{"error", err}
			})
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-s.stop:
				return ErrServerClosed
			case <-time.After(pause):
			}
		default:
			return err
		}
	}
}

// ServeConn serves a connection that somebody else has accepted, and returns at once. It owns nc from here
// on, and closes it, also when it refuses it: the error is the Reason. The connection speaks p, which
// is visited once before anything arrives, with that Turn.State and with unread, what has been read from
// nc already and may be nothing: there it need not ask for Room. A nil p is Server.Protocol, which
// is visited when there is something to serve. No PROXY header is expected.
func (s *Server) ServeConn(nc net.Conn, p Protocol, state uint64, unread []byte) error {
	s.init()
	a := arrival{served: true, state: state, unread: unread}
	if p != nil {
		speaks, err := s.protocolOf(p)
		if err != nil {
			nc.Close()
			return err
		}
		a.speaks = speaks
	}
	if why := s.accept(nc, a); why != 0 {
		return why
	}
	return nil
}

// CheckDescriptors returns an error if the process cannot open the descriptors that a
// server with this engine needs to serve one connection, and the given number of others.
// Serve makes the same check, for no others. A program that reports that it is ready
// before it calls Serve should call this first.
func (e Engine) CheckDescriptors(others int) error {
	need := others + 2 // sys.Spare and the connection
	if e.orDefault().style == events {
		need += 3*loopCount() + 1 // see sys.Poll; a connection has two until it has joined a loop
	}
	missing, err := sys.Missing(need)
	switch limit, _ := sys.DescriptorLimit(); {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("engine: %w; raise the limit of this machine (sysctl fs.file-max)", err)
	default:
		return fmt.Errorf("engine: %w: the limit is %d, and a server needs %d more; raise it (ulimit -n, LimitNOFILE)", err, limit, missing)
	}
}

// prepare prepares the engine for ln's connections. Tests serve connections that are an sys.End, or
// inject system call failures, with a listener that has a NewPoll method. Listeners other than sockets may
// never produce a connection for a loop, so loops start with the first such connection.
func (s *Server) prepare(ln net.Listener) error {
	if s.how.style != events {
		return nil
	}
	switch ln := ln.(type) {
	case interface{ NewPoll() (*sys.Poll, error) }:
		return s.startLoops(ln.NewPoll)
	case *net.TCPListener, *net.UnixListener:
		return s.startLoops(kernelPoll)
	}
	if runtime.GOOS != "linux" {
		return s.startLoops(kernelPoll) // reports that the engine is unsupported
	}
	return nil
}

// kernelPoll opens the poll of a loop that serves sockets.
func kernelPoll() (*sys.Poll, error) { return sys.NewPoll(nil) }

// accept serves nc, or refuses it.
func (s *Server) accept(nc net.Conn, a arrival) (why Reason) {
	a.from = transport.AddrPort(nc.RemoteAddr()) // once: an adapter may not know its peer any more when it is closed
	if e, ok := nc.(interface{ End() sys.End }); ok && s.servesEnds() {
		a.end = e.End()
		return s.acceptEnd(nc, a)
	}
	if s.how.style == events && transport.IsSocket(nc) {
		err, socket := s.startLoops(kernelPoll), sys.NoSocket
		if err == nil {
			socket, err = sys.Take(nc.(syscall.Conn))
		}
		nc.Close() // before the poll knows the socket: then closing the socket alone ends the connection
		if err != nil {
			s.refused(NoDescriptors)
			return NoDescriptors
		}
		return s.acceptSocket(socket, a)
	}
	if a.config != nil {
		nc = tls.Server(nc, a.config)
	}
	if why = s.admit(&a); why != 0 {
		s.turnAway(nc, why)
	} else {
		s.startGoroutine(nc, a)
	}
	return why
}

// servesEnds reports whether the loops serve Ends, as they do when the first connection is one.
func (s *Server) servesEnds() bool {
	if s.how.style != events {
		return false
	}
	s.startLoops(func() (*sys.Poll, error) { return sys.NewEndsPoll(nil, nil), nil })
	loops := s.started()
	return len(loops) > 0 && loops[0].poll.ServesEnds()
}

// acceptEnd serves an End on a loop, or refuses it.
func (s *Server) acceptEnd(nc net.Conn, a arrival) (why Reason) {
	switch why = s.admit(&a); {
	case why == 0:
		s.joinLoop(sys.NoSocket, a)
	case a.config != nil:
		nc.Close()
		s.refused(why)
	default:
		s.turnAway(nc, why)
	}
	return why
}

// acceptSocket serves a socket on a loop, or refuses it.
func (s *Server) acceptSocket(socket sys.Socket, a arrival) (why Reason) {
	switch why = s.admit(&a); {
	case why == 0:
		s.joinLoop(socket, a)
	case a.config != nil: // a TLS handshake for a refusal would help a flood
		socket.Close()
		s.refused(why)
	default:
		if nc, err := sys.NetConn(socket); err != nil {
			s.refused(why)
		} else {
			s.turnAway(nc, why)
		}
	}
	return why
}

// admit counts a new connection, for which another may have to go, or returns the reason to refuse
// it. A proxy's connection does not count against the proxy's own address.
func (s *Server) admit(a *arrival) Reason {
	if s.limits.AcceptRate < math.MaxInt32 && !a.served && !s.pace.Admits(time.Now()) {
		return TooManyAtOnce
	}
	a.proxy = !a.served && admission.Within(s.TrustedProxies, a.from.Addr())
	why := s.admitOne(a)
	if why == TooManyConns && s.displace(a.from.Addr()) {
		why = s.admitOne(a)
	}
	return why
}

// ComeAgain returns within which time those who are refused as TooManyAtOnce should connect again, each at
// a random moment: Protocol.Refuse tells them.
func (s *Server) ComeAgain() time.Duration {
	s.init()
	return s.pace.Within(time.Now())
}

// turnAway refuses nc.
func (s *Server) turnAway(nc net.Conn, why Reason) {
	s.refused(why)
	if s.draining.Load() {
		nc.Close()
		return
	}
	s.refusals.Tell(nc, s.limits.LingerTime, &s.goroutines, func() (words []byte) {
		s.guard(Conn{}, func() { words = s.Protocol.Refuse(nil, nil, why) })
		return words
	})
}

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
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
		s.helpers.init(s.limits.Helpers, &s.goroutines, &s.workspaces, &s.clock)
		s.watchdog.Init()
		s.turns.Init(runtime.GOMAXPROCS(0))
		s.workspaces.New = func() any { return &workspace{in: make([]byte, loopRead)} }
		s.inflights.New = func() any { return new(inflight) }
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.stop = make(chan struct{})
		s.gone = make(chan struct{})
		s.hurry = make(chan struct{})
		s.empty = make(chan struct{})
		s.listeners = map[*func()]struct{}{}
		s.pace.Init(s.limits.AcceptRate)
		s.addresses.Init(s.limits.ConnsPerAddress, s.Uncounted)
		s.places = cmp.Or(s.Places, new(Places))
		s.places.join(s)
		for range runtime.GOMAXPROCS(0) {
			f := newFlusher(s)
			s.flushers = append(s.flushers, f)
			s.goroutines.Go(f.sendPosted)
		}
		s.goroutines.Go(s.sweep)
		s.begun.Store(true)
	})
}

func newFlusher(s *Server) *flusher {
	f := &flusher{kick: make(chan struct{}, 1)}
	f.srv = s
	f.chunks.Store(&[]chunk{})
	f.Bell.Init(func() {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	})
	return f
}

// NewTLSListener returns a listener whose connections use TLS, as tls.NewListener does. Events serves
// them from its event loops, without a goroutine for each. With Server.TrustedProxies, the PROXY
// header comes before the handshake. On Events as many handshakes compute at a time as there are
// processors, and hosts that wait for a turn take it in rotation. A connection of tls.NewListener has
// a goroutine on every engine, and receives the PROXY header encrypted.
func NewTLSListener(inner net.Listener, config *tls.Config) net.Listener {
	return &tlsListener{tls.NewListener(inner, config), inner, config}
}

type tlsListener struct {
	net.Listener // for others than Server.Serve, which accepts from inner
	inner        net.Listener
	config       *tls.Config
}
