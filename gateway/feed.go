package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"sync"
	"time"

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

	log    [16]byte // its identity; 0: it has none yet
	places map[string][]*place
	expiry int64    // of places without a time of their own, in milliseconds; negative: none
	shares int      // of all places
	dirty  []*place // whose position the log does not have

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
	shares  uint32
	number  uint64 // where it begins: behind this one

	// readers.mu guards the rest, but what follows buf is the feeder's.
	state      holderState
	again      bool // while fed: something has changed
	open       bool // the reader has its welcome
	gone       bool
	ended      error  // why the server has ended it
	place      *place // nil: passing
	generation uint64
	through    uint64 // newest number that the reader was told
	sent       uint64 // bytes of the contents
	taken      uint64 // of these, by the program

	buf      []byte // content of the next Deliver; the feeder's
	next     uint64 // the first number that is not in buf
	last     uint64 // the newest number that buf covers
	sum      uint32 // of its envelope
	excluded int    // bytes of envelopes that buf covers and of which it has nothing
	told     time.Time
	atEnd    uint64 // next when an eager reader was told that it has everything
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
	for buf := []byte(nil); ; {
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
		err := errCredit // until its place is stored
		if open {
			h.buf = buf
			err = s.feed(h)
			buf, h.buf = h.buf[:0], nil // feed has sent what was in it
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
	case err == errTurn || h.again || err == nil && h.next>>indexBits < r.tail.end:
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
		pos, end := h.next>>indexBits, r.tail.end
		newest := r.tail.at(pos)
		r.mu.Unlock()
		err := error(nil)
		switch {
		case pos >= end && h.opening.eager && h.atEnd != h.next:
			if err = s.flush(h, false); err == nil {
				h.atEnd = h.next
				err = s.push(h, h.next-1, beginDeliver(nil, 0))
			}
		case pos >= end:
			return s.flush(h, h.excluded > tellBytes || h.excluded > 0 && time.Since(h.told) >= s.tellTime)
		case newest != nil:
			err = s.fill(h, pos, journal.Trust(newest))
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

func (h *holder) wants(body []byte) bool {
	client := body[1 : 1+int(body[0])]
	o := &h.opening
	return (o.client == "" || string(client) == o.client) &&
		(len(client) >= len(o.prefix) && string(client[:len(o.prefix)]) == o.prefix) &&
		(h.shares == 1 || crc32.Checksum(client, crc32.MakeTable(crc32.Castagnoli))%h.shares == uint32(h.opening.share))
}

// feedLog reads the log for h, which is behind, until the step ends or the window is full.
func (s *Server) feedLog(h *holder, until uint64) error {
	err := s.Log.Read(s.readers.ctx, h.next>>indexBits, decoded(func(pos uint64, e journal.Envelope) error {
		if err := s.fill(h, pos, e); err != nil {
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
		return s.tellGap(h, Gap{h.next, before(next), why})
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
	h.next = gap.To + 1
	s.count.add(func(st *Stats) { st.Gaps++ })
	return s.push(h, gap.To, gap.append(nil))
}

// fill adds what an envelope has for h to its buffer, and sends that whenever it is full. When the
// window is full, it returns errCredit.
func (s *Server) fill(h *holder, pos uint64, e journal.Envelope) error {
	found, filled := false, false
	room := s.windowLeft(h)
	for number, body := range numbered(pos, e) {
		if number < h.next {
			continue
		}
		found = true
		if !h.wants(body) {
			continue
		}
		size := recordHead + len(body)
		if len(h.buf) > 0 && len(h.buf)+size > frameTarget {
			if err := s.flush(h, false); err != nil {
				return err
			}
			room = s.windowLeft(h)
		}
		if len(h.buf)+deliverHead+size > room {
			return errCredit
		}
		if len(h.buf) == 0 {
			h.buf = beginDeliver(h.buf, 0)
		}
		h.buf = appendRecord(h.buf, number, body)
		h.next, h.last, h.sum, filled = number+1, number, e.Sum(), true
	}
	h.next = (pos + 1) << indexBits
	if found {
		h.last, h.sum = pos<<indexBits|lastIndex, e.Sum()
	}
	if found && !filled {
		h.excluded += e.Size()
	}
	if h.excluded > tellBytes {
		return s.flush(h, true)
	}
	return nil
}

// windowLeft returns how long h's buffer may become. A window without anything in flight takes any record.
func (s *Server) windowLeft(h *holder) int {
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	if h.sent == h.taken && len(h.buf) == 0 {
		return math.MaxInt
	}
	return int(h.opening.window) - int(h.sent-h.taken)
}

// flush sends what the buffer has, and with tell also if that is only how far the reader is.
func (s *Server) flush(h *holder, tell bool) error {
	if len(h.buf) == 0 {
		if !tell || h.last <= h.through {
			return nil
		}
		h.buf = beginDeliver(h.buf, 0)
	}
	binary.BigEndian.PutUint32(h.buf[1:], h.sum)
	err := s.push(h, h.last, h.buf)
	if err == nil {
		h.buf, h.excluded = h.buf[:0], 0
	}
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
	switch p := h.place; {
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
		r.soil(p)
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
			if h.state == parked && h.excluded > 0 && time.Since(h.told) >= s.tellTime {
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
