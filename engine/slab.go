package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/pace"
	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/secure"
	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// slot is the whole memory of an event loop's connection while nothing is in flight. It
// has no pointers, so the garbage collector skips a slab of them, and it fits one cache
// line; everything else is in inflight.
//
// One goroutine at a time owns a connection: its loop, the goroutine that runs its
// handler while it is off the loop, or, on a goroutine engine, its own. Only the owner
// reads from the socket, visits the protocol and closes. mu guards what others access.
type slot struct {
	mu         sync.Mutex
	state      uint64        // the owner's: Turn.State; while free: 1 + the next free slot
	tenant     atomic.Uint32 // the generation, 0 while free, and awayBit; written under mu
	why        atomic.Uint32 // the first fatal Reason wins
	seen       atomic.Uint32 // when bytes last arrived, or a visit last ended
	since      atomic.Uint32 // when the phase began
	phase      atomic.Uint32
	socket     sys.Socket   // on an event loop: the owner's, who closes it under mu
	tickets    uint32       // generation at which the next inflight's tickets start
	own        flags        // the owner's flags
	slowVisits uint8        // the owner's: fast visits off the loop before it returns to the loop
	epoch      uint8        // the owner's: the loop's alarm since which it was found fast
	marks      flags        // the flags under mu
	opened     bool         // written under mu by the owner; OnOpen is done
	dead       bool         // under mu: nothing may be posted or written any more
	want       sys.Interest // under mu: registered interest
	suspect    Reason       // under mu: reason suspected by the sweeper
	counted    bool         // counted for its address; guarded by Server.mu
	spoken     bool         // written under mu by the owner: a byte of a message has arrived
	facets     flags        // more flags, under mu
	secured    bool         // it has a TLS layer, see side.layers; fixed
	port       uint16
	address    [4]byte       // if IPv4; IPv6 is in side.sixes
	weight     ration.Weight // the owner's: typical output of its visits
	speaks     uint8         // index in Server.spoken; written under mu by the owner
}

// flags is a set of eight booleans.
type flags uint8

func (f flags) has(flag flags) bool { return f&flag != 0 }
func (f *flags) set(flag flags)     { *f |= flag }
func (f *flags) clear(flag flags)   { *f &^= flag }

// The owner's flags.
const (
	drains     flags = 1 << iota // what has arrived is still answered, see inflight.left
	isStopped                    // Advance has ended the service
	isKnown                      // OnOpen was called, so OnClose must be
	wantsProxy                   // a PROXY header comes first
	hasAsked                     // user code has had a request
	isLate                       // its last visit has left replies owed
	mustShake                    // a TLS handshake comes first, after the PROXY header
	isOver                       // the end of a TLS connection's input was decrypted
)

// shakesNext reports whether a TLS handshake comes next.
func (f flags) shakesNext() bool { return f&(mustShake|wantsProxy) == mustShake }

// The flags under mu.
const (
	isShut    flags = 1 << iota // no more posts; what was posted is written
	isSaid                      // the peer was sent the reason: no push may follow
	isWaiting                   // the owner waits for room, or for all replies to be sent
	isTired                     // quiet for long enough to wait with less memory
	isDirty                     // in its shard's list
	isListed                    // registered with the poll
	hasFour                     // has an IPv4 address
	hasSix                      // has an IPv6 address
)

// The facets, which rarely change.
const (
	isTrusted   flags = 1 << iota // authenticated
	isDisplaced                   // is being displaced, see accept_room.go
	isShaken                      // its TLS handshake is complete
	isHandedOff                   // it waits for a helper, see helpers.claim
	isInLine                      // and all helpers are busy, or it has no turn at a handshake
	isLeaving                     // its turn to end has come in a drain
	isGiven                       // its socket was given away: user code may still run, but nothing waits for it
)

// awayBit of slot.tenant means that somebody other than the loop owns the connection. It
// shares a word with the generation, because a loop that holds an event must read both
// atomically: between two loads the connection could end off the loop, and the next one
// reuse its slot.
const awayBit = 1 << 31

// shard is a share of a server's connections: their slots, and the list of those that
// need attention. Each event loop has one, and so has each flusher of the goroutine
// engines.
type shard struct {
	srv    *Server
	loop   *loop     // its loop; nil on a goroutine engine
	poll   *sys.Poll // the loop's
	chunks atomic.Pointer[[]chunk]

	counts counters // between what is only read and what others write too

	visiting atomic.Uint64 // the loop's: the running visit; see events_watchdog.go

	pace.Bell // keys of connections that need attention

	mu         sync.Mutex   // before the Bell's
	leaving    atomic.Bool  // no new connections; the runner will end; written under mu
	gone       bool         // the runner has ended
	closed     bool         // the poll is closed
	open       atomic.Int32 // connections; written under mu
	roomy      int          // no chunk before this one has a free slot
	generation uint32       // of the latest connection
}

// chunk is a piece of a shard's slab. Slots never move.
type chunk struct {
	slots     *[chunkSlots]slot
	inflights *[chunkSlots]atomic.Pointer[inflight]
	side      *side
}

