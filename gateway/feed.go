package gateway

import (
	"cmp"
	"math"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
)

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
	if err := h.conn.Push(through, content); err != nil {
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

// fetch reads what other servers append to a shared log, while there are readers.
func (s *Server) fetch() {
	r := &s.readers
	for {
		r.mu.Lock()
		for len(r.holders) == 0 && !r.ended {
			r.work.Wait()
		}
		end, ended := r.tail.end, r.ended
		r.mu.Unlock()
		if ended {
			return
		}
		err := s.Log.Wait(r.ctx, end)
		if err == nil {
			err = s.Log.Read(r.ctx, end, func(pos uint64, envelope []byte) error {
				if _, err := journal.DecodeAt(pos, envelope); err != nil {
					return err
				}
				r.add(pos, envelope)
				return nil
			})
		}
		next, _ := missing(err)
		switch {
		case next > 0:
			r.skip(next)
		case err != nil && r.ctx.Err() == nil:
			s.log.Warn("cannot read what others have appended", "err", err)
			sleep(r.ctx, s.retry)
		}
	}
}
