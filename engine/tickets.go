package engine

// tickets are the promised replies of one connection. They are exact, so that a second
// reply to a request can neither reach the peer nor settle another request. A ticket is
// its slot with the slot's generation above it.
type tickets struct {
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

func (t *tickets) take() uint64 {
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

// keepTickets is how many slots a quiet connection may keep.
const keepTickets = 64

// forget frees the slots of a large burst when nothing is open.
func (t *tickets) forget() {
	if t.open == 0 && len(t.slots) > keepTickets {
		t.slots, t.free = nil, 0
	}
}

func (t *tickets) settle(n uint64) bool {
	slot := uint32(n)
	if int64(slot) >= int64(len(t.slots)) {
		return false
	}
	s := &t.slots[slot]
	if s.next != isOpen || s.generation != uint32(n>>32) {
		return false
	}
	s.next, t.free = t.free, slot+1
	t.open--
	return true
}

// revoke settles those that are open, and returns how many were.
func (t *tickets) revoke(all []uint64) (open int) {
	for _, n := range all {
		if t.settle(n) {
			open++
		}
	}
	return open
}

// abandon closes every promise and keeps the slots' memory for another connection.
func (t *tickets) abandon() { t.slots, t.free, t.open = t.slots[:0], 0, 0 }
