package load

// queue is a FIFO in a ring buffer. It grows to the most values it has held and then allocates
// nothing more.
type queue[T any] struct {
	ring  []T
	head  int // index of the first
	count int
}

func (q *queue[T]) push(v T) {
	if q.count == len(q.ring) {
		grown := make([]T, max(16, 2*len(q.ring)))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = v // the length is a power of two
	q.count++
}

// first returns the first value. It panics if the queue is empty, and so does pop.
func (q *queue[T]) first() T { return q.ring[q.head] }

// at returns the i-th value, from 0.
func (q *queue[T]) at(i int) T { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue[T]) pop() T {
	v := q.first()
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return v
}
