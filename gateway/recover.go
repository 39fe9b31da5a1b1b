package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// stateOf returns a session as a checkpoint stores it.
func (s *Server) stateOf(known *session, seen int64) journal.State {
	return journal.State{
		Client: known.client,
		Epoch:  known.epoch,
		Last:   known.durable.Load(),
		Expiry: seen + s.Expiry.Milliseconds(),
	}
}

// seenIn returns when a server last saw the client of a state. A claim
// has the time at which a server took the client.
func (s *Server) seenIn(state journal.State) (seen int64, claim bool) {
	if state.Claim {
		return state.Expiry, true
	}
	return state.Expiry - s.Expiry.Milliseconds(), false
}

// base returns the position at which the newest complete checkpoint begins.
func (s *Server) base() uint64 {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.base
}

// checkpoint writes all sessions to the log and forgets the expired ones. Only the committer
// may call it: then session.durable matches the log.
func (s *Server) checkpoint() error {
	for range maxCheckpoints {
		err := s.writeCheckpoint()
		if s.conflicts(err) {
			if err = s.follow(); err == nil {
				continue
			}
		}
		return err
	}
	s.log.Warn("no checkpoint written: other servers kept appending; the next start reads more of the log")
	return nil
}

// maxCheckpoints bounds the attempts when other servers interrupt a checkpoint.
const maxCheckpoints = 20

