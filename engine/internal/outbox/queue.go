// Package outbox holds the output that was posted to a connection and no writer has taken yet.
package outbox

import (
	"slices"

	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/pool"
)

// Queue is the output posted to a connection that no writer has taken yet. The
// connection's mutex guards it.
type Queue struct {
	chain          // what a writer takes next
	behind   *held // what was posted during the current visit, if that holds it back
	visiting bool  // in a visit whose output precedes what is posted during it
	free     bool  // a writer may take the chain although the visit has not ended
}

// held is a chain behind a visit's output.
type held struct {
	chain
	spans []int // lengths of what was posted, in order; negative: pushes
}

// Len returns the number of bytes, those that are held included.
func (q *Queue) Len() int {
	n := q.chain.len()
	if q.behind != nil {
		n += q.behind.len()
	}
	return n
}

// IsEmpty reports whether nothing is queued.
func (q *Queue) IsEmpty() bool {
	return q.content == nil && (q.behind == nil || q.behind.content == nil)
}

// Memory returns the capacity of the buffers.
func (q *Queue) Memory() int64 {
	n := q.size
	if q.behind != nil {
		n += q.behind.size
	}
	return n
}

// Waits reports whether there is nothing that a writer may take now.
func (q *Queue) Waits() bool { return q.content == nil || q.visiting && !q.free }

// StartVisit records what was posted before this visit.
func (q *Queue) StartVisit() {
	q.release()
	q.visiting, q.free = true, false
}

// IsVisiting reports whether a visit holds back what is posted.
func (q *Queue) IsVisiting() bool { return q.visiting }

// Ready returns the number of bytes that are not held behind a visit's output.
func (q *Queue) Ready() int { return q.chain.len() }

// LetEarlierGo lets a writer take what was posted before the visit, and the visit's output
// so far.
func (q *Queue) LetEarlierGo() { q.free = true }

// PostHeld appends parts, n bytes in total, during a visit that holds them back, and reports
// whether that took more memory.
func (q *Queue) PostHeld(memory *Memory, parts [][]byte, n int, push bool) (grown bool) {
	h := q.behind
	if h == nil {
		h = new(held)
		q.behind = h
	}
	span := n
	if push {
		span = -n
	}
	if last := len(h.spans) - 1; last >= 0 && (h.spans[last] < 0) == push {
		h.spans[last] += span
	} else {
		h.spans = append(h.spans, span)
	}
	return h.Add(memory, parts, n)
}

// release puts what was held at the end of the chain.
func (q *Queue) release() {
	if h := q.behind; h != nil {
		h.spans = h.spans[:0]
		if h.content != nil {
			q.join(&h.chain)
		}
	}
}

// EndVisit lets a writer take what was posted during the visit, less the pushes if the
// visit's output has ended with the protocol's error message. It returns how many bytes it
// has dropped.
func (q *Queue) EndVisit(memory *Memory, said bool) (dropped int) {
	if !q.visiting {
		return 0
	}
	if said && q.behind != nil {
		dropped = q.behind.dropPushes(memory)
	}
	q.release()
	q.visiting, q.free = false, false
	return dropped
}

// DropHeld drops what was posted during the visit, and returns how many bytes that is.
func (q *Queue) DropHeld() (dropped int) {
	if h := q.behind; h != nil {
		dropped = h.len()
		h.drop(nil)
		h.spans = h.spans[:0]
	}
	return dropped
}

// DropAll drops everything; to is where the memory goes, nil: to the pool.
func (q *Queue) DropAll(to *ration.Spares) {
	q.drop(to)
	if q.behind != nil {
		q.behind.drop(to)
	}
	q.DropHeld()
}

// dropPushes keeps the late replies only, and returns how many bytes it has dropped.
func (h *held) dropPushes(memory *Memory) (dropped int) {
	all := h.chain
	h.chain = chain{}
	b, rest := pool.Buffer{}, []byte(nil)
	for _, span := range h.spans {
		for left := max(span, -span); left > 0; {
			if len(rest) == 0 {
				if b.Lent() {
					b.Release()
				}
				b = all.Take()
				rest = b.Bytes()
			}
			n := min(left, len(rest))
			if span < 0 {
				dropped += n
			} else {
				h.Add(memory, [][]byte{rest[:n]}, n)
			}
			rest, left = rest[n:], left-n
		}
	}
	if b.Lent() {
		b.Release()
	}
	return dropped
}

// chain is bytes in pieces of memory. It grows by a piece: growing a buffer would copy what
// is in it, and leave memory of every smaller size behind that nobody asks for again.
type chain struct {
	full    []pool.Buffer // pieces before the last, from next on
	next    int
	last    pool.Buffer
	content []byte // of the last piece, whose length is set when it is handed on; nil: the chain is empty
	before  int    // bytes in full
	size    int64  // capacity of all pieces
	taken   uint32 // bytes that were handed on, modulo 2^32
	offers  []int  // which pieces of full may be dropped, oldest first; len(full) is the last piece
	offered int    // bytes in them
}

const (
	leastPiece = 512      // a queue rarely holds just one short reply
	mostPiece  = 16 << 10 // but for a larger post
	keepPieces = 8        // for how many pieces an empty chain keeps the list
)

func (c *chain) len() int { return c.before + len(c.content) }

// Add appends parts, n bytes in total, and reports whether that took another piece.
func (c *chain) Add(memory *Memory, parts [][]byte, n int) (grown bool) {
	content := c.content
	if grown = n > cap(content)-len(content); grown {
		if content != nil || memory.Spares.Any() {
			c.addAcross(memory, parts, n)
			return true
		}
		c.last = memory.Get(max(n, leastPiece)) // most queues are written before more is added
		content = c.last.Bytes()[:0]
		c.size += int64(cap(content))
	}
	for _, p := range parts {
		content = append(content, p...)
	}
	c.content = content
	return grown
}