// side is a chunk's data outside of its slots.
type side struct {
	open  int                                  // guarded by shard.mu
	free  int                                  // 1 + the first free slot; guarded by shard.mu
	sixes atomic.Pointer[[chunkSlots][16]byte] // IPv6 addresses; nil until there is one
	// layers are of the connections with TLS on an event loop; nil until there is one. An entry is
	// the owner's, who sets it under mu.
	layers atomic.Pointer[[chunkSlots]*secure.Conn]
	values atomic.Pointer[[chunkSlots]any] // of Conn.SetValue; nil until there is one. An entry is under its connection's mu
}

const (
	chunkSlots = 1 << 10 // whole pages: 64 KiB of slots, 8 of pointers
	slotBits   = 24
	maxSlots   = 1 << slotBits
)

// connRef is a resolved connection: pointers to its parts. It is small enough to be
// passed in registers: one word more would cost a late reply 5 %.
type connRef struct {
	sh  *shard
	s   *slot
	x   *atomic.Pointer[inflight]
	key uint64 // slot in the low bits, generation above
}

// held and owner are a connection together with a right of the caller: methods of held need
// the connection's mutex, methods of owner need its ownership. A call of held() or owner()
// claims the right, so these calls are what a reviewer checks. Both are the same pointer and
// cost nothing. The right of held ends with the unlock; a method that unlocks says so.
type (
	held  struct{ *connRef }
	owner struct{ *connRef }
)

// held returns k for a caller that holds its mutex.
func (k *connRef) held() held { return held{k} }

// owner returns k for its owner.
func (k *connRef) owner() owner { return owner{k} }

func keyOf(slot int, generation uint32) uint64 { return uint64(slot) | uint64(generation)<<32 }

func (k *connRef) generation() uint32 { return uint32(k.key >> 32) }

// link returns the connection's transport, to its owner or to whoever holds its mutex.
func (k *connRef) link() transport.Link {
	if x := k.x.Load(); x != nil && x.g != nil {
		return transport.Link{Stream: &x.g.Stream}
	}
	return transport.Link{Poll: k.sh.poll, Socket: k.s.socket}
}

// standing reports whether the connection has ended, and otherwise whether it is away
// from its loop. If neither, only the loop can change it.
func (k *connRef) standing() (ended, away bool) {
	t := k.s.tenant.Load()
	return t&^awayBit != k.generation(), t&awayBit != 0
}

func (k held) setAway(away bool) {
	t := k.generation()
	if away {
		t |= awayBit
	}
	k.s.tenant.Store(t)
}

// find resolves key. The connection may have ended: call standing, or use lock instead.
func (sh *shard) find(key uint64) (connRef, bool) {
	i := int(uint32(key))
	chunks := *sh.chunks.Load()
	if i/chunkSlots >= len(chunks) {
		return connRef{}, false
	}
	c := &chunks[i/chunkSlots]
	return connRef{sh: sh, s: &c.slots[i%chunkSlots], x: &c.inflights[i%chunkSlots], key: key}, true
}

// lock is find with the connection's mutex held; it returns false if the connection has
// ended.
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

