package codec

// Queue is a FIFO in a ring buffer. It grows to the most values it has held and then allocates
// nothing more.
type Queue[T any] struct {
	ring  []T
	head  int // index of the first
	count int
}

// Len returns how many values there are.
func (q *Queue[T]) Len() int { return q.count }

// Push adds v as the last.
func (q *Queue[T]) Push(v T) {
	if q.count == len(q.ring) {
		grown := make([]T, max(16, 2*len(q.ring)))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = v // the length is a power of two
	q.count++
}

// First returns the first value. It panics if the queue is empty, and so does Pop.
func (q *Queue[T]) First() T { return q.ring[q.head] }

// At returns the i-th value, from 0.
func (q *Queue[T]) At(i int) T { return q.ring[(q.head+i)&(len(q.ring)-1)] }

// Pop removes the first value and returns it.
func (q *Queue[T]) Pop() T {
	v := q.First()
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return v
}
