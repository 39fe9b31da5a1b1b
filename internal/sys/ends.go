package sys

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// End is the near end of a stream that the kernel does not have. Its methods may be called from any
// goroutine, and do not wait.
type End interface {
	Read(p []byte) (int, error)            // ErrAgain, ErrClosed, or why it is broken
	Write(p []byte) (int, error)           // a short count comes with ErrAgain
	State() (in, out, broken, hungUp bool) // as Ready has it
	Watch(changed func())                  // to be called after each change of State, without the End's lock
	CloseWrite() error
	ResetOnClose()
	Close() error
	Unsent() int         // what the peer has not acknowledged
	Unread() int         // what a read finds
	PeerLeft() bool      // the peer has closed its side, or the stream is broken
	LocalAddr() net.Addr // zero port: LocalAddr of the poll is zero
	Lend() net.Conn      // for who may wait; it has a method End() End, by which TakeBack finds this
}

// ender is a net.Conn that is an End in other hands.
type ender interface{ End() End }

// ends is a Poll without a kernel: of Ends, which have the numbers below NoSocket.
type ends struct {
	fault   Fault
	shuffle func(n int, swap func(i, j int)) // may be nil
	kick    chan struct{}                    // wakes who waits

	mu    sync.Mutex // before that of an End
	woken bool       // by Wake
	slots []endSlot
	free  []int
	ready []int // slots that are queued
}

// endSlot is what a poll knows of an End.
type endSlot struct {
	end    End
	key    uint64
	want   Interest
	added  bool
	spent  bool // Once, and reported
	queued bool // its state has changed, or was ready when it was last asked
}

// NewEndsPoll returns a Poll that serves Ends alone, on every system. Reports that are ready together
// are ordered by shuffle, which may be nil. It has no descriptors.
func NewEndsPoll(fault Fault, shuffle func(n int, swap func(i, j int))) *Poll {
	return &Poll{ends: &ends{fault: fault, shuffle: shuffle, kick: make(chan struct{}, 1)}}
}

// ServesEnds reports whether NewEndsPoll has made the poll.
func (p *Poll) ServesEnds() bool { return p.ends != nil }

// Adopt gives e a number, which Add takes. CloseSocket and Lend free it.
func (p *Poll) Adopt(e End) Socket {
	s := p.ends
	s.mu.Lock()
	defer s.mu.Unlock()
	var i int
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i, s.slots = len(s.slots), append(s.slots, endSlot{})
	}
	s.slots[i] = endSlot{end: e}
	e.Watch(func() { s.changed(i, e) })
	return NoSocket - 1 - Socket(i)
}

// changed has the next wait ask an End for its state.
func (s *ends) changed(i int, e End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := &s.slots[i]; slot.end == e && slot.added {
		s.queue(i)
	}
}

