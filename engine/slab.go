package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
)

// slot is all that a connection of an event loop costs while nothing is in
// flight. It has no pointers, so the collector passes over a slab of them, and it
// is one line of the cache; what a connection needs beyond it is its inflight.
//
// One goroutine at a time owns a connection: its loop, the goroutine that runs its
// handler while it is away from the loop, or, on a goroutine engine, its own. The
// owner alone reads from the socket, visits the protocol and closes. mu guards
// what others touch.
type slot struct {
	mu         sync.Mutex
	state      uint64        // the owner's: Turn.State; while free: 1 + the next free slot
	tenant     atomic.Uint32 // the generation, 0 while free, and awayBit; written under mu
	why        atomic.Uint32 // the first fatal Reason wins
	seen       atomic.Uint32 // bytes last arrived, or a visit last ended
	since      atomic.Uint32 // the phase began
	phase      atomic.Uint32
	socket     sys.Socket   // the owner's, who closes it under mu; on an event loop
	tickets    uint32       // the generation that the next inflight's tickets go on from
	own        flags        // the owner's, of the first kind
	slowVisits uint8        // the owner's: visits to pass beside the loop before it is trusted again
	epoch      uint8        // the owner's: the alarm of the loop since which it was found fast
	marks      flags        // under mu, of the second kind
	opened     bool         // written under mu by the owner, who has seen it
	dead       bool         // under mu: nothing may be posted or written any more
	want       sys.Interest // under mu: what is to be reported
	suspect    Reason       // under mu: what the sweeper thinks
	counted    bool         // its address holds a place; guarded by Server.mu
	spoken     bool         // written under mu by the owner: a byte of a message has come
	trusted    bool         // under mu: it has proved who it is
	displaced  bool         // under mu: it is to make room for a newcomer, see accept_silent.go
	port       uint16
	address    [4]byte // of IPv4; else it is in side.sixes
	weight     uint8   // the owner's: how much its visits produce, see connRef.learn; 0 while nobody knows
	speaks     uint8   // which of Server.spoken; written under mu by the owner
}

// flags are true or not, eight in a byte.
type flags uint8

func (f flags) has(flag flags) bool { return f&flag != 0 }
func (f *flags) set(flag flags)     { *f |= flag }
func (f *flags) clear(flag flags)   { *f &^= flag }

// The owner's flags.
const (
	drains     flags = 1 << iota // what has arrived is still answered, see inflight.left
	isStopped                    // Advance has ended the service
	isKnown                      // to OnOpen, so that OnClose must be told
	wantsProxy                   // a PROXY header comes first
	hasAsked                     // a request was given to the protocol's user code
	isLate                       // its last visit has left replies owed
)

// The flags under mu.
const (
	isShut    flags = 1 << iota // nothing may be posted any more; what was posted is written
	isSaid                      // the peer has been told why: no push may follow
	isWaiting                   // the owner waits for room, or for all to be settled
	isTired                     // quiet for long enough to wait on less memory
	isDirty                     // in its shard's list
	isListed                    // registered with the poll
	hasFour                     // an address of IPv4
	hasSix                      // an address of IPv6
)

// awayBit of slot.tenant: somebody other than the loop owns the connection. It is
// one word with the generation, because a loop that holds a report must learn both
// at one moment: between two loads the connection could end beside the loop, and
// the next one take its slot.
const awayBit = 1 << 31

// shard is a share of a server's connections: their slots, and the list of those
// that somebody has to look at. An event loop has one, and so has each flusher of
// the goroutine engines.
type shard struct {
	srv      *Server
	counts   *counters
	loop     *loop         // whose it is; nil on a goroutine engine
	poll     *sys.Poll     // the loop's
	visiting atomic.Uint64 // the loop's: the visit under way; see events_watchdog.go
	borrowed atomic.Int32  // workspaces that connections of a goroutine engine have
	rouse    func()        // ends the runner's sleep; called with mu held

	mu         sync.Mutex
	dirty      []uint64    // keys of connections to look at
	pending    atomic.Bool // there are some; written under mu
	asleep     bool        // the runner waits, and rouse is needed
	leaving    bool        // nothing new is taken in, and the runner ends
	gone       bool        // it has ended
	closed     bool        // the poll is
	open       int
	roomy      int    // no chunk before this one has a free slot
	generation uint32 // of the connection taken in last
	chunks     atomic.Pointer[[]chunk]
}

