package gateway

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

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
	stored  milestones
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
	conn    receiver
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

// begin starts the goroutines of readers, with the first one; mu is held.
func (s *Server) beginReaders() {
	r := &s.readers
	if r.started || r.ended {
		return
	}
	r.started = true
	for range feeders {
		r.workers.Go(s.feeder)
	}
	r.workers.Go(s.tickReaders)
	if s.Shared {
		r.workers.Go(s.fetch)
	}
}

func (s *Server) endReaders() {
	r := &s.readers
	r.mu.Lock()
	r.ended = true
	r.work.Broadcast()
	r.mu.Unlock()
	r.cancel()
	r.workers.Wait()
}

func (s *Server) feeder() {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	for room := (delivery.Workspace{}); ; {
		for len(r.run) == 0 && !r.ended {
			r.work.Wait()
		}
		if r.ended {
			return
		}
		h := r.run[0]
		r.run = r.run[:copy(r.run, r.run[1:])]
		h.state, h.again = fed, false
		open := h.open
		r.mu.Unlock()
		err := errCredit // until its cursor is stored
		if open {
			h.out.Room = &room
			err = s.feed(h)
			h.out.Room = nil
		} else {
			s.prepareOpening(h)
		}
		r.mu.Lock()
		r.leave(h, err)
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

// feed sends a holder what it may have. It returns nil when the holder has everything.
func (s *Server) feed(h *holder) error {
	r := &s.readers
	for until := h.sent + feedStep; ; {
		r.mu.Lock()
		pos, end := h.out.Next>>indexBits, r.tail.end
		newest := r.tail.use(pos)
		r.mu.Unlock()
		err := error(nil)
		switch {
		case pos >= end && h.opening.eager && h.atEnd != h.out.Next:
			if err = s.flush(h, false); err == nil {
				h.atEnd = h.out.Next
				err = s.push(h, h.out.Next-1, delivery.Nothing())
			}
		case pos >= end:
			return s.flush(h, h.out.Excluded > tellBytes || h.out.Excluded > 0 && time.Since(h.told) >= s.tellTime)
		case newest != nil:
			err = s.fill(h, &newest.Envelope)
			r.mu.Lock()
			newest.users--
			r.tail.recycle(newest)
			r.mu.Unlock()
		default:
			err = s.feedLog(h, until)
		}
		if err == nil && h.sent >= until {
			err = errTurn
		}
		if err == errTurn || err == errCredit {
			err = cmp.Or(s.flush(h, false), err)
		}
		if err != nil {
			return err
		}
	}
}

// feedLog reads the log for h, which is behind, until the step ends or the window is full.
func (s *Server) feedLog(h *holder, until uint64) error {
	read := &h.out.Room.Read
	err := s.Log.Read(s.readers.ctx, h.out.Next>>indexBits, decoded(func(pos uint64, e journal.Envelope) error {
		read.Set(pos, e.Sum(), e.Size(), e.Count, e.RawRecords())
		if err := s.fill(h, read); err != nil {
			return err
		}
		if h.sent >= until {
			return errTurn
		}
		return nil
	}))
	next, why := missing(err)
	switch {
	case next > 0:
		return s.tellGap(h, Gap{h.out.Next, before(next), why})
	case err == nil || err == errTurn || err == errCredit || err == errGone:
		return err
	}
	if s.readers.ctx.Err() == nil {
		s.log.Error("cannot read the log for a reader", "reader", h.opening.name, "err", err)
	}
	h.conn.End(refusal(err))
	return errGone
}

// decoded returns a function for Read that calls each with what DecodeAt returns.
func decoded(each func(pos uint64, e journal.Envelope) error) func(pos uint64, envelope []byte) error {
	return func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		return each(pos, e)
	}
}

// missing returns the position behind envelopes that a read has not found, and why they are gone; 0: err is another
// error, or none.
func missing(err error) (next uint64, why Reason) {
	if lost, is := errors.AsType[*journal.Damage](err); is {
		return lost.Last + 1, Damaged
	}
	if trimmed, is := errors.AsType[*journal.TrimmedError](err); is {
		return trimmed.First, Trimmed
	}
	return 0, 0
}

func (s *Server) tellGap(h *holder, gap Gap) error {
	if err := s.flush(h, false); err != nil {
		return err
	}
	if gap.To < gap.From {
		return nil
	}
	h.out.Next = gap.To + 1
	s.count.add(func(st *Stats) { st.Gaps++ })
	return s.push(h, gap.To, gap.append(nil))
}

// fill adds what an envelope has for h to its Deliver, and sends that whenever it is full. When the window is full, it
// returns errCredit.
func (s *Server) fill(h *holder, e *delivery.Envelope) error {
	for !h.out.Add(e, s.windowLeft(h)) {
		if h.out.Len() == 0 {
			return errCredit
		}
		if err := s.flush(h, false); err != nil {
			return err
		}
	}
	if h.out.Excluded > tellBytes || h.out.Shared() {
		return s.flush(h, true)
	}
	return nil
}

// windowLeft returns how long h's Deliver may become. A window without anything in flight takes any record.
func (s *Server) windowLeft(h *holder) int {
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	if h.sent == h.taken && h.out.Len() == 0 {
		return math.MaxInt
	}
	return int(h.opening.window) - int(h.sent-h.taken)
}

// flush sends the Deliver, and with tell also if that only says how far the reader is.
func (s *Server) flush(h *holder, tell bool) error {
	if tell && h.out.Last > h.through {
		h.out.Begin()
	}
	if h.out.Len() == 0 {
		return nil
	}
	err := s.push(h, h.out.Last, h.out.Deliver())
	h.out.Sent()
	return err
}

// push sends a Deliver, for which the window has room.
func (s *Server) push(h *holder, through uint64, content []byte) error {
	r := &s.readers
	r.mu.Lock()
	if h.gone {
		r.mu.Unlock()
		return errGone
	}
	h.through = through
	h.sent += uint64(len(content))
	r.mu.Unlock()
	h.told = time.Now()
	s.count.add(func(st *Stats) { st.Delivered += uint64(len(content)) })
	if err := h.conn.deliver(through, content); err != nil {
		return errGone
	}
	return nil
}

// acknowledge moves a reader's position.
func (s *Server) acknowledge(h *holder, content []byte) error {
	var a acknowledgement
	if err := decode(content, a.fields); err != nil {
		return err
	}
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p := h.cursor; {
	case !h.open:
		return ErrHandshake
	case h.ended != nil:
		return h.ended
	case h.gone || a.generation != h.generation || p != nil && p.holder != h:
		return ErrMoved
	case a.number > h.through || a.taken > h.sent:
		return ErrAhead
	case p != nil && a.number > p.number:
		p.number = a.number
		r.markDirty(p)
	}
	h.taken = max(h.taken, a.taken)
	r.wake(h)
	return nil
}

// tickReaders wakes the committer for positions that no envelope of records has taken along.
func (s *Server) tickReaders() {
	r := &s.readers
	ticker := time.NewTicker(s.positionTime)
	defer ticker.Stop()
	retained, said := time.Now(), ""
	for {
		grown := false
		select {
		case <-ticker.C:
		case <-s.grown:
			grown = true
		case <-r.ctx.Done():
			return
		}
		if now := time.Now(); grown || now.Sub(retained) >= s.retainTime {
			retained = now
			if err := s.retain(r.ctx); err == nil {
				said = ""
			} else if text := err.Error(); text != said && r.ctx.Err() == nil {
				s.log.Warn("cannot measure or trim the log", "err", err)
				said = text
			}
		}
		r.mu.Lock()
		due := len(r.dirty) > 0
		for h := range r.holders {
			if h.state == parked && h.out.Excluded > 0 && time.Since(h.told) >= s.tellTime {
				h.state = blocked
				r.wake(h)
			}
		}
		r.mu.Unlock()
		if due {
			s.queue.ask(func(p *pack) { p.positions = true })
		}
	}
}