// addAcross adds parts that need another piece.
func (c *chain) addAcross(memory *Memory, parts [][]byte, n int) {
	for _, p := range parts {
		for n -= len(p); ; c.extend(memory, len(p)+n) {
			m := copy(c.content[len(c.content):cap(c.content)], p)
			c.content = c.content[:len(c.content)+m]
			if p = p[m:]; len(p) == 0 {
				break
			}
		}
	}
}

// Offer appends a piece of its own that may be dropped.
func (c *chain) Offer(memory *Memory, parts [][]byte, n int) {
	c.close()
	c.last = memory.Get(n)
	c.content = c.last.Bytes()[:0:n] // nothing more fits
	for _, p := range parts {
		c.content = append(c.content, p...)
	}
	c.size += Capacity(c.last)
	c.offers = append(c.offers, len(c.full))
	c.offered += n
}

// Offered returns how many bytes may be dropped.
func (c *chain) Offered() int { return c.offered }

// DropOffer drops the oldest piece that may be dropped, if there are others of its kind, and
// returns how many bytes that is.
func (c *chain) DropOffer(memory *Memory) (dropped int) {
	if len(c.offers) < 2 {
		return 0
	}
	at := c.offers[0]
	c.passOffers(1, 1)
	b := c.full[at]
	c.full = slices.Delete(c.full, at, at+1)
	dropped = len(b.Bytes())
	c.before, c.size, c.offered = c.before-dropped, c.size-Capacity(b), c.offered-dropped
	memory.GiveBack(b)
	return dropped
}

// passOffers forgets the first n offers, and moves the others by that many pieces to the front.
func (c *chain) passOffers(n, by int) {
	if n > 0 {
		c.offers = slices.Delete(c.offers, 0, n)
	}
	for i := range c.offers {
		c.offers[i] -= by
	}
}

// extend begins another piece, for n bytes or more, unless there is a spare one.
func (c *chain) extend(memory *Memory, n int) {
	next := min(max(c.len(), leastPiece), mostPiece)
	c.close()
	if c.last = memory.Spares.Take(); !c.last.Lent() {
		c.last = memory.Get(max(n, next))
	}
	c.content = c.last.Bytes()[:0]
	c.size += int64(cap(c.content))
}

// close makes the last piece one of the full ones.
func (c *chain) close() {
	if c.content != nil {
		if c.next > len(c.full)/2 { // a queue that is never empty would grow its list for ever
			c.passOffers(0, c.next)
			c.full, c.next = slices.Delete(c.full, 0, c.next), 0
		}
		c.last.SetLen(len(c.content))
		c.full = append(c.full, c.last)
		c.before += len(c.content)
		c.last, c.content = pool.Buffer{}, nil
	}
}

// End marks the end of the chain.
func (c *chain) End() uint32 { return c.taken + uint32(c.len()) }

// IsTaken reports whether everything before an End was handed on.
func (c *chain) IsTaken(before uint32) bool { return int32(c.taken-before) >= 0 }

// Take hands the first piece on.
func (c *chain) Take() (first pool.Buffer) {
	if len(c.full) == 0 && len(c.offers) == 0 { // most queues are one piece
		first = c.last
		first.SetLen(len(c.content))
		c.taken += uint32(len(c.content))
		c.last, c.content, c.size = pool.Buffer{}, nil, 0
		return first
	}
	offered := len(c.offers) > 0 && c.offers[0] == c.next
	if offered {
		c.passOffers(1, 0)
	}
	if c.next < len(c.full) {
		first, c.full[c.next] = c.full[c.next], pool.Buffer{}
		if c.next++; c.next == len(c.full) {
			c.passOffers(0, c.next)
			if c.full, c.next = c.full[:0], 0; cap(c.full) > keepPieces {
				c.full = nil
			}
		}
		c.before -= len(first.Bytes())
	} else {
		c.last.SetLen(len(c.content))
		first, c.last, c.content = c.last, pool.Buffer{}, nil
	}
	c.size -= Capacity(first)
	c.taken += uint32(len(first.Bytes()))
	if offered {
		c.offered -= len(first.Bytes())
	}
	return first
}

// join moves the pieces of another chain to the end of c.
func (c *chain) join(other *chain) {
	if other.before == 0 && c.content != nil && len(other.content) <= cap(c.content)-len(c.content) {
		c.content = append(c.content, other.content...)
		other.drop(nil)
		return
	}
	c.close()
	c.full = append(c.full, other.full[other.next:]...)
	c.before, c.size = c.before+other.before, c.size+other.size
	c.last, c.content = other.last, other.content
	*other = chain{}
}

// drop releases all pieces; to is where they go, nil: to the pool.
func (c *chain) drop(to *ration.Spares) {
	for c.content != nil {
		to.Keep(c.Take())
	}
}

// Memory is where output queues get their memory from.
type Memory struct {
	pool.Buffers
	Spares ration.Spares
}

// GiveBack releases a buffer, or keeps it as a spare one if there are any.
func (m *Memory) GiveBack(b pool.Buffer) {
	if m.Spares.Any() {
		m.Spares.Keep(b)
	} else {
		b.Release()
	}
}

// Capacity returns the memory of a buffer, 0 if there is none.
func Capacity(b pool.Buffer) int64 {
	if !b.Lent() {
		return 0
	}
	return int64(cap(b.Bytes()))
}
