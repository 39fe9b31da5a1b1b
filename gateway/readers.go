package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
)

// readers are the readers of the log. Its mutex is never held while something waits; who needs
// queue.mu as well locks that first.
type readers struct {
	mu      sync.Mutex
	work    sync.Cond // run is not empty, a first holder has come, or the server ends
	started bool
	ended   bool
	ctx     context.Context // of what they read
	cancel  context.CancelFunc
	workers sync.WaitGroup

	log     [16]byte // its identity; 0: it has none yet
	cursors map[string][]*cursor
	expiry  int64     // of cursors without a time of their own, in milliseconds; negative: none
	shares  int       // of all cursors
	dirty   []*cursor // whose position the log does not have

	holders map[*holder]bool
	run     []*holder // to feed
	tail    tail
	newest  uint64 // position of the newest envelope with records; 0: unknown
}

// Limits of feeding.
const (
	feeders      = 2        // goroutines that read the log for all readers
	tailBytes    = 4 << 20  // of the newest envelopes, in memory for all readers
	feedStep     = 1 << 20  // for one reader before it is the turn of others
	tellBytes    = 64 << 20 // of records that a filter excluded, after which a reader is told how far it is
	tellTime     = time.Minute
	positionTime = 500 * time.Millisecond // between two positions of a reader in the log
)

// holderState is who has a holder.
type holderState uint8

const (
	blocked holderState = iota // nobody, until the reader acknowledges
	parked                     // nobody, until there is something new: it has everything
	queued                     // readers.run
	fed                        // a feeder
)

// holder is a connection that reads.
type holder struct {
	conn    framed.Conn
	opening opening
	proof   proof
	allowed string // prefix of the clients that its token permits
	reply   answer
	client  context.Context // ends with the client's connection
	number  uint64          // where it begins: behind this one

	// readers.mu guards the rest, but what follows out is the feeder's.
	state      holderState
	again      bool // while fed: something has changed
	open       bool // the reader has its welcome
	gone       bool
	ended      error   // why the server has ended it
	cursor     *cursor // nil: passing
	generation uint64
	through    uint64 // newest number that the reader was told
	sent       uint64 // bytes of the contents
	taken      uint64 // of these, by the program

	out   delivery.Out
	told  time.Time
	atEnd uint64 // out.Next when an eager reader was told that it has everything
}

// The reasons why a feeder leaves a holder.
var (
	errCredit = errors.New("the window is full")
	errTurn   = errors.New("it is the turn of others")
	errGone   = errors.New("the connection has ended")
)

// wake lets a feeder look at h; mu is held.
func (r *readers) wake(h *holder) {
	switch h.state {
	case blocked:
		h.state = queued
		r.run = append(r.run, h)
		r.work.Signal()
	case fed:
		h.again = true
	}
}

// leave decides what a holder waits for; mu is held.
func (r *readers) leave(h *holder, err error) {
	h.state = blocked
	switch {
	case h.gone || err == errGone:
	case err == errTurn || h.again || err == nil && h.out.Next>>indexBits < r.tail.end:
		r.wake(h)
	case err == nil:
		h.state = parked
	}
}

// end ends a reader's connection; readers.mu is held.
func (h *holder) end(why error) {
	h.gone, h.ended = true, why
	h.conn.End(refusal(why))
}

// add notes an envelope that the log has stored. With no reader it costs nothing; else a copy.
func (r *readers) add(pos uint64, envelope []byte) {
	newest := r.room(pos)
	if newest == nil {
		return
	}
	from := journal.Trust(envelope)
	newest.Set(pos, from.Sum(), from.Size(), from.Count, from.RawRecords())
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	if pos != t.end { // another goroutine was faster
		return
	}
	t.envelopes = append(t.envelopes, newest)
	t.bytes += newest.Size()
	t.end++
	for t.bytes > tailBytes {
		oldest := t.envelopes[0]
		t.bytes -= oldest.Size()
		t.envelopes = t.envelopes[:copy(t.envelopes, t.envelopes[1:])]
		oldest.left = true
		t.recycle(oldest)
	}
	r.rouse()
}

// room returns memory for an envelope; nil: it is not to be added. There is no reader, or it is known, or of a shared log of
// which more is still to be read.
func (r *readers) room(pos uint64) *recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	switch n := len(t.free); {
	case len(r.holders) == 0:
		*t = tail{end: max(t.end, pos+1)}
		return nil
	case pos != t.end:
		return nil
	case n > 0:
		newest := t.free[n-1]
		t.free = t.free[:n-1]
		return newest
	}
	return new(recent)
}

// rouse lets feeders look at the holders that had everything; mu is held.
func (r *readers) rouse() {
	for h := range r.holders {
		if h.state == parked {
			h.state = blocked
			r.wake(h)
		}
	}
}

// skip makes the tail begin at a position.
func (r *readers) skip(end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = tail{end: max(end, r.tail.end)}
	r.rouse()
}
