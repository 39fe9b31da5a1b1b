package engine

import "github.com/hone-go/hone/pool"

// outputQueue is output that was posted to a connection and not yet handed to a
// writer. The connection's mutex guards it.
type outputQueue struct {
	buffer   pool.Buffer
	top      int  // how much of it was posted before the current visit
	visiting bool // in a visit whose output goes before what is posted during it
	free     int  // of that visit: how much a writer may take already
}

func (q *outputQueue) len() int {
	if !q.buffer.Lent() {
		return 0
	}
	return len(q.buffer.Bytes())
}

// held reports whether there is nothing that a writer may take now.
func (q *outputQueue) held() bool { return !q.buffer.Lent() || q.visiting && q.free == 0 }

// take hands the queue to a writer, or what it may take of it.
func (q *outputQueue) take(buffers *pool.Buffers) pool.Buffer {
	if !q.visiting || q.free >= q.len() {
		return q.takeAll()
	}
	b, all := buffers.Get(q.free), q.buffer.Bytes()
	copy(b.Bytes(), all)
	q.buffer.SetLen(copy(all, all[q.free:]))
	q.top, q.free = q.top-q.free, 0
	return b
}

func (q *outputQueue) takeAll() pool.Buffer {
	b := q.buffer
	q.buffer, q.top, q.free = pool.Buffer{}, 0, 0
	return b
}

// startVisit remembers what was posted before this visit.
func (q *outputQueue) startVisit() { q.visiting, q.top, q.free = true, q.len(), 0 }

// letEarlierGo lets a writer take what was posted before the visit.
func (q *outputQueue) letEarlierGo() { q.free = q.top }

// add appends parts, n bytes in all, and reports whether that took more memory.
func (q *outputQueue) add(s *Server, parts [][]byte, n int) (grown bool) {
	grown = q.reserve(&s.buffers, n)
	for _, p := range parts {
		q.buffer.Write(p)
	}
	return grown
}

// insert adds a visit's output: before what was posted during the visit if that is held,
// else at the end. It reports whether that took more memory.
func (q *outputQueue) insert(s *Server, p []byte) (grown bool) {
	grown = q.reserve(&s.buffers, len(p))
	end := q.len()
	at := end
	if q.visiting {
		at = min(q.top, end)
		q.top = at + len(p)
	}
	q.buffer.SetLen(end + len(p))
	b := q.buffer.Bytes()
	copy(b[at+len(p):], b[at:end])
	copy(b[at:], p)
	return grown
}

// reserve makes room for n more bytes, and reports whether that took more memory.
func (q *outputQueue) reserve(buffers *pool.Buffers, n int) (grown bool) {
	if !q.buffer.Lent() {
		q.buffer = buffers.Get(max(n, 1))
		q.buffer.SetLen(0)
		return true
	}
	have := q.buffer.Bytes()
	if grown = n > cap(have)-len(have); grown {
		q.buffer.Grow(max(n, min(len(have), maxPooled)))
	}
	return grown
}

// capacity is the memory of a buffer, 0 if there is none.
func capacity(b pool.Buffer) int64 {
	if !b.Lent() {
		return 0
	}
	return int64(cap(b.Bytes()))
}
