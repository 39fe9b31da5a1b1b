package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// state returns a session as the log stores it. Seen is relative: appendStates adds the time.
func (known *session) state(age int64, claim bool) journal.State {
	return journal.State{
		Client: known.client, Epoch: known.epoch, Last: known.durable.Load(), Claim: claim,
		Connected: known.link != nil, Seen: -age, Summed: known.summed, Sum: known.storedSum, Instance: known.instance,
	}
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
	states, expired := s.statesNow()
	begins := uint64(0)
	for part := journal.First; ; part = 0 {
		n, forgotten := min(len(states), statesPerEnvelope), min(len(expired), statesPerEnvelope)
		if n == len(states) && forgotten == len(expired) {
			part |= journal.Last
		}
		if err := s.appendStates(part, states[:n], expired[:forgotten]); err != nil {
			return err
		}
		if part&journal.First != 0 {
			begins = s.count.position.Load()
		}
		states, expired = states[n:], expired[forgotten:]
		if part&journal.Last != 0 {
			break
		}
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.base = begins
	s.checkpointed = s.clock.running
	return nil
}

// statesPerEnvelope keeps an envelope of states and forgettings under 512 KiB.
const statesPerEnvelope = 2000

// appendStates stores states, with the clock in format 2, and forgets the expired sessions.
func (s *Server) appendStates(part journal.Part, states []journal.State, expired []*session) error {
	e := journal.Encoder{Format: s.Format}
	s.queue.mu.Lock()
	s.readClock()
	clock := journal.Clock{Time: s.clock.time, Highest: s.sessions.highest, Skipped: s.clock.skipped}
	e.BeginCheckpoint(part, s.queue.base)
	s.queue.mu.Unlock()
	var err error
	if s.Format > 1 {
		err = e.Clock(clock)
	}
	for _, state := range states {
		state.Seen += clock.Time
		if state.Expiry = state.Seen; !state.Claim {
			state.Expiry += s.Expiry.Milliseconds()
		}
		err = cmp.Or(err, e.State(&state))
	}
	for _, known := range expired {
		if s.Format > 1 {
			err = cmp.Or(err, e.Forgetting(&journal.Forgetting{Client: known.client, Epoch: known.epoch}))
		}
	}
	if err == nil {
		err = s.append(e.Bytes())
	}
	if err != nil {
		return err
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.clock.skipped -= clock.Skipped
	s.noted = s.clock.running
	for _, known := range expired {
		delete(s.sessions.byClient, known.client)
	}
	return nil
}

// statesNow returns the states of the sessions, and the sessions that have expired.
func (s *Server) statesNow() (states []journal.State, expired []*session) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	now := s.readClock()
	expiry := s.Expiry.Milliseconds()
	if s.Shared { // what another server wrote about its clients before it crashed may be so old
		expiry += expiry / checkpointsPerExpiry
	}
	states = make([]journal.State, 0, len(s.sessions.byClient))
	for _, known := range s.sessions.byClient {
		if known.link != nil {
			known.seen = now
		}
		if now-known.seen > expiry && known.accepted == known.durable.Load() {
			expired = append(expired, known)
			continue
		}
		states = append(states, known.state(now-known.seen, false))
	}
	return states, expired
}

// recover rebuilds the sessions and the clock from the log. It starts at the newest complete
// checkpoint, whose position every envelope has. It forgets nobody: only the log does.
func (s *Server) recover(ctx context.Context) error {
	began := time.Now()
	s.queue.mu.Lock()
	s.sessions.byClient = map[string]*session{}
	s.queue.mu.Unlock()
	first, next, err := s.Log.Bounds()
	if err == nil && next > first {
		var base uint64
		if base, err = s.newestCheckpoint(ctx, next-1); err == nil {
			err = s.walk(ctx, first, base)
		}
	}
	if err != nil {
		return fmt.Errorf("gateway: cannot recover the sessions from the log: %w", err)
	}
	s.next = max(s.next, next, 1)
	s.count.position.Store(s.next - 1)
	s.queue.mu.Lock()
	s.sessions.exact = s.sessions.exact || next == first
	now := s.readClock()
	for _, known := range s.sessions.byClient {
		if !known.away {
			known.seen = now // it may have been connected until the end of the log
		}
	}
	clients := len(s.sessions.byClient)
	s.queue.mu.Unlock()
	s.reportClock()
	s.log.Info("sessions recovered", "clients", clients, "first", first, "next", next, "took", time.Since(began).Round(time.Millisecond))
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
func (s *Server) walk(ctx context.Context, first, base uint64) error {
	if base < first && first > 1 {
		return fmt.Errorf("it begins at envelope %d and lacks the checkpoint at %d, so a resent record could be "+
			"stored twice; restore its beginning from a backup", first, base)
	}
	return s.Log.Read(ctx, max(base, first), s.apply)
}

// apply learns from an envelope in the log: one that recovery reads, or that another server
// appended.
func (s *Server) apply(pos uint64, envelope []byte) error {
	e, err := journal.Decode(envelope)
	if err != nil {
		return fmt.Errorf("envelope %d: %w", pos, err)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	now := int64(0)
	for c := range e.Clocks() {
		now = c.Time
		s.clock.learn(c.Time, c.Skipped)
		s.sessions.highest, s.sessions.exact = max(s.sessions.highest, c.Highest), true
	}
	for r := range e.Records() {
		if e.Format > 1 {
			s.clock.learn(r.Time, 0)
		}
		if known := s.sessions.learn(r.Client, r.Epoch, s.clock.running, true); known != nil {
			if known.summed = known.summed && r.Seq == known.accepted+1; known.summed {
				known.sum = s.queue.sums.add(known.sum, r.Seq, r.Data)
			}
			known.away = false
			known.reach(r.Seq)
		}
	}
	for state := range e.States() {
		seen := s.clock.running // in format 1 the times are of any wall clock: count as seen now
		if e.Format > 1 {
			seen -= max(now-state.Seen, 0)
		}
		if known := s.sessions.learn(state.Client, state.Epoch, seen, state.Claim); known != nil {
			known.restore(&state, e.Format)
		}
	}
	for f := range e.Forgettings() {
		known := s.sessions.byClient[f.Client]
		if known != nil && known.epoch <= f.Epoch && known.link == nil && known.accepted == known.durable.Load() {
			delete(s.sessions.byClient, f.Client)
		}
	}
	s.queue.base = max(s.queue.base, e.Base)
	s.next = pos + 1
	s.count.position.Store(pos)
	return nil
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
