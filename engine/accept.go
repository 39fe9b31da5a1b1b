package engine

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Serve accepts connections from ln until Shutdown or Close, and then returns
// ErrServerClosed; ln is closed in every case. Running out of descriptors does
// not end it.
func (s *Server) Serve(ln net.Listener) error {
	if s.Protocol == nil {
		panic("engine: Server.Protocol is nil")
	}
	s.init()
	closer := &listenerCloser{ln: ln}
	defer closer.close()
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[closer] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, closer)
		s.mu.Unlock()
	}()
	if err := s.prepare(ln); err != nil {
		return err
	}

	var spare sys.Spare
	spare.Hold()
	defer spare.Release()
	pause := backoff{}
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause.reset()
			if !spare.Hold() {
				// nc sits in the spare descriptor's place: there is no room for it.
				nc.Close()
				s.refused(NoDescriptors)
				spare.Hold()
				continue
			}
			s.accept(nc)
		case s.draining.Load():
			return ErrServerClosed
		case sys.Exhausted(err) && spare.Release():
			// Accept now has one descriptor: it waits for the next connection,
			// without spinning, instead of failing at once.
		case sys.Exhausted(err) || temporary(err):
			s.noise.say(s.Logger, slog.LevelWarn, NoDescriptors, "accept failed; trying again", "error", err)
			if !pause.wait(s.stop, func() bool { return s.draining.Load() }) {
				return ErrServerClosed
			}
		default:
			return err
		}
	}
}

// listenerCloser closes a listener, which need not be comparable, once.
type listenerCloser struct {
	ln   net.Listener
	once sync.Once
}

func (c *listenerCloser) close() { c.once.Do(func() { c.ln.Close() }) }

// prepare makes the engine ready for ln's connections. A listener that has
// SystemCalls is a test's, which has the calls on its connections fail as it
// likes. Other listeners than sockets may never have a connection for a loop: loops
// are started for the first.
func (s *Server) prepare(ln net.Listener) error {
	if s.how.style != events {
		return nil
	}
	switch ln := ln.(type) {
	case interface{ SystemCalls() sys.Fault }:
		return s.startLoops(ln.SystemCalls())
	case *net.TCPListener, *net.UnixListener:
		return s.startLoops(nil)
	}
	if runtime.GOOS != "linux" {
		return s.startLoops(nil) // which fails, and says so
	}
	return nil
}

// accept serves nc, or refuses it.
func (s *Server) accept(nc net.Conn) {
	from, counted := remoteAddr(nc), false
	proxy := s.trusts(from.Addr())
	onLoop, socket := s.how.style == events && isSocket(nc), sys.NoSocket
	if onLoop {
		err := s.startLoops(nil)
		if err == nil {
			socket, err = sys.Take(nc.(syscall.Conn))
		}
		if err != nil {
			nc.Close()
			s.refused(NoDescriptors)
			return
		}
	}
	s.mu.Lock()
	why := s.admit(from.Addr(), proxy, &counted)
	s.mu.Unlock()
	if why == TooManyConns && s.displace() {
		s.mu.Lock()
		why = s.admit(from.Addr(), proxy, &counted)
		s.mu.Unlock()
	}
	switch {
	case why != 0:
		socket.Close()
		s.turnAway(nc, why)
	case onLoop:
		nc.Close() // before the poll knows the socket: closing that alone must be its end
		s.joinLoop(socket, from, proxy, counted)
	default:
		s.startGoroutine(nc, from, proxy, counted)
	}
}

// notTaken is why a shard has taken no connection.
func notTaken(err error) Reason {
	if err == ErrServerClosed {
		return ShuttingDown
	}
	return NoDescriptors
}

// admit enters one more connection from addr in the books, or says why it may
// not be served; mu is held. One that speaks for another address is not counted
// for its own.
func (s *Server) admit(addr netip.Addr, proxy bool, counted *bool) Reason {
	switch {
	case s.draining.Load():
		return ShuttingDown
	case !proxy && !s.hasPlace(addr):
		return TooManyPerAddress
	case s.open-s.displacing >= s.limits.Conns:
		return TooManyConns
	}
	if !proxy {
		s.count(addr, counted)
	}
	s.open++
	s.accepted.Add(1)
	return 0
}