// take allocates a slot for a new connection, or returns the reason to refuse it.
func (sh *shard) take() (connRef, Reason) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.leaving.Load() {
		return connRef{}, ShuttingDown
	}
	chunks := *sh.chunks.Load()
	for sh.roomy < len(chunks) && chunks[sh.roomy].side.free == 0 {
		sh.roomy++
	}
	if sh.roomy == len(chunks) {
		if len(chunks)*chunkSlots >= maxSlots {
			return connRef{}, NoDescriptors
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
	sh.open.Add(1)
	if sh.generation++; sh.generation == awayBit {
		sh.generation = 1
	}
	return connRef{sh: sh, s: s, x: &c.inflights[i], key: keyOf(sh.roomy*chunkSlots+i, sh.generation)}, 0
}

func newChunk() chunk {
	c := chunk{new([chunkSlots]slot), new([chunkSlots]atomic.Pointer[inflight]), &side{free: 1}}
	for i := range c.slots[:chunkSlots-1] {
		c.slots[i].state = uint64(i + 2)
	}
	return c
}

// free returns an ended connection's slot, and frees the slab's last chunks after a burst
// of connections.
func (k owner) free() {
	sh, s := k.sh, k.s
	s.mu.Lock()
	x := k.x.Swap(nil)
	s.tenant.Store(0)
	if s.secured {
		*k.held().layerAt() = nil
	}
	if side, i := k.side(); side.values.Load() != nil {
		side.values.Load()[i] = nil
	}
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
	open := sh.open.Add(-1)
	sh.roomy = min(sh.roomy, slot/chunkSlots)
	n := len(chunks)
	for n > 1 && chunks[n-1].side.open == 0 && chunks[n-2].side.open <= chunkSlots/2 {
		n--
	}
	if n < len(chunks) {
		kept := slices.Clone(chunks[:n]) // a published slice is never modified: others read it without a lock
		sh.chunks.Store(&kept)
	}
	if open == 0 && sh.leaving.Load() {
		sh.Wake()
		sh.closeIfLast()
	}
}

// each calls do with every connection of the shard, with its mutex held.
func (sh *shard) each(do func(k connRef)) {
	for i := range len(*sh.chunks.Load()) * chunkSlots {
		k, ok := sh.find(uint64(i))
		if !ok || k.s.tenant.Load() == 0 {
			continue
		}
		k.s.mu.Lock()
		if t := k.s.tenant.Load() &^ awayBit; t != 0 {
			k.key = keyOf(i, t)
			do(k)
		}
		k.s.mu.Unlock()
	}
}

// list makes the shard's runner check the connection.
func (k held) list() {
	if k.s.marks.has(isDirty) {
		return
	}
	k.s.marks.set(isDirty)
	k.sh.Look(k.key)
}

// over reports whether a runner that is to end has nothing left to wait for; sh.mu is
// held.
func (sh *shard) over() bool {
	return sh.leaving.Load() && (sh.open.Load() == 0 || sh.srv.abandoned.Load())
}

// closeIfLast closes the poll when nobody uses it any more; sh.mu is held.
func (sh *shard) closeIfLast() {
	if sh.gone && sh.open.Load() == 0 && sh.poll != nil && !sh.closed {
		sh.closed = true
		sh.Mute()
		sh.poll.Close()
	}
}

// end makes the runner end: after its last connection, or at once when the server has
// given up waiting.
func (sh *shard) end() {
	sh.mu.Lock()
	sh.leaving.Store(true)
	sh.mu.Unlock()
	sh.Wake()
}

// reason returns why the connection is ending, 0 while it is not.
func (k *connRef) reason() Reason { return Reason(k.s.why.Load()) }

// fail records why the connection ends. The first reason wins, except that any reason
// replaces PeerClosed, which only says that the peer will send no more.
func (k *connRef) fail(why Reason) {
	if !k.s.why.CompareAndSwap(0, uint32(why)) {
		k.s.why.CompareAndSwap(uint32(PeerClosed), uint32(why))
	}
}

// kill makes sure that nothing more is written.
func (k *connRef) kill() {
	k.s.mu.Lock()
	k.s.dead = true
	k.s.mu.Unlock()
}

// broke ends a connection whose socket has failed.
func (k *connRef) broke() {
	k.fail(PeerReset)
	k.kill()
}

func (k *connRef) phase() life.Phase { return life.Phase(k.s.phase.Load()) }

func (k *connRef) enter(p life.Phase) { k.sh.srv.clock.Enter(&k.s.since, &k.s.phase, p) }

// touch resets the idle timeout.
func (k *connRef) touch() { k.sh.srv.clock.Stamp(&k.s.seen) }

// attach returns the connection's inflight, created if there is none.
func (k held) attach() *inflight {
	x := k.x.Load()
	if x == nil {
		x = k.sh.srv.inflights.Get().(*inflight)
		x.promises.StartAt(k.s.tickets)
		k.x.Store(x)
	}
	return x
}

// attachUnlocked is attach for an owner that does not hold mu.
func (k owner) attachUnlocked() *inflight {
	if x := k.x.Load(); x != nil {
		return x
	}
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	return k.held().attach()
}

// side returns what the connection's chunk has outside of its slots, and the connection's place there.
func (k *connRef) side() (*side, int) {
	i := int(uint32(k.key))
	return (*k.sh.chunks.Load())[i/chunkSlots].side, i % chunkSlots
}

// entry returns an entry of an array of a side, which is created when one is first needed.
func entry[T any](of *atomic.Pointer[[chunkSlots]T], i int) *T {
	if of.Load() == nil {
		of.CompareAndSwap(nil, new([chunkSlots]T))
	}
	return &of.Load()[i]
}

// layerAt returns where the connection's layer is stored.
func (k held) layerAt() **secure.Conn {
	side, i := k.side()
	return entry(&side.layers, i)
}

// layer returns the layer of a connection that has one, to its owner or to whoever holds its mutex.
func (k *connRef) layer() *secure.Conn {
	side, i := k.side()
	return side.layers.Load()[i]
}

// counters are a shard's part of a server's counters. No other shard writes within 128 bytes of
// them: processors fetch cache lines in pairs, and two that write into one pair wait for each other.
type counters struct {
	_                                                                                   [128]byte
	requests, promised, late, pushes, dropped, bytesIn, bytesOut, sleeps, turns, events atomic.Uint64
	_                                                                                   [128]byte
}

// eachShard calls do with those of all loops, also of loops that have ended, and of the flushers.
func (s *Server) eachShard(do func(sh *shard)) {
	for _, l := range s.started() {
		do(&l.shard)
	}
	for _, f := range s.flushers {
		do(&f.shard)
	}
}

// each calls do with every connection, with its mutex held.
func (s *Server) each(do func(k connRef)) { s.eachShard(func(sh *shard) { sh.each(do) }) }

// speaks returns the connection's protocol. The caller is the owner, or holds mu.
func (k *connRef) speaks() *spoken { return (*k.sh.srv.spoken.Load())[k.s.speaks] }
