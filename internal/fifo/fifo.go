// Package fifo is a FIFO queue whose members can leave before it is their turn.
package fifo

import "iter"

// Queue is a FIFO queue. The zero value is empty.
type Queue[T any] struct {
	first, last *Member[T]
	len         int
}

// Member is a place in one queue at a time. The zero value is in none.
type Member[T any] struct {
	Value          T
	in             *Queue[T]
	before, behind *Member[T]
}

// Push adds a member that is in no queue.
func (q *Queue[T]) Push(m *Member[T]) {
	m.in, m.before = q, q.last
	if q.last != nil {
		q.last.behind = m
	} else {
		q.first = m
	}
	q.last = m
	q.len++
}

// Len returns the number of members.
func (q *Queue[T]) Len() int { return q.len }

// All returns the values, oldest first.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for m := q.first; m != nil && yield(m.Value); m = m.behind {
		}
	}
}

// First returns the value of the oldest member, or zero.
func (q *Queue[T]) First() (value T) {
	if q.first != nil {
		value = q.first.Value
	}
	return value
}

// Last returns the value of the newest member, or zero.
func (q *Queue[T]) Last() (value T) {
	if q.last != nil {
		value = q.last.Value
	}
	return value
}

// IsQueued reports whether the member is in a queue.
func (m *Member[T]) IsQueued() bool { return m.in != nil }

// Leave removes the member from its queue, and reports whether it was in one.
func (m *Member[T]) Leave() bool {
	q := m.in
	if q == nil {
		return false
	}
	if m.before != nil {
		m.before.behind = m.behind
	} else {
		q.first = m.behind
	}
	if m.behind != nil {
		m.behind.before = m.before
	} else {
		q.last = m.before
	}
	m.in, m.before, m.behind = nil, nil, nil
	q.len--
	return true
}