// queue has the next wait ask for a state. mu held.
func (s *ends) queue(i int) {
	if slot := &s.slots[i]; !slot.queued {
		slot.queued = true
		s.ready = append(s.ready, i)
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// at returns the End of a socket, or nil.
func (s *ends) at(socket Socket) End {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := int(NoSocket - 1 - socket); i < len(s.slots) {
		return s.slots[i].end
	}
	return nil
}

// register is Add, Change and Remove.
func (s *ends) register(socket Socket, want Interest, key uint64, added bool) error {
	if s.fault != nil && added { // the kernel has no reason to refuse a removal
		if _, err := s.fault.ask(CallRegister, 0); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.slots[NoSocket-1-socket]
	slot.want, slot.key, slot.added, slot.spent = want, key, added, false
	if added {
		s.queue(int(NoSocket - 1 - socket))
	}
	return nil
}

// release frees the number of an End.
func (s *ends) release(socket Socket) End {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := int(NoSocket - 1 - socket)
	e, queued := s.slots[i].end, s.slots[i].queued
	if e == nil {
		return nil
	}
	s.slots[i] = endSlot{queued: queued} // it stays in the queue until a wait finds it
	s.free = append(s.free, i)
	return e
}

// now fills reports with what is ready.
func (s *ends) now(reports []Ready) (n int) {
	if s.fault != nil {
		if reports = s.fault.allowed(reports); len(reports) == 0 {
			return 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken {
		s.woken = false
		reports[0] = newReady(WakeKey, true, false, false, false)
		n++
	}
	if s.shuffle != nil {
		s.shuffle(len(s.ready), func(i, j int) { s.ready[i], s.ready[j] = s.ready[j], s.ready[i] })
	}
	asked := s.ready
	s.ready = s.ready[:0:0]
	for at, i := range asked {
		if n == len(reports) {
			s.ready = append(s.ready, asked[at:]...)
			break
		}
		slot := &s.slots[i]
		if report, ok := slot.report(); ok {
			reports[n] = report
			n++
			slot.spent = slot.want&Once != 0
			s.ready = append(s.ready, i) // level-triggered
		} else {
			slot.queued = false
		}
	}
	return n
}

// report returns the report of an End that is ready.
func (s *endSlot) report() (r Ready, ok bool) {
	if !s.added || s.spent {
		return r, false
	}
	in, out, broken, hungUp := s.end.State()
	in, out = (in || broken) && s.want&In != 0, (out || broken) && s.want&Out != 0
	return newReady(s.key, in, out, broken, hungUp), in || out || broken || hungUp
}

// wait is now, after it has waited for something to report.
func (s *ends) wait(reports []Ready) int {
	for {
		if n := s.now(reports); n > 0 {
			return n
		}
		<-s.kick
	}
}

func (s *ends) wake() {
	s.mu.Lock()
	s.woken = true
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *ends) read(socket Socket, b []byte) (int, error) {
	e := s.at(socket)
	if e == nil {
		return 0, net.ErrClosed
	}
	return e.Read(b)
}

func (s *ends) write(socket Socket, b []byte) (int, error) {
	e := s.at(socket)
	if e == nil {
		return 0, net.ErrClosed
	}
	return e.Write(b)
}

// What follows is done with a socket of this poll, beside waiting, reading and writing. A nil Poll serves
// the system's sockets.

// end returns the End that s is, or nil.
func (p *Poll) end(s Socket) End {
	if s < NoSocket {
		return p.ends.at(s)
	}
	return nil
}

// CloseSocket closes s, and removes it from the poll.
func (p *Poll) CloseSocket(s Socket) error {
	if s >= NoSocket {
		return s.Close()
	}
	e := p.ends.release(s)
	if e == nil {
		return net.ErrClosed
	}
	return e.Close()
}

// Lend gives s to code that may wait. The number is free afterwards.
func (p *Poll) Lend(s Socket) (net.Conn, error) {
	if s >= NoSocket {
		return NetConn(s)
	}
	return p.ends.release(s).Lend(), nil
}

// TakeBack makes a socket of what was lent. The connection must not be used any more.
func (p *Poll) TakeBack(nc net.Conn) (Socket, error) {
	if e, ok := nc.(ender); ok {
		return p.Adopt(e.End()), nil
	}
	s, err := Take(nc.(syscall.Conn))
	if err == nil {
		nc.Close()
	}
	return s, err
}

// CloseWrite shuts down the sending direction of s.
func (p *Poll) CloseWrite(s Socket) error {
	if e := p.end(s); e != nil {
		return e.CloseWrite()
	}
	return s.CloseWrite()
}

// ResetOnClose makes CloseSocket discard unsent data and reset the connection.
func (p *Poll) ResetOnClose(s Socket) {
	if e := p.end(s); e != nil {
		e.ResetOnClose()
	} else {
		s.ResetOnClose()
	}
}

// Unsent returns how many bytes the peer of s has not acknowledged.
func (p *Poll) Unsent(s Socket) int {
	if e := p.end(s); e != nil {
		return e.Unsent()
	}
	return s.Unsent()
}

// Unread returns how many bytes have arrived for s.
func (p *Poll) Unread(s Socket) int {
	if e := p.end(s); e != nil {
		return e.Unread()
	}
	return s.Unread()
}

// PeerLeft reports whether the peer of s has closed its side or broken the connection.
func (p *Poll) PeerLeft(s Socket) bool {
	if e := p.end(s); e != nil {
		return e.PeerLeft()
	}
	return s != NoSocket && HungUp(uintptr(s))
}

// IsReceived reports whether the peer of s has acknowledged everything, or never will.
func (p *Poll) IsReceived(s Socket) bool {
	if e := p.end(s); e != nil {
		_, _, broken, _ := e.State()
		return broken || e.Unsent() == 0
	}
	return Unsent(uintptr(s)) == 0 || Broken(uintptr(s))
}

// LocalAddr returns the local address of s.
func (p *Poll) LocalAddr(s Socket) netip.AddrPort {
	if e := p.end(s); e != nil {
		if a, ok := e.LocalAddr().(*net.TCPAddr); ok {
			return a.AddrPort()
		}
		return netip.AddrPort{}
	}
	return s.LocalAddr()
}

// maxInterrupts bounds how often a Fault may interrupt one call.
const maxInterrupts = 64

// ask calls the Fault until it no longer interrupts, and limits its answer to what was
// requested.
func (f Fault) ask(c Call, n int) (int, error) {
	for range maxInterrupts {
		allow, err := f(c, n)
		if err == nil || !errors.Is(err, syscall.EINTR) {
			return min(max(allow, 0), n), err
		}
	}
	return n, nil
}

// allowed returns the part of ready that the fault lets a wait fill.
func (f Fault) allowed(ready []Ready) []Ready {
	// An interrupted wait returns, so EINTR is not retried here.
	allow, err := f(CallWait, len(ready))
	if err != nil {
		return nil
	}
	return ready[:min(max(allow, 0), len(ready))]
}
