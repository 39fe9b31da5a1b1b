package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// Serve accepts connections from ln until Shutdown or Close, and then returns
// ErrServerClosed; it always closes ln. It keeps running when descriptors run out. But
// when there are none for the server's first connection at the start, Serve returns an
// error: the server would refuse everybody and look as if it ran.
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
	if s.accepted.Load() == 0 && len(s.started()) == 0 {
		if err := s.how.CheckDescriptors(0); err != nil {
			return err
		}
	}
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
				// nc uses the spare descriptor's number, so there is no room for it.
				nc.Close()
				s.refused(NoDescriptors)
				spare.Hold()
				continue
			}
			s.accept(nc)
		case s.draining.Load():
			return ErrServerClosed
		case sys.Exhausted(err) && spare.Release():
			// With one descriptor free, Accept blocks until the next connection instead
			// of failing in a busy loop.
		case sys.Exhausted(err) || temporary(err):
			s.faults.Write(s.Logger, slog.LevelWarn, "accept_failed", func() (string, []any) {
				return "accept failed; trying again", []any{"error", err}
			})
			if !pause.wait(s.stop, func() bool { return s.draining.Load() }) {
				return ErrServerClosed
			}
		default:
			return err
		}
	}
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

// listenerCloser closes a listener once. It is used by pointer, because listeners need
// not be comparable.
type listenerCloser struct {
	ln   net.Listener
	once sync.Once
}

func (c *listenerCloser) close() { c.once.Do(func() { c.ln.Close() }) }

// prepare prepares the engine for ln's connections. Tests inject system call failures
// with a listener that has a SystemCalls method. Listeners other than sockets may never
// produce a connection for a loop, so loops start with the first such connection.
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
		return s.startLoops(nil) // reports that the engine is unsupported
	}
	return nil
}

// accept serves nc, or refuses it.
func (s *Server) accept(nc net.Conn) {
	from, counted := transport.AddrPort(nc.RemoteAddr()), false // once: an adapter may not know its peer any more when it is closed
	proxy := s.trusts(from.Addr())
	onLoop, socket := s.how.style == events && transport.IsSocket(nc), sys.NoSocket
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
	if why == TooManyConns && s.displace(from.Addr()) {
		s.mu.Lock()
		why = s.admit(from.Addr(), proxy, &counted)
		s.mu.Unlock()
	}
	switch {
	case why != 0:
		socket.Close()
		s.turnAway(nc, why)
	case onLoop:
		nc.Close() // before the poll knows the socket: then closing the socket alone ends the connection
		s.joinLoop(socket, from, proxy, counted)
	default:
		s.startGoroutine(nc, from, proxy, counted)
	}
}

// notTaken returns the reason for a shard's error when it was given a connection.
func notTaken(err error) Reason {
	if err == ErrServerClosed {
		return ShuttingDown
	}
	return NoDescriptors
}

// admit counts a new connection from addr, or returns the reason to refuse it; mu is
// held. A proxy's connection does not count against the proxy's own address.
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

// count adds a connection to addr's count if the limit allows; mu is held.
func (s *Server) count(addr netip.Addr, counted *bool) bool {
	if !s.hasPlace(addr) {
		return false
	}
	if s.isCounted(addr) {
		s.addresses[hostOf(addr)]++
		*counted = true
	}
	return true
}

// hasPlace reports whether addr may have one more connection; mu is held.
func (s *Server) hasPlace(addr netip.Addr) bool {
	return !s.isCounted(addr) || s.addresses[hostOf(addr)] < s.limits.ConnsPerAddress
}

// isCounted reports whether the limit of connections per address applies to addr.
func (s *Server) isCounted(addr netip.Addr) bool {
	return s.Limits.ConnsPerAddress > 0 && addr.IsValid() && !within(s.Uncounted, addr)
}

// hostOf returns the key for limits per address: the address itself, or the /64 prefix of
// an IPv6 address, because a host can choose the other 64 bits freely.
func hostOf(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(64) // drops the zone
	if err != nil {
		return addr
	}
	return network.Addr().WithZone(addr.Zone())
}

// uncount removes an ended connection from the counts.
func (s *Server) uncount(why Reason, addr netip.Addr, counted, displaced bool) {
	s.endedFor(why).Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if displaced {
		s.displaced()
	}
	if s.open-s.displacing <= s.limits.Conns {
		s.excess = 0
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

// turnAway refuses nc. A goroutine sends the reason to the peer, unless too many such
// goroutines are running.
func (s *Server) turnAway(nc net.Conn, why Reason) {
	s.refused(why)
	s.mu.Lock()
	mine := &nc // a key, because connections need not be comparable
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

// maxRefusing is the maximum number of refused connections that get a reason at the same
// time; the others are just closed.
const maxRefusing = 64

// explainRefusal sends a refused peer the reason, and lingers so that the peer can read
// it. Shutdown does not wait for the linger: see endLingering.
func (s *Server) explainRefusal(nc net.Conn, why Reason) {
	if _, tls := nc.(interface{ NetConn() net.Conn }); tls {
		return // a TLS handshake for a refusal would help a flood
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

// endLingering ends the linger of refused connections.
func (s *Server) endLingering() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.refusing {
		(*nc).SetDeadline(transport.Past())
	}
}

// refused counts and logs a refused connection.
func (s *Server) refused(why Reason) {
	s.ended[why].Add(1)
	s.faults.Write(s.Logger, slog.LevelWarn, why.String(), func() (string, []any) { return "connection refused", nil })
}

// trusts reports whether addr is a trusted proxy.
func (s *Server) trusts(addr netip.Addr) bool { return within(s.TrustedProxies, addr) }

// within reports whether one of the prefixes contains addr.
func within(all []netip.Prefix, addr netip.Addr) bool {
	for _, p := range all {
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

// backoff is the pause after a failed accept: 5 ms, doubling to 1 s.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

// wait pauses, and reports whether to continue.
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
