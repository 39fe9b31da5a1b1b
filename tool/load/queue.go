package load

// queue holds values in a ring, which grows to the most it has held and
// allocates nothing after that.
type queue[T any] struct {
	ring  []T
	head  int // the place of the first
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

// first panics when there is none, and so does pop.
func (q *queue[T]) first() T { return q.ring[q.head] }

// at is the i-th, from 0.
func (q *queue[T]) at(i int) T { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue[T]) pop() T {
	v := q.first()
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return v
}
