// Package ticket keeps the promised replies of one connection.
package ticket

// Set is the promised replies of one connection. They are exact, so that a second
// reply to a request can neither reach the peer nor settle another request. A ticket is
// its slot with the slot's generation above it.
type Set struct {
	slots      []ticket
	open       int32
	free       uint32 // 1 + the first free slot
	generation uint32 // of the latest ticket, so that slots can be freed
}

type ticket struct {
	generation uint32
	next       uint32 // isOpen, or 1 + the next free slot
}

const isOpen = ^uint32(0)

// Open returns how many promises are open.
func (t *Set) Open() int32 { return t.open }

// StartAt makes the next ticket's generation follow that one.
func (t *Set) StartAt(generation uint32) { t.generation = generation }

// Generation returns the generation of the latest ticket.
func (t *Set) Generation() uint32 { return t.generation }

// Take opens a promise and returns its ticket.
func (t *Set) Take() uint64 {
	if t.free == 0 {
		t.slots = append(t.slots, ticket{})
		t.free = uint32(len(t.slots))
	}
	slot := t.free - 1
	s := &t.slots[slot]
	t.free = s.next
	t.generation++
	s.generation, s.next = t.generation, isOpen
	t.open++
	return uint64(slot) | uint64(s.generation)<<32
}

// keep is how many slots a quiet connection may keep.
const keep = 64

// IsLarge reports whether Forget would free memory.
func (t *Set) IsLarge() bool { return t.open == 0 && len(t.slots) > keep }

// Forget frees the slots of a large burst when nothing is open.
func (t *Set) Forget() {
	if t.IsLarge() {
		t.slots, t.free = nil, 0
	}
}

// IsOpen reports whether the promise of a ticket is open.
func (t *Set) IsOpen(n uint64) bool {
	slot := uint32(n)
	return int64(slot) < int64(len(t.slots)) && t.slots[slot] == ticket{uint32(n >> 32), isOpen}
}

// Settle closes the promise of a ticket, and reports whether it was open.
func (t *Set) Settle(n uint64) bool {
	if !t.IsOpen(n) {
		return false
	}
	slot := uint32(n)
	t.slots[slot].next, t.free = t.free, slot+1
	t.open--
	return true
}

// Revoke settles those that are open, and returns how many were.
func (t *Set) Revoke(all []uint64) (open int) {
	for _, n := range all {
		if t.Settle(n) {
			open++
		}
	}
	return open
}

// Abandon closes every promise and keeps the slots' memory for another connection.
func (t *Set) Abandon() { t.slots, t.free, t.open = t.slots[:0], 0, 0 }

// Recycled returns a set without promises for another connection, with the memory of t unless
// that is large.
func (t *Set) Recycled() Set {
	if t.Abandon(); cap(t.slots) > keep {
		return Set{}
	}
	return *t
}
