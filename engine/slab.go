package engine

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/pool"
)

// slot is one connection of an event loop: all that it costs while nothing is
// in flight. It has no pointers, so the collector passes over a slab of them;
// what a connection needs beyond it is its flight.
//
// One goroutine at a time owns a connection: its loop, or, while it is away,
// the goroutine that runs its handler. The owner alone reads from the socket,
// visits the protocol and closes. mu guards what others touch, and holding it is
// the right to write to the socket.
type slot struct {
	mu         sync.Mutex
	state      uint64        // the owner's: Turn.State; while free: 1 + the next free slot
	generation atomic.Uint32 // 0: free; written under mu
	why        atomic.Uint32 // the first fatal Reason wins
	stamps     slotStamps
	socket     sys.Socket   // the owner's, who closes it under mu
	tickets    uint32       // the generation that the next flight's tickets go on from
	away       atomic.Bool  // not owned by its loop; written under mu
	own        facts        // the owner's, of the first kind
	doubt      uint8        // the owner's: visits to pass beside the loop before it is trusted again
	epoch      uint8        // the owner's: the loop's epoch in which it was last found fast
	marks      facts        // under mu, of the second kind
	opened     bool         // written under mu by the owner, who has seen it
	over       bool         // under mu: nothing may be posted or written any more
	want       sys.Interest // under mu: what is to be reported
	suspect    Reason       // under mu: what the sweeper thinks
	counted    bool         // its address holds a place; guarded by Server.mu
	port       uint16
	address    [4]byte // of IPv4; else it is in side.sixes
}

// facts are true or not, eight in a byte: so a slot is one line of the cache.
type facts uint8

func (f facts) has(fact facts) bool { return f&fact != 0 }
func (f *facts) set(fact facts)     { *f |= fact }
func (f *facts) clear(fact facts)   { *f &^= fact }

// The owner's facts.
const (
	drains     facts = 1 << iota // what has arrived is still answered, see flight.left
	hasSaid                      // the peer has been told why
	isKnown                      // to OnOpen, so that OnClose must be told
	wantsProxy                   // a PROXY header comes first
)

// The facts under mu.
const (
	isShut    facts = 1 << iota // nothing may be posted any more, what was is written
	isWaiting                   // the owner waits for room, or to be done
	isTired                     // the flight may be given back
	isDirty                     // in the loop's list
	isListed                    // registered with the poll
	hasFour                     // an address of IPv4
	hasSix                      // an address of IPv6
)

// slotStamps are those stamps that an idle connection needs.
type slotStamps struct{ seen, since, phase atomic.Uint32 }

// flight is what a connection needs while anything is in flight: input that is
// not served, output that waits, replies that are owed.
type flight struct {
	rest  pool.Buffer // the owner's: what is behind from is input that is not served
	from  int
	ready bool // the owner's: the protocol can serve more of it as soon as there is room
	lacks int  // the owner's: bytes that must arrive before the protocol is asked
	left  int  // the owner's: bytes still to be read in a drain, or to be dropped

	frame, size, stall, unsent atomic.Uint32 // see stamps
	stuck                      atomic.Bool   // replies of a visit are in front: nothing is read; written under mu

	waiting  int64       // under mu: bytes in front and queue
	front    pool.Buffer // under mu: output that is being written; the peer took none of it for now
	sent     int         // under mu: bytes of front that have gone
	charged  int64       // under mu: of waiting, what the server has been told
	late     uint64      // under mu: late replies that the tally has not been told
	queue    backlog
	promises tickets // under mu: late replies outstanding
	value    any
	zone     string         // of the address
	give     func(net.Conn) // the owner's: takes the socket over
	given    net.Conn       // under mu: it has
}

// chunk is a piece of a slab. Slots never move.
type chunk struct {
	slots   *[chunkSlots]slot
	flights *[chunkSlots]atomic.Pointer[flight]
	side    *side
}

// side is what a chunk needs beside its slots.
type side struct {
	open  int                                  // guarded by the loop's mutex
	free  int                                  // 1 + the first free slot; guarded by the loop's mutex
	sixes atomic.Pointer[[chunkSlots][16]byte] // addresses of IPv6; nil until there is one
}

const (
	chunkSlots = 1 << 10 // whole pages: 64 KiB of slots, 8 of flights
	slotBits   = 24
	maxSlots   = 1 << slotBits
)

// link is a connection at hand: where its parts are. It is small enough to be
// passed in registers: one word more costs a late reply a twentieth.
type link struct {
	l   *loop
	s   *slot
	x   *atomic.Pointer[flight]
	key uint64 // slot, and above it the generation
}

func keyOf(slot int, generation uint32) uint64 { return uint64(slot) | uint64(generation)<<32 }

// find is the connection that key names. It may have ended: compare generations
// under its mutex, or as its owner.
func (l *loop) find(key uint64) (link, bool) {
	i := int(uint32(key))
	chunks := *l.chunks.Load()
	if i/chunkSlots >= len(chunks) {
		return link{}, false
	}
	c := &chunks[i/chunkSlots]
	return link{l: l, s: &c.slots[i%chunkSlots], x: &c.flights[i%chunkSlots], key: key}, true
}