func (s *Server) writeCheckpoint() error {
	states := s.statesNow()
	begins, base := uint64(0), s.base()
	e := journal.Encoder{Format: 1}
	for part := journal.First; ; part = 0 {
		n := min(len(states), statesPerEnvelope)
		if n == len(states) {
			part |= journal.Last
		}
		e.BeginCheckpoint(part, base)
		for i := range states[:n] {
			if err := e.State(&states[i]); err != nil {
				return err
			}
		}
		if err := s.append(e.Bytes()); err != nil {
			return err
		}
		if part&journal.First != 0 {
			begins = s.count.position.Load()
		}
		if states = states[n:]; len(states) == 0 {
			break
		}
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.base = begins
	return nil
}

// statesPerEnvelope keeps an envelope of states under 256 KiB.
const statesPerEnvelope = 2000

// statesNow returns the sessions that have not expired, and forgets the others.
func (s *Server) statesNow() []journal.State {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	now := s.now().UnixMilli()
	states := make([]journal.State, 0, len(s.sessions.byClient))
	for client, known := range s.sessions.byClient {
		if known.link != nil {
			known.seen = now
		}
		if known.seen+s.Expiry.Milliseconds() < now && known.accepted == known.durable.Load() {
			delete(s.sessions.byClient, client)
			continue
		}
		states = append(states, s.stateOf(known, known.seen))
	}
	return states
}

// recovered is what a scan of the log finds out about its clients.
type recovered struct {
	sessions map[string]*session
	newest   int64 // newest time in the log, in Unix milliseconds
	base     uint64
}

// recover rebuilds the sessions from the log. It starts at the newest complete checkpoint,
// whose position every envelope has.
func (s *Server) recover(ctx context.Context) error {
	began := time.Now()
	m := recovered{sessions: map[string]*session{}}
	first, next, err := s.Log.Bounds()
	if err == nil && next > first {
		var base uint64
		if base, err = s.newestCheckpoint(ctx, next-1); err == nil {
			err = s.walk(ctx, &m, first, base)
		}
		m.base = base
	}
	if err != nil {
		return fmt.Errorf("gateway: cannot recover the sessions from the log: %w", err)
	}
	s.remember(m)
	s.next = max(s.next, next, 1)
	s.count.position.Store(s.next - 1)
	s.log.Info("sessions recovered", "clients", len(m.sessions), "first", first, "next", next, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// newestCheckpoint reads the checkpoint's position from the log's last envelope; 0: none.
func (s *Server) newestCheckpoint(ctx context.Context, last uint64) (base uint64, err error) {
	err = s.Log.Read(ctx, last, func(pos uint64, envelope []byte) error {
		e, err := journal.Decode(envelope)
		if err != nil {
			return fmt.Errorf("envelope %d: %w", pos, err)
		}
		base = e.Base
		return nil
	})
	return base, err
}

// walk reads the log from its newest complete checkpoint, or from its beginning.
func (s *Server) walk(ctx context.Context, m *recovered, first, base uint64) error {
	if base < first && first > 1 {
		return fmt.Errorf("it begins at envelope %d and lacks the checkpoint at %d, so a resent record could be "+
			"stored twice; restore its beginning from a backup", first, base)
	}
	return s.Log.Read(ctx, max(base, first), func(pos uint64, envelope []byte) error {
		e, err := journal.Decode(envelope)
		if err != nil {
			return fmt.Errorf("envelope %d: %w", pos, err)
		}
		for r := range e.Records() {
			m.note(r.Client, r.Epoch, r.Seq, r.Time)
		}
		for state := range e.States() {
			seen, _ := s.seenIn(state)
			m.note(state.Client, state.Epoch, state.Last, seen)
		}
		s.next = pos + 1
		return nil
	})
}

// note records that a client reached a sequence number of an epoch. A record older than the
// checkpoint's state changes nothing.
func (m *recovered) note(client string, epoch, seq uint64, seen int64) {
	known := m.sessions[client]
	if known == nil || epoch > known.epoch {
		known = &session{client: client, epoch: epoch}
		m.sessions[client] = known
	}
	if epoch == known.epoch {
		known.accepted = max(known.accepted, seq)
	}
	known.seen = max(known.seen, seen)
	m.newest = max(m.newest, seen)
}

// remember installs the recovered sessions. Time without a running server does not count
// towards the expiry, because no client could connect.
func (s *Server) remember(m recovered) {
	away := max(s.now().UnixMilli()-m.newest, 0)
	for client, known := range m.sessions {
		if known.seen+s.Expiry.Milliseconds() < m.newest {
			delete(m.sessions, client)
			continue
		}
		known.seen += away
		known.durable.Store(known.accepted)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.sessions.byClient, s.queue.base = m.sessions, m.base
}

// ErrTwice is wrapped by the error of Check when a record is stored twice or out of order.
var ErrTwice = errors.New("gateway: a record is stored twice or out of order")

// Checked is the result of Check.
type Checked struct {
	Envelopes uint64 `json:"envelopes"`
	Records   uint64 `json:"records"`
	Sessions  int    `json:"sessions"`
	LeftOut   uint64 `json:"left_out"` // gaps: sequence numbers without a record, within a session
}

// Check reads a log and verifies that each record is stored once and in its client's order.
// It calls each, if not nil, for every record. Gaps in the sequence numbers are counted and
// are not an error: at level received a crash may lose records.
func Check(ctx context.Context, log journal.Log, each func(journal.Record) error) (c Checked, err error) {
	type numbering struct {
		client string
		epoch  uint64
	}
	last := map[numbering]uint64{}
	first, _, err := log.Bounds()
	if err != nil {
		return c, fmt.Errorf("gateway: %w", err)
	}
	err = log.Read(ctx, first, func(pos uint64, envelope []byte) error {
		c.Envelopes++
		e, err := journal.Decode(envelope)
		if err != nil {
			return fmt.Errorf("gateway: envelope %d: %w", pos, err)
		}
		for r := range e.Records() {
			of := numbering{r.Client, r.Epoch}
			before := last[of]
			if r.Seq <= before {
				return fmt.Errorf("%w: client %s, epoch %d: %d comes after %d in envelope %d", ErrTwice, r.Client, r.Epoch, r.Seq, before, pos)
			}
			c.LeftOut += r.Seq - before - 1
			c.Records++
			last[of] = r.Seq
			if each == nil {
				continue
			}
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	})
	c.Sessions = len(last)
	return c, err
}
