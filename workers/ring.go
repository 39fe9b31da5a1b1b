package workers

// ring is a FIFO queue in a ring buffer that grows by doubling. Callers of push bound its
// length.
type ring[T any] struct {
	slots []T // length is a power of two, or zero
	head  int
	len   int
}

func (r *ring[T]) push(v T) {
	if r.len == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.len)&(len(r.slots)-1)] = v
	r.len++
}

func (r *ring[T]) grow() {
	bigger := make([]T, max(8, 2*len(r.slots)))
	n := copy(bigger, r.slots[r.head:])
	copy(bigger[n:], r.slots[:r.head])
	r.slots, r.head = bigger, 0
}

func (r *ring[T]) pushFront(v T) {
	if r.len == len(r.slots) {
		r.grow()
	}
	r.head = (r.head - 1) & (len(r.slots) - 1)
	r.slots[r.head] = v
	r.len++
}

// first returns the oldest element; the ring must not be empty.
func (r *ring[T]) first() *T { return &r.slots[r.head] }

// pop removes the oldest element; the ring must not be empty. It clears the slot (pond
// #110).
func (r *ring[T]) pop() T {
	slot := &r.slots[r.head]
	v := *slot
	var zero T
	*slot = zero
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.len--
	return v
}

// remove removes all elements that match, at most limit, and appends them to dst.
func (r *ring[T]) remove(dst []T, limit int, match func(T) bool) []T {
	for range r.len {
		if v := r.pop(); limit > 0 && match(v) {
			dst = append(dst, v)
			limit--
		} else {
			r.push(v)
		}
	}
	return dst
}

// turns schedules priority levels, of which 0 is the highest.
type turns struct {
	passed [mostLevels]int // how often a level with tasks was passed over
}

const mostPassed = 16

// next returns the level to serve; size returns the length of each level's queue, and at
// least one is not empty.
func (t *turns) next(levels int, size func(level int) int) int {
	chosen, starved := -1, -1
	for l := range levels {
		switch {
		case size(l) == 0:
			t.passed[l] = 0
			continue
		case chosen < 0:
			chosen = l
		}
		if starved < 0 || t.passed[l] > t.passed[starved] {
			starved = l
		}
	}
	if t.passed[starved] >= mostPassed {
		chosen = starved
	}
	for l := range levels {
		if size(l) > 0 {
			t.passed[l]++
		}
	}
	t.passed[chosen] = 0
	return chosen
}