// chunk is a piece of a shard's slab. Slots never move.
type chunk struct {
	slots     *[chunkSlots]slot
	inflights *[chunkSlots]atomic.Pointer[inflight]
	side      *side
}

// side is what a chunk needs beside its slots.
type side struct {
	open  int                                  // guarded by shard.mu
	free  int                                  // 1 + the first free slot; guarded by shard.mu
	sixes atomic.Pointer[[chunkSlots][16]byte] // addresses of IPv6; nil until there is one
}

const (
	chunkSlots = 1 << 10 // whole pages: 64 KiB of slots, 8 of pointers
	slotBits   = 24
	maxSlots   = 1 << slotBits
)

// connRef is a connection at hand: where its parts are. It is small enough to be
// passed in registers: one word more costs a late reply a twentieth.
type connRef struct {
	sh  *shard
	s   *slot
	x   *atomic.Pointer[inflight]
	key uint64 // slot, and above it the generation
}

func keyOf(slot int, generation uint32) uint64 { return uint64(slot) | uint64(generation)<<32 }

func (k *connRef) generation() uint32 { return uint32(k.key >> 32) }

// conn is the connection as a value that may be kept.
func (k *connRef) conn() Conn { return Conn{sh: k.sh, key: k.key} }

// standing says whether the connection has ended, and else whether it is away
// from its loop. If neither, it cannot change but through the loop.
func (k *connRef) standing() (ended, away bool) {
	t := k.s.tenant.Load()
	return t&^awayBit != k.generation(), t&awayBit != 0
}

func (k *connRef) setAway(away bool) {
	t := k.generation()
	if away {
		t |= awayBit
	}
	k.s.tenant.Store(t)
}

// find is the connection that key names. It may have ended: ask standing, or lock
// instead.
func (sh *shard) find(key uint64) (connRef, bool) {
	i := int(uint32(key))
	chunks := *sh.chunks.Load()
	if i/chunkSlots >= len(chunks) {
		return connRef{}, false
	}
	c := &chunks[i/chunkSlots]
	return connRef{sh: sh, s: &c.slots[i%chunkSlots], x: &c.inflights[i%chunkSlots], key: key}, true
}

// lock is find with the connection's mutex held, or false if it has ended.
func (sh *shard) lock(key uint64) (connRef, bool) {
	k, ok := sh.find(key)
	if !ok {
		return k, false
	}
	k.s.mu.Lock()
	if ended, _ := k.standing(); ended {
		k.s.mu.Unlock()
		return k, false
	}
	return k, true
}

// take finds a slot for a new connection and names it.
func (sh *shard) take() (connRef, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.leaving {
		return connRef{}, ErrServerClosed
	}
	chunks := *sh.chunks.Load()
	for sh.roomy < len(chunks) && chunks[sh.roomy].side.free == 0 {
		sh.roomy++
	}
	if sh.roomy == len(chunks) {
		if len(chunks)*chunkSlots >= maxSlots {
			return connRef{}, syscall.ENOMEM
		}
		grown := append(chunks[:len(chunks):len(chunks)], newChunk())
		sh.chunks.Store(&grown)
		chunks = grown
	}
	c := &chunks[sh.roomy]
	i := c.side.free - 1
	s := &c.slots[i]
	c.side.free = int(s.state)
	c.side.open++
	sh.open++
	if sh.generation++; sh.generation == awayBit {
		sh.generation = 1
	}
	return connRef{sh: sh, s: s, x: &c.inflights[i], key: keyOf(sh.roomy*chunkSlots+i, sh.generation)}, nil
}

func newChunk() chunk {
	c := chunk{new([chunkSlots]slot), new([chunkSlots]atomic.Pointer[inflight]), &side{free: 1}}
	for i := range c.slots[:chunkSlots-1] {
		c.slots[i].state = uint64(i + 2)
	}
	return c
}

