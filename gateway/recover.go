package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// stateOf is a session as the log remembers it.
func (s *Server) stateOf(known *session, seen int64) journal.State {
	return journal.State{
		Client: known.client,
		Epoch:  known.epoch,
		Last:   known.durable.Load(),
		Expiry: seen + s.Expiry.Milliseconds(),
	}
}

// seenIn is when the client of a state was last heard of. A negative expiry is a claim's:
// the time at which a server has taken the client, with its sign turned.
func (s *Server) seenIn(state journal.State) (seen int64, claim bool) {
	if state.Expiry < 0 {
		return -state.Expiry, true
	}
	return state.Expiry - s.Expiry.Milliseconds(), false
}

// base is where the newest complete checkpoint begins.
func (s *Server) base() uint64 {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.base
}

// checkpoint writes all sessions to the log and forgets those that have expired. The
// committer calls it, so that durable is what the log holds.
func (s *Server) checkpoint() error {
	for range mostCheckpoints {
		err := s.writeCheckpoint()
		if s.conflicts(err) {
			if err = s.follow(); err == nil {
				continue
			}
		}
		return err
	}
	s.Logger.Warn("other servers write so much that no checkpoint was written; the next start reads more of the log")
	return nil
}

// mostCheckpoints is how often other servers may interrupt a checkpoint.
const mostCheckpoints = 20

func (s *Server) writeCheckpoint() error {
	states := s.statesNow()
	begins, base := uint64(0), s.base()
	var e journal.Encoder
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

// statesNow are the sessions that have not expired; the others are forgotten.
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

// memory is what a walk through the log finds out of its clients.
type memory struct {
	sessions map[string]*session
	newest   int64 // time in the log, unix milliseconds
	base     uint64
}

// recover rebuilds the sessions from the log: from its newest complete checkpoint, whose
// place every envelope knows.
func (s *Server) recover(ctx context.Context) error {
	began := time.Now()
	m := memory{sessions: map[string]*session{}}
	first, next, err := s.Log.Bounds()
	if err == nil && next > first {
		var base uint64
		if base, err = s.newestCheckpoint(ctx, next-1); err == nil {
			err = s.walk(ctx, &m, first, base)
		}
		m.base = base
	}
	if err != nil {
		return fmt.Errorf("gateway: the sessions cannot be read from the log: %w", err)
	}
	s.remember(m)
	s.next = max(s.next, next, 1)
	s.count.position.Store(s.next - 1)
	s.Logger.Info("sessions recovered", "clients", len(m.sessions), "first", first, "next", next, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// newestCheckpoint reads the log's last envelope for where that begins; 0: there is none.
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

// walk reads the log from its newest complete checkpoint on, or from its beginning.
func (s *Server) walk(ctx context.Context, m *memory, first, base uint64) error {
	if base < first && first > 1 {
		return fmt.Errorf("it begins at envelope %d and lacks the checkpoint at %d, so a record that is sent again "+
			"could be stored twice; restore its beginning", first, base)
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

// note remembers that a client was at a sequence number of an epoch. A record that is
// older than what a checkpoint says changes nothing.
func (m *memory) note(client string, epoch, seq uint64, seen int64) {
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

// remember makes the sessions the server's. The time in which no server ran does not
// count towards the expiry: no client could come then.
func (s *Server) remember(m memory) {
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

// ErrTwice is in the error of Check when a record is stored twice or out of order.
var ErrTwice = errors.New("gateway: a record is stored twice or out of order")

// Checked is what Check has counted.
type Checked struct {
	Envelopes uint64 `json:"envelopes"`
	Records   uint64 `json:"records"`
	Sessions  int    `json:"sessions"`
	LeftOut   uint64 `json:"left_out"` // sequence numbers without a record, between two of one session
}

// Check reads a log and says whether each record is in it once and in its client's order.
// each, if not nil, is called with every record. Numbers that are left out are counted
// only: at level received a crash may leave some out.
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
