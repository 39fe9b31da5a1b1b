package engine

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Serve accepts connections from ln until Shutdown or Close, and then returns
// ErrServerClosed; ln is closed in every case. Running out of descriptors does
// not end it.
func (s *Server) Serve(ln net.Listener) error {
	s.init()
	defer ln.Close()
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return ErrServerClosed
	}
	mine := &ln // a listener need not be comparable
	s.listeners[mine] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, mine)
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
			s.take(nc)
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

// prepare makes the engine ready for ln's connections. A listener that has
// SystemCalls is a test's, which has the calls on its connections fail as it
// likes.
func (s *Server) prepare(ln net.Listener) error {
	if s.how.style != events {
		return nil
	}
	var fault sys.Fault
	if test, ok := ln.(interface{ SystemCalls() sys.Fault }); ok {
		fault = test.SystemCalls()
	}
	return s.start(fault)
}

// take serves nc, or refuses it.
func (s *Server) take(nc net.Conn) {
	var why Reason
	if s.how.style == events && isSocket(nc) {
		why = s.board(nc)
	} else {
		var c *session
		if c, why = s.enlist(nc); why == 0 {
			c.touch()
			go c.live()
		}
	}
	if why == 0 {
		return
	}
	s.refused(why)
	s.mu.Lock()
	tell := s.refusing < maxRefusing && !s.draining.Load()
	if tell {
		s.refusing++
		s.goroutines.Add(1)
	}
	s.mu.Unlock()
	if !tell {
		nc.Close()
		return
	}
	go func() {
		defer s.goroutines.Done()
		s.sayNo(nc, why)
		s.mu.Lock()
		s.refusing--
		s.mu.Unlock()
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

// sayNo tells a refused peer why, and lingers so that it can hear it.
func (s *Server) sayNo(nc net.Conn, why Reason) {
	defer nc.Close()
	if _, tls := nc.(interface{ NetConn() net.Conn }); tls {
		return // a handshake for the sake of a refusal would be a gift to a flood
	}
	nc.SetDeadline(time.Now().Add(min(s.limits.LingerTime, time.Second)))
	nc.Write(s.Protocol.Refuse(nil, nil, why))
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		var waste [256]byte
		for range lingerBytes / len(waste) {
			if _, err := nc.Read(waste[:]); err != nil {
				return
			}
		}
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

// readProxyHeader takes the PROXY header from the front of in.
func (c *session) readProxyHeader(in []byte) (used, need int, why Reason) {
	used, need, addr, err := proxyHeader(in)
	if err != nil {
		return 0, 0, BadProxyHeader
	}
	if need > 0 {
		return 0, need, 0
	}
	c.proxy = false
	if addr.IsValid() {
		c.proxied = &addr
	}
	c.srv.mu.Lock()
	ok := c.srv.count(c.remoteAddr().Addr(), &c.counted)
	c.srv.mu.Unlock()
	if !ok {
		return used, 0, TooManyPerAddress
	}
	c.opened()
	return used, 0, 0
}