// free gives an ended connection's slot back, and the slab's last chunks when a
// crowd has left.
func (k *connRef) free() {
	sh, s := k.sh, k.s
	s.mu.Lock()
	x := k.x.Swap(nil)
	s.tenant.Store(0)
	s.mu.Unlock()
	if x != nil && x.g == nil {
		sh.srv.putInflight(x)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	chunks := *sh.chunks.Load()
	slot := int(uint32(k.key))
	c := &chunks[slot/chunkSlots]
	s.state = uint64(c.side.free)
	c.side.free = slot%chunkSlots + 1
	c.side.open--
	sh.open--
	sh.roomy = min(sh.roomy, slot/chunkSlots)
	n := len(chunks)
	for n > 1 && chunks[n-1].side.open == 0 && chunks[n-2].side.open <= chunkSlots/2 {
		n--
	}
	if n < len(chunks) {
		kept := chunks[:n:n] // what is published is never written again: others read it without a lock
		sh.chunks.Store(&kept)
	}
	if sh.open == 0 && sh.leaving {
		sh.wake()
		sh.closeIfLast()
	}
}

// each calls do with every connection of the shard, its mutex held.
func (sh *shard) each(do func(k connRef)) {
	for i, c := range *sh.chunks.Load() {
		for j := range c.slots {
			s := &c.slots[j]
			if s.tenant.Load() == 0 {
				continue
			}
			s.mu.Lock()
			if t := s.tenant.Load(); t != 0 {
				do(connRef{sh: sh, s: s, x: &c.inflights[j], key: keyOf(i*chunkSlots+j, t&^awayBit)})
			}
			s.mu.Unlock()
		}
	}
}

// list has the shard's runner look at the connection. mu held.
func (k *connRef) list() {
	if k.s.marks.has(isDirty) {
		return
	}
	k.s.marks.set(isDirty)
	k.sh.look(k.key)
}

// look has the runner look at a connection, whoever holds its mutex.
func (sh *shard) look(key uint64) {
	sh.mu.Lock()
	sh.dirty = append(sh.dirty, key)
	sh.pending.Store(true)
	sh.wake()
	sh.mu.Unlock()
}

// collect swaps the list for batch, which is empty, and reports whether it had
// anything.
func (sh *shard) collect(batch []uint64) ([]uint64, bool) {
	batch = batch[:0]
	if !sh.pending.Load() {
		return batch, false
	}
	sh.mu.Lock()
	batch, sh.dirty = sh.dirty, batch
	sh.pending.Store(false)
	sh.mu.Unlock()
	return batch, len(batch) > 0
}

// wake ends the runner's sleep; sh.mu is held.
func (sh *shard) wake() {
	if sh.asleep && !sh.closed {
		sh.asleep = false
		sh.rouse()
	}
}

// over reports whether a runner that is to end has nothing left to wait for;
// sh.mu is held.
func (sh *shard) over() bool { return sh.leaving && (sh.open == 0 || sh.srv.abandoned.Load()) }

// closeIfLast closes the poll when nobody is left to use it; sh.mu is held.
func (sh *shard) closeIfLast() {
	if sh.gone && sh.open == 0 && sh.poll != nil && !sh.closed {
		sh.closed = true
		sh.poll.Close()
	}
}

// end has the runner end: as soon as its last connection has, or at once when the
// server has given up waiting.
func (sh *shard) end() {
	sh.mu.Lock()
	sh.leaving = true
	sh.wake()
	sh.mu.Unlock()
}

// six is where the connection's address is if it has one of IPv6. mu held.
func (k *connRef) six() *[16]byte {
	i := int(uint32(k.key))
	side := (*k.sh.chunks.Load())[i/chunkSlots].side
	if side.sixes.Load() == nil {
		side.sixes.CompareAndSwap(nil, new([chunkSlots][16]byte))
	}
	return &side.sixes.Load()[i%chunkSlots]
}

// setAddr sets the peer's address. mu held.
func (k *connRef) setAddr(a netip.AddrPort) {
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
	if zone := a.Addr().Zone(); zone != "" {
		k.attach().rarely().zone = zone
	} else if x := k.x.Load(); x != nil && x.rare != nil {
		x.rare.zone = ""
	}
}

// addr is the peer's address. mu held.
func (k *connRef) addr() netip.AddrPort {
	switch s := k.s; {
	case s.marks.has(hasFour):
		return netip.AddrPortFrom(netip.AddrFrom4(s.address), s.port)
	case s.marks.has(hasSix):
		ip := netip.AddrFrom16(*k.six())
		if x := k.x.Load(); x != nil && x.rare != nil {
			ip = ip.WithZone(x.rare.zone)
		}
		return netip.AddrPortFrom(ip, s.port)
	}
	return netip.AddrPort{}
}