// count takes one of addr's places, if there is one; mu is held.
func (s *Server) count(addr netip.Addr, counted *bool) bool {
	if !s.hasPlace(addr) {
		return false
	}
	if addr.IsValid() && s.Limits.ConnsPerAddress > 0 {
		s.addresses[hostOf(addr)]++
		*counted = true
	}
	return true
}

// hasPlace reports whether addr may have one connection more; mu is held.
func (s *Server) hasPlace(addr netip.Addr) bool {
	return !addr.IsValid() || s.Limits.ConnsPerAddress <= 0 || s.addresses[hostOf(addr)] < s.limits.ConnsPerAddress
}

// hostOf is whom the places of an address belong to: the address itself, but the network
// of 64 bits of an IPv6 address, since a host chooses the rest as it likes.
func hostOf(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(64) // without its zone
	if err != nil {
		return addr
	}
	return network.Addr().WithZone(addr.Zone())
}

// uncount takes a connection off the books, and the place of its address if it was
// counted.
func (s *Server) uncount(why Reason, addr netip.Addr, counted, displaced bool) {
	s.endedFor(why).Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if displaced {
		s.displaced()
	}
	if counted {
		host := hostOf(addr)
		if s.addresses[host]--; s.addresses[host] == 0 {
			delete(s.addresses, host)
		}
	}
	if s.draining.Load() {
		switch {
		case s.drainEnded:
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

// remoteAddr is asked once, when the connection comes: an adapter may have
// forgotten its peer when it is closed.
func remoteAddr(nc net.Conn) netip.AddrPort {
	return addrPort(nc.RemoteAddr())
}

// addrPort is a as a value, or zero where it has no port.
func addrPort(a net.Addr) netip.AddrPort {
	if a, ok := a.(interface{ AddrPort() netip.AddrPort }); ok {
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// turnAway refuses nc, on a goroutine that tells the peer why, unless there are
// many of those already.
func (s *Server) turnAway(nc net.Conn, why Reason) {
	s.refused(why)
	s.mu.Lock()
	mine := &nc // a connection need not be comparable
	tell := len(s.refusing) < maxRefusing && !s.draining.Load()
	if tell {
		s.refusing[mine] = struct{}{}
		s.goroutines.Add(1)
	}
	s.mu.Unlock()
	if !tell {
		nc.Close()
		return
	}
	go func() {
		defer s.goroutines.Done()
		defer func() {
			s.mu.Lock()
			delete(s.refusing, mine)
			s.mu.Unlock()
			nc.Close()
		}()
		s.explainRefusal(nc, why)
	}()
}

// isSocket goes by exact type: what embeds a socket may read and write in its own
// way.
func isSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// maxRefusing bounds the refused connections that are told why; the others are
// closed without a word.
const maxRefusing = 64

// explainRefusal tells a refused peer why, and lingers so that it can hear it. A Shutdown
// does not wait for that: see hurryRefusals.
func (s *Server) explainRefusal(nc net.Conn, why Reason) {
	if _, tls := nc.(interface{ NetConn() net.Conn }); tls {
		return // a handshake for the sake of a refusal would be a gift to a flood
	}
	nc.SetDeadline(time.Now().Add(min(s.limits.LingerTime, time.Second)))
	var words []byte
	s.guard(Conn{}, func() { words = s.Protocol.Refuse(nil, nil, why) })
	nc.Write(words)
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		var waste [lingerRead]byte
		for range lingerBytes / len(waste) {
			if _, err := nc.Read(waste[:]); err != nil {
				return
			}
		}
	}
}

// hurryRefusals ends the lingering of refused connections.
func (s *Server) hurryRefusals() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.refusing {
		(*nc).SetDeadline(past())
	}
}

// refused counts a connection that was not served.
func (s *Server) refused(why Reason) {
	s.ended[why].Add(1)
	s.noise.say(s.Logger, slog.LevelWarn, why, "connection refused")
}

// trusts reports whether addr speaks for others.
func (s *Server) trusts(addr netip.Addr) bool {
	for _, p := range s.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// backoff is the pause after an accept that failed: 5 ms, doubling to 1 s.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// wait pauses and reports whether to go on.
func (b *backoff) wait(stop <-chan struct{}, over func() bool) bool {
	b.next = min(max(2*b.next, 5*time.Millisecond), time.Second)
	t := time.NewTimer(b.next)
	defer t.Stop()
	select {
	case <-stop:
		return false
	case <-t.C:
		return !over()
	}
}
