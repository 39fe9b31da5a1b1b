package engine

import (
	"math"

	"github.com/hone-go/hone/pool"
)

// backlog is output that was posted to a connection and not yet handed to a
// writer. The connection's mutex guards it.
type backlog struct {
	buffer   pool.Buffer
	top      int  // that much of it was posted before the current visit
	visiting bool // in a visit of an ordered protocol: its output goes first
}

func (q *backlog) len() int {
	if !q.buffer.Lent() {
		return 0
	}
	return len(q.buffer.Bytes())
}

// held reports whether there is nothing that a writer may take now.
func (q *backlog) held() bool { return !q.buffer.Lent() || q.visiting }

// take hands the backlog to a writer.
func (q *backlog) take() pool.Buffer {
	b := q.buffer
	q.buffer, q.top = pool.Buffer{}, 0
	return b
}

// startVisit remembers what was posted before this visit.
func (q *backlog) startVisit() { q.visiting, q.top = true, q.len() }

// add appends parts, n bytes in all.
func (q *backlog) add(s *Server, parts [][]byte, n int) {
	q.reserve(&s.buffers, n)
	for _, p := range parts {
		q.buffer.Write(p)
	}
}

// insert adds a visit's output: in an ordered protocol before what was posted
// during the visit, else at the end.
func (q *backlog) insert(s *Server, p []byte) {
	q.reserve(&s.buffers, len(p))
	end := q.len()
	at := min(q.top, end)
	if !s.ordered {
		at = end
	}
	q.buffer.SetLen(end + len(p))
	b := q.buffer.Bytes()
	copy(b[at+len(p):], b[at:end])
	copy(b[at:], p)
}

// reserve makes room for n more bytes.
func (q *backlog) reserve(buffers *pool.Buffers, n int) {
	if !q.buffer.Lent() {
		q.buffer = buffers.Get(max(n, 1))
		q.buffer.SetLen(0)
	} else if have := q.buffer.Bytes(); n > cap(have)-len(have) {
		q.buffer.Grow(max(n, len(have)))
	}
}

// charge counts n bytes more that wait for peers, and has the sweeper look when
// they pass the budget.
func (s *Server) charge(n int) {
	now, budget := s.queued.Add(int64(n)), int64(s.limits.TotalOutput)
	if before := now - int64(n); before <= budget && now > budget {
		s.clock.sweepNow()
	}
}

// hardest is what may gather while a write is under way that the peer has not
// refused yet.
func (l *Limits) hardest() int { return int(min(2*int64(l.HardCap), math.MaxInt32)) }
