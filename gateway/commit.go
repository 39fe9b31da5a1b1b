package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// commit is the committer, the one goroutine that writes to the log: it stores all that
// has gathered while the envelope before was on its way, and then acknowledges it.
func (s *Server) commit() {
	defer close(s.done)
	var acks framed.Batch
	for since := 0; ; since++ {
		p := s.queue.take()
		if p == nil {
			break
		}
		err := s.store(p, &acks)
		if err == nil && since >= s.Checkpoint {
			since, err = 0, s.checkpoint()
		}
		if err != nil {
			s.fail(err)
			return
		}
		s.queue.release(p)
	}
	if s.queue.failure() == nil {
		if err := s.checkpoint(); err != nil {
			s.fail(err)
		}
	}
}

// fail is the crash-only rule: after an error of the log nobody knows what it holds, so
// no further word leaves this process.
func (s *Server) fail(err error) {
	err = fmt.Errorf("gateway: the log failed, and nothing is acknowledged any more: %w", err)
	s.queue.end(err)
	s.framed.Close()
}

// store appends a pack to the log and settles its promises.
func (s *Server) store(p *pack, acks *framed.Batch) error {
	for i := range p.entries {
		if e := &p.entries[i]; e.kind == early {
			acks.Add(e.reply, nil)
		}
	}
	acks.Send()
	if err := s.storeEpochs(p); err != nil {
		return err
	}
	if n := p.records.Count(); n > 0 {
		if err := s.append(p.records.Bytes()); err != nil {
			return err
		}
		s.count.records.Add(uint64(n))
	}
	var room [welcomeSize]byte
	for i := range p.entries {
		e := &p.entries[i]
		if e.seq > 0 {
			e.session.durable.Store(e.seq)
		}
		switch e.kind {
		case durable:
			acks.Add(e.reply, nil)
		case welcomes:
			acks.Add(e.reply, p.welcomed[e.welcome].append(room[:0]))
		}
	}
	acks.Send()
	return nil
}

// storeEpochs stores the epochs of the sessions that a pack begins.
func (s *Server) storeEpochs(p *pack) error {
	if len(p.begun) == 0 {
		return nil
	}
	var states journal.Encoder
	states.BeginCheckpoint(0, s.base())
	for _, begun := range p.begun {
		state := s.stateOf(begun, p.began)
		if err := states.State(&state); err != nil {
			return err
		}
	}
	return s.append(states.Bytes())
}

// append stores one envelope. While the disk is full it waits for space: nothing is
// acknowledged then, and the clients are not read.
func (s *Server) append(envelope []byte) error {
	for full := false; ; {
		pos, err := s.appendOnce(envelope)
		if errors.Is(err, journal.ErrNoSpace) {
			if !full {
				s.Logger.Error("no space for the log: nothing is acknowledged until there is", "err", err)
			}
			full = true
			s.full.Store(true)
			select {
			case <-s.ctx.Done():
				return err
			case <-time.After(s.retry):
				continue
			}
		}
		if full {
			s.full.Store(false)
			s.Logger.Info("there is space for the log again", "err", err)
		}
		if err == nil {
			s.stored(pos, envelope)
		}
		return err
	}
}

func (s *Server) appendOnce(envelope []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.AppendTime)
	defer cancel()
	return s.Log.Append(ctx, envelope)
}

// stored counts an envelope that the log has.
func (s *Server) stored(pos uint64, envelope []byte) {
	s.count.envelopes.Add(1)
	s.count.bytes.Add(uint64(len(envelope)))
	s.count.position.Store(pos)
	if s.OnStored != nil {
		s.OnStored(pos, envelope)
	}
}
