package engine

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
)

// How a connection comes to a loop.

// start starts the loops, if they have not been.
func (s *Server) start(fault sys.Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || len(s.started()) > 0 {
		return nil
	}
	for i := range runtime.GOMAXPROCS(0) {
		l, err := newLoop(s, i, fault)
		if err != nil {
			for _, l := range s.loops {
				l.poll.Close()
			}
			s.loops = nil
			return fmt.Errorf("engine: %w", err)
		}
		s.loops = append(s.loops, l)
	}
	close(s.running)
	for _, l := range s.loops {
		s.crew.do(task{l: l})
	}
	if s.how.hand != Inline { // Offload has hooks on its loops
		s.goroutines.Add(1)
		go s.watchOver()
	}
	return nil
}

// started are the loops, once there are any.
func (s *Server) started() []*loop {
	select {
	case <-s.running:
		return s.loops
	default:
		return nil
	}
}

// board gives nc's socket to the loop that has the fewest, or says why it may not be
// served; nc is closed unless it is to be told.
func (s *Server) board(nc net.Conn) Reason {
	from := remoteAddr(nc)
	addr, counted := from.Addr(), false
	proxy := s.trusts(addr)
	socket, err := sys.Take(nc.(syscall.Conn))
	if err != nil {
		nc.Close()
		s.refused(NoDescriptors)
		return 0
	}
	s.mu.Lock()
	why := s.admit(addr, proxy, &counted)
	s.mu.Unlock()
	if why != 0 {
		socket.Close()
		return why
	}
	nc.Close() // before the poll knows the socket: closing that alone must be its end
	k, err := s.emptiest().take()
	if err != nil {
		socket.Close()
		if !counted {
			addr = netip.Addr{}
		}
		s.strike(NoDescriptors, addr)
		return 0
	}
	k.begin(socket, from, proxy, counted)
	return 0
}

// emptiest is the loop that has the fewest connections.
func (s *Server) emptiest() (least *loop) {
	fewest := 0
	for _, l := range s.loops {
		l.mu.Lock()
		if n := l.open; least == nil || n < fewest {
			least, fewest = l, n
		}
		l.mu.Unlock()
	}
	return least
}

// begin makes a connection of a slot.
func (k *link) begin(socket sys.Socket, from netip.AddrPort, proxy, counted bool) {
	s, srv := k.s, k.l.srv
	s.mu.Lock()
	s.why.Store(0)
	s.stamps.phase.Store(uint32(serving))
	s.stamps.since.Store(0)
	s.away.Store(true) // ours, for now
	s.state, s.socket, s.tickets = 0, socket, 0
	s.own, s.marks, s.over, s.doubt, s.epoch = 0, 0, false, 0, 0
	s.want, s.suspect, s.counted = 0, 0, counted
	k.setAddr(from)
	k.touch()
	s.generation.Store(uint32(k.key >> 32))
	if zone := from.Addr().Zone(); zone != "" {
		k.fly().zone = zone
	}
	switch {
	case proxy:
		s.own.set(wantsProxy)
	case srv.OnOpen == nil:
		s.own.set(isKnown)
	}
	s.opened = s.own != 0
	if !s.opened || srv.draining.Load() {
		k.notify()
	}
	k.settle()
}

// readProxyHeader takes the PROXY header from the front of in.
func (k *link) readProxyHeader(in []byte) (used, need int, why Reason) {
	used, need, addr, err := proxyHeader(in)
	if err != nil {
		return 0, 0, BadProxyHeader
	}
	if need > 0 {
		return 0, need, 0
	}
	s, srv := k.s, k.l.srv
	s.own.clear(wantsProxy)
	s.mu.Lock()
	x := k.x.Load()
	if addr.IsValid() {
		k.setAddr(addr)
		if x != nil {
			x.zone = ""
		}
	}
	from := k.addr().Addr()
	s.mu.Unlock()
	srv.mu.Lock()
	ok := srv.count(from, &s.counted)
	srv.mu.Unlock()
	if !ok {
		return used, 0, TooManyPerAddress
	}
	s.own.set(isKnown)
	if srv.OnOpen != nil {
		srv.guard(k.conn(), func() { srv.OnOpen(k.conn()) })
	}
	return used, 0, 0
}
