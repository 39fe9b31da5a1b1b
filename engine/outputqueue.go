package engine

import "github.com/hone-go/hone/pool"

// outputQueue is the output posted to a connection that no writer has taken yet. The
// connection's mutex guards it.
type outputQueue struct {
	buffer   pool.Buffer
	content  []byte // of buffer, whose length is set when it is handed on; nil: empty
	top      int    // how much of it was posted before the current visit
	visiting bool   // in a visit whose output precedes what is posted during it
	free     int    // during that visit: how much a writer may take already
}

func (q *outputQueue) len() int { return len(q.content) }

// empty reports whether nothing is queued.
func (q *outputQueue) empty() bool { return q.content == nil }

// held reports whether there is nothing that a writer may take now.
func (q *outputQueue) held() bool { return q.content == nil || q.visiting && q.free == 0 }

// take hands the queue to a writer, or the part that it may take.
func (q *outputQueue) take(buffers *pool.Buffers) pool.Buffer {
	if !q.visiting || q.free >= q.len() {
		return q.takeAll()
	}
	b := buffers.Get(q.free)
	copy(b.Bytes(), q.content)
	q.content = q.content[:copy(q.content, q.content[q.free:])]
	q.top, q.free = q.top-q.free, 0
	return b
}

func (q *outputQueue) takeAll() pool.Buffer {
	b := q.buffer
	if q.content != nil {
		b.SetLen(len(q.content))
	}
	q.buffer, q.content, q.top, q.free = pool.Buffer{}, nil, 0, 0
	return b
}

// startVisit records what was posted before this visit.
func (q *outputQueue) startVisit() { q.visiting, q.top, q.free = true, q.len(), 0 }

// letEarlierGo lets a writer take what was posted before the visit.
func (q *outputQueue) letEarlierGo() { q.free = q.top }

// add appends parts, n bytes in total, and reports whether the buffer grew.
func (q *outputQueue) add(s *Server, parts [][]byte, n int) (grown bool) {
	if n > cap(q.content)-len(q.content) {
		q.reserve(&s.buffers, n)
		grown = true
	}
	for _, p := range parts {
		q.content = append(q.content, p...)
	}
	return grown
}

// insert adds a visit's output: before what was posted during the visit if that is held,
// else at the end. It reports whether the buffer grew.
func (q *outputQueue) insert(s *Server, p []byte) (grown bool) {
	end := q.len()
	at := end
	if q.visiting {
		at = min(q.top, end)
		q.top = at + len(p)
	}
	grown = q.add(s, [][]byte{p}, len(p))
	copy(q.content[at+len(p):], q.content[at:end])
	copy(q.content[at:], p)
	return grown
}

// reserve makes room for n more bytes.
func (q *outputQueue) reserve(buffers *pool.Buffers, n int) {
	if q.content == nil {
		q.buffer = buffers.Get(max(n, smallQueue))
	} else {
		q.buffer.SetLen(len(q.content))
		q.buffer.Grow(max(n, min(len(q.content), maxPooled)))
	}
	q.content = q.buffer.Bytes()[:len(q.content)]
}

// smallQueue is the minimum capacity: a queue rarely holds just one short reply.
const smallQueue = 512

// capacity returns the memory of a buffer, 0 if there is none.
func capacity(b pool.Buffer) int64 {
	if !b.Lent() {
		return 0
	}
	return int64(cap(b.Bytes()))
}