// lock is find with the connection's mutex held, or false if it has ended.
func (l *loop) lock(key uint64) (link, bool) {
	k, ok := l.find(key)
	if !ok {
		return k, false
	}
	k.s.mu.Lock()
	if k.s.generation.Load() != uint32(key>>32) {
		k.s.mu.Unlock()
		return k, false
	}
	return k, true
}

// take finds a slot for a new connection and names it.
func (l *loop) take() (link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving {
		return link{}, ErrServerClosed
	}
	chunks := *l.chunks.Load()
	for l.roomy < len(chunks) && chunks[l.roomy].side.free == 0 {
		l.roomy++
	}
	if l.roomy == len(chunks) {
		if len(chunks)*chunkSlots >= maxSlots {
			return link{}, syscall.ENOMEM
		}
		chunks = append(chunks[:len(chunks):len(chunks)], newChunk())
		l.chunks.Store(&chunks)
	}
	c := &chunks[l.roomy]
	i := c.side.free - 1
	s := &c.slots[i]
	c.side.free = int(s.state)
	c.side.open++
	l.open++
	if l.generation++; l.generation == 0 {
		l.generation++
	}
	return link{l: l, s: s, x: &c.flights[i], key: keyOf(l.roomy*chunkSlots+i, l.generation)}, nil
}

func newChunk() chunk {
	c := chunk{new([chunkSlots]slot), new([chunkSlots]atomic.Pointer[flight]), &side{free: 1}}
	for i := range c.slots[:chunkSlots-1] {
		c.slots[i].state = uint64(i + 2)
	}
	return c
}

// free gives an ended connection's slot back, and the slab's last chunk when a
// crowd has left.
func (k *link) free() {
	l, s := k.l, k.s
	s.mu.Lock()
	x := k.x.Swap(nil)
	s.generation.Store(0)
	s.mu.Unlock()
	if x != nil {
		x.clear()
		l.srv.flights.Put(x)
	}
	l.mu.Lock()
	chunks := *l.chunks.Load()
	slot := int(uint32(k.key))
	c := &chunks[slot/chunkSlots]
	s.state = uint64(c.side.free)
	c.side.free = slot%chunkSlots + 1
	c.side.open--
	l.open--
	l.roomy = min(l.roomy, slot/chunkSlots)
	for n := len(chunks); n > 1 && chunks[n-1].side.open == 0 && chunks[n-2].side.open <= chunkSlots/2; n-- {
		chunks = chunks[: n-1 : n-1]
		l.chunks.Store(&chunks)
	}
	if l.open == 0 {
		l.wake()
		l.closeIfLast()
	}
	l.mu.Unlock()
}

// fly is the connection's flight, made when there is none. mu held.
func (k *link) fly() *flight {
	x := k.x.Load()
	if x == nil {
		x = k.l.srv.flights.Get().(*flight)
		x.promises.generation = k.s.tickets
		k.x.Store(x)
	}
	return x
}

// land gives the flight of a quiet connection back. mu held, by the owner. A
// connection that takes its leave keeps it: what is left to be read is there.
func (k *link) land() {
	x := k.x.Load()
	if x == nil || !x.quiet() || x.value != nil || x.zone != "" || k.s.own.has(drains) || k.phase() != serving {
		return
	}
	k.s.tickets = x.promises.generation
	k.x.Store(nil)
	x.clear()
	k.l.srv.flights.Put(x)
}

// quiet reports whether nothing is in flight.
func (x *flight) quiet() bool {
	return !x.rest.Lent() && !x.front.Lent() && !x.queue.buffer.Lent() && x.promises.open == 0 && x.give == nil
}

// clear makes x fit for another connection.
func (x *flight) clear() {
	promises := x.promises
	if promises.abandon(); cap(promises.slots) > keepTickets {
		promises = tickets{}
	}
	*x = flight{promises: promises}
}

// six is where the connection's address is if it has one of IPv6. mu held.
func (k *link) six() *[16]byte {
	i := int(uint32(k.key))
	side := (*k.l.chunks.Load())[i/chunkSlots].side
	if side.sixes.Load() == nil {
		side.sixes.CompareAndSwap(nil, new([chunkSlots][16]byte))
	}
	return &side.sixes.Load()[i%chunkSlots]
}

// setAddr sets all of the address but its zone. mu held.
func (k *link) setAddr(a netip.AddrPort) {
	s := k.s
	s.marks.clear(hasFour | hasSix)
	s.port = a.Port()
	switch ip := a.Addr(); {
	case ip.Is4():
		s.marks.set(hasFour)
		s.address = ip.As4()
	case ip.Is6():
		s.marks.set(hasSix)
		*k.six() = ip.As16()
	}
}

// addr is the peer's address. mu held.
func (k *link) addr() netip.AddrPort {
	switch s := k.s; {
	case s.marks.has(hasFour):
		return netip.AddrPortFrom(netip.AddrFrom4(s.address), s.port)
	case s.marks.has(hasSix):
		ip := netip.AddrFrom16(*k.six())
		if x := k.x.Load(); x != nil && x.zone != "" {
			ip = ip.WithZone(x.zone)
		}
		return netip.AddrPortFrom(ip, s.port)
	}
	return netip.AddrPort{}
}
