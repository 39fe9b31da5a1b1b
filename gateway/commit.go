package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// commit is the committer, the only goroutine that writes to the log. It stores everything
// that was queued while the previous envelope was in flight, and then acknowledges it.
func (s *Server) commit() {
	defer close(s.done)
	defer s.endReaders()
	defer s.abandon()
	s.readers.workers.Go(s.ticking)
	var acks framed.Batch
	if err := s.bury(); err != nil {
		s.fail(err)
		return
	}
	for {
		p := s.queue.take()
		if p == nil {
			break
		}
		err := s.store(p, &acks)
		s.yield()
		switch {
		case err != nil:
		case s.saving != nil && !p.saved:
			if err = s.save(p); err == nil && s.saving != nil && p.bytes >= journal.MaxEnvelope/2 {
				err = s.save(p) // or else too much comes in between
			}
		case s.saving == nil && s.checkpointDue(p):
			s.beginCheckpoint()
		}
		if s.saving != nil {
			s.queue.ask(func(*pack) {}) // for the next part
		}
		if err != nil {
			s.fail(err)
			return
		}
		delayed := s.queue.release(p)
		for i := range delayed {
			delayed[i].send(&acks, nil)
		}
		acks.Send()
	}
	if s.queue.failure() != nil || s.ctx.Err() != nil {
		return
	}
	s.leaving = true
	if err := s.checkpoint(); errors.Is(err, journal.ErrNoSpace) {
		s.log.Warn("no space for a checkpoint at the end; the next start reads more of the log", "err", err)
	} else if err != nil {
		s.fail(err)
	}
}

// fail is the crash-only rule: after an error the content of the log is unknown, so the
// server acknowledges nothing more.
func (s *Server) fail(err error) {
	err = fmt.Errorf("gateway: the log failed; the server has stopped acknowledging: %w", err)
	s.queue.end(err)
	s.cancel()
	s.framed.Close()
	s.sockets.Close()
}

// store appends a pack to the log and sends its acknowledgements.
func (s *Server) store(p *pack, acks *framed.Batch) error {
	if err := s.storeClock(p); err != nil {
		return err
	}
	if err := s.storeRecords(p); err != nil {
		return err
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.session.dead { // another server has taken the client; its connection here ends
			if e.durable {
				e.reply.fail(acks, refusal(ErrMoved))
			}
			continue
		}
		if e.records > 0 {
			e.session.durable.Store(e.seq)
			e.session.storedSum = e.sum
		}
		if e.durable {
			e.reply.send(acks, nil)
		}
	}
	acks.Send()
	if err := s.grant(p.requests, acks); err != nil {
		return err
	}
	for _, c := range p.changes {
		if err := s.change(c); err != nil {
			return err
		}
	}
	return nil
}

// storeRecords appends a pack's records, and the positions of readers.
func (s *Server) storeRecords(p *pack) error {
	n := p.count
	if n > 0 || p.positions {
		s.ridePositions(p)
	}
	if n == 0 && len(p.rides) == 0 {
		return nil
	}
	whole := p.records.Bytes()
	return s.untilFirst(func() error {
		envelope, left, err := p.live(whole, n)
		if len(envelope) < len(whole) {
			s.leftOut(p)
		}
		switch {
		case err != nil || left == 0 && len(p.rides) == 0:
		case s.rides(p):
			if err = s.savePart(p, envelope); errors.Is(err, journal.ErrTooLarge) { // there are too many readers
				err = s.append(envelope)
			}
		default:
			err = s.append(envelope)
		}
		if err == nil {
			s.count.add(func(st *Stats) { st.Records += uint64(left) })
			s.arrived(p, left)
		}
		return err
	})
}

// conflicts reports whether err means only that something else was appended first.
func (s *Server) conflicts(err error) bool {
	return s.Shared && errors.Is(err, journal.ErrConflict) || errors.Is(err, errMadeRoom)
}

// live returns the envelope without the records of clients that another server has taken, and with
// times of this stretch, and how many of its n records are left.
func (p *pack) live(whole []byte, n int) ([]byte, int, error) {
	dead := false
	for i := range p.entries {
		dead = dead || p.entries[i].session.dead
	}
	if !dead && !p.restamp {
		return whole, n, nil
	}
	e, err := journal.Decode(whole)
	if err != nil {
		return nil, 0, err
	}
	var live journal.Encoder
	live.Begin(e.Base)
	at, rest := -1, 0
	for r := range e.Records() {
		for ; rest == 0; rest = p.entries[at].records {
			at++
		}
		rest--
		if p.restamp {
			r.Time = p.began
		}
		if !p.entries[at].session.dead {
			if err := live.Record(&r); err != nil {
				return nil, 0, err
			}
		}
	}
	left := live.Count()
	return live.Bytes(), left, nil
}

// append stores one envelope. While the disk is full it retries until there is space. Until
// then the server acknowledges nothing and stops reading its clients.
func (s *Server) append(envelope []byte) error { return s.appendNext(envelope, false) }

// errMadeRoom means that the log was full, and that another envelope may be stored where the caller wanted its own.
var errMadeRoom = errors.New("gateway: the log was full")

// appendNext is append. With exact it stores the envelope at position s.next, or returns errMadeRoom.
func (s *Server) appendNext(envelope []byte, exact bool) error {
	for {
		pos, err := s.appendOnce(envelope)
		if errors.Is(err, journal.ErrNoSpace) && !s.leaving {
			s.isFull(err)
			if err := s.makeRoom(); err != nil {
				return err
			}
			if sleep(s.ctx, s.retry); s.ctx.Err() != nil {
				return err
			}
			if exact {
				return errMadeRoom
			}
			continue
		}
		if err == nil {
			s.isNotFull()
			s.stored(pos, envelope)
		}
		return err
	}
}

func (s *Server) appendOnce(envelope []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.AppendTime)
	defer cancel()
	began := time.Now()
	pos, err := s.Log.Append(ctx, envelope)
	if err == nil {
		s.count.add(func(st *Stats) { st.appended(time.Since(began)) })
	}
	return pos, err
}

// stored counts an envelope that is in the log.
func (s *Server) stored(pos uint64, envelope []byte) {
	s.count.add(func(st *Stats) {
		st.Envelopes++
		st.Bytes += uint64(len(envelope))
		st.Position = pos
	})
	s.next = pos + 1
	s.since.envelopes++
	s.since.bytes += int64(len(envelope))
	if s.unmeasured += len(envelope); s.unmeasured >= retainBytes {
		s.unmeasured = 0
		select {
		case s.grown <- struct{}{}:
		default: // it was not measured since the last time
		}
	}
	s.readers.add(pos, envelope)
}
