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
	err := s.untilFirst(maxCheckpoints, s.writeCheckpoint)
	if err == errOvertaken {
		s.log.Warn("no checkpoint written: other servers kept appending; the next start reads more of the log")
		return nil
	}
	return err
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
		if part&journal.First != 0 {
			begins = s.next
		}
		if err := s.appendStates(part, begins, states[:n], expired[:forgotten]); err != nil {
			return err
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
	s.since.envelopes, s.since.bytes = 0, 0
	return nil
}

// statesPerEnvelope keeps an envelope of states and forgettings under 512 KiB.
const statesPerEnvelope = 2000

// appendStates stores states, with the clock, and forgets the expired sessions. They are
// part of the checkpoint that begins at a position; with part 0, of none.
func (s *Server) appendStates(part journal.Part, begins uint64, states []journal.State, expired []*session) error {
	var e journal.Encoder
	s.queue.mu.Lock()
	running := s.readClock()
	base, at := s.queue.base, s.next
	k := s.clock
	clock := journal.Clock{Time: k.time, Highest: s.sessions.highest, Running: k.running, Since: k.since, Moments: k.moments}
	if part&journal.Last != 0 { // it is complete with this envelope: a start after it reads no older one
		base = begins
	}
	e.BeginCheckpoint(part, base)
	s.queue.mu.Unlock()
	err := e.Clock(clock)
	if s.trimmed > 0 && part != journal.Last {
		err = cmp.Or(err, e.Trim(s.trimmed))
	}
	id := [16]byte{}
	if part&journal.First != 0 {
		err = cmp.Or(err, s.appendPlaces(&e, running, &id))
	}
	for _, state := range states {
		state.Seen += clock.Time
		err = cmp.Or(err, e.State(&state))
	}
	for _, known := range expired {
		err = cmp.Or(err, e.Forgetting(&journal.Forgetting{Client: known.client, Epoch: known.epoch}))
	}
	if err == nil {
		err = s.appendNext(e.Bytes(), true)
	}
	if err != nil {
		return err
	}
	if s.next != at+1 {
		return fmt.Errorf("gateway: a checkpoint was stored at position %d instead of %d", s.next-1, at)
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.clock.logged = clock.Time - clock.Running
	s.readers.identified(id)
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
	first, next, err := s.Log.Bounds()
	if err == nil {
		err = s.walk(ctx, first, next)
	}
	for trimmed := (*journal.TrimmedError)(nil); errors.As(err, &trimmed) && trimmed.First > first; { // by another server
		if first, next, err = s.Log.Bounds(); err == nil {
			err = s.walk(ctx, first, next)
		}
	}
	if err != nil {
		return fmt.Errorf("gateway: cannot recover the sessions from the log: %w", err)
	}
	s.next = max(s.next, next, 1)
	s.count.add(func(st *Stats) { st.Position = s.next - 1 })
	s.readers.skip(s.next)
	s.queue.mu.Lock()
	now := s.readClock()
	for _, known := range s.sessions.byClient {
		if !known.away {
			known.seen = now // it may have been connected until the end of the log
		}
	}
	if s.clock.off != 0 {
		if _, at, err := s.timeAt(ctx, first, next); err == nil && at >= next {
			s.clock.begin(s.next, s.clock.wall) // it begins anew
			s.clock.notices, s.clock.off = nil, 0
		}
	}
	clients := len(s.sessions.byClient)
	s.queue.mu.Unlock()
	s.reportClock()
	s.log.Info("sessions recovered", "clients", clients, "first", first, "next", next, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// walk reads the log from its newest complete checkpoint, or from its beginning. If envelopes are lost
// after that and the operator has accepted it, the checkpoint may be hit: walk begins again at the one
// before.
func (s *Server) walk(ctx context.Context, first, next uint64) error {
	from := next
	for range 2 {
		base, err := s.newestCheckpoint(ctx, first, from)
		if err != nil {
			return err
		}
		from = max(base, first)
		lost, err := s.replay(ctx, from)
		if err != nil {
			return err
		}
		if len(lost) == 0 {
			break
		}
		for _, d := range lost {
			for pos := d.First; pos <= d.Last; pos++ {
				s.accepted = append(s.accepted, pos)
			}
		}
	}
	if first > max(s.trimmed, 1) || first > 1 && s.queue.base < first {
		if s.AcceptLoss.Has(&journal.Damage{First: 1, Last: first - 1}) {
			s.trimmed = first // so says the checkpoint that bury writes
			s.accepted = append(s.accepted, first-1)
			return nil
		}
		what := fmt.Sprintf("it begins at position %d, but honed trimmed it to position %d only, and its newest checkpoint is at %d", first, s.trimmed, s.queue.base)
		if s.trimmed == 0 {
			what = fmt.Sprintf("it begins at position %d, but honed did not trim it: something else has deleted its beginning", first)
		}
		return &journal.Refusal{
			What:   what,
			Repair: fmt.Sprintf("restore its beginning from a backup, or start once with --accept-loss 1-%d: records there count as never stored", first-1),
		}
	}
	return nil
}

// Trim deletes the envelopes before position to from the log, but none that a start needs: it keeps the
// newest checkpoint. What it may delete is written down first, so that a log whose beginning is gone for
// another reason is refused.
func (s *Server) Trim(ctx context.Context, to uint64) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	stored := make(chan error, 1)
	asked := s.queue.ask(func(*pack) {
		if to = min(to, s.queue.base); to > 0 {
			s.queue.trims, s.queue.trimTo = append(s.queue.trims, trim{to, stored}), max(s.queue.trimTo, to)
		}
	})
	switch {
	case !asked:
		return ErrServerClosed
	case to == 0:
		return nil
	}
	if err := s.await(ctx, stored); err != nil {
		return err
	}
	return s.Log.Trim(ctx, to)
}

// await waits for what the committer was asked for.
func (s *Server) await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-s.done:
		return ErrServerClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newestCheckpoint returns the position of the newest complete checkpoint that begins before position
// before; 0: none. The last envelope that can be read has it.
func (s *Server) newestCheckpoint(ctx context.Context, first, before uint64) (base uint64, err error) {
	found := errors.New("found")
	for pos := before - 1; pos >= first && pos > 0; pos-- {
		err := s.Log.Read(ctx, pos, func(pos uint64, envelope []byte) error {
			e, err := journal.DecodeAt(pos, envelope)
			if err != nil {
				return err
			}
			base = e.Base
			return found
		})
		var lost *journal.Damage
		if err == found {
			return base, nil
		}
		if !errors.As(err, &lost) {
			return 0, err
		}
	}
	return 0, nil
}

// replay rebuilds the sessions from position from on. It returns the envelopes that are lost there and
// accepted but not buried yet, and refuses others.
func (s *Server) replay(ctx context.Context, from uint64) ([]*journal.Damage, error) {
	s.queue.mu.Lock()
	s.sessions.byClient = map[string]*session{}
	s.readers.reset()
	s.queue.base = 0
	s.queue.mu.Unlock()
	s.since.envelopes, s.since.bytes, s.accepted = 0, 0, nil
	var all []*journal.Damage
	buried := map[uint64]bool{}
	lost := func(d *journal.Damage) error { all = append(all, d); return nil }
	err := journal.ReadPast(ctx, s.Log, from, func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		for at := range e.Tombstones() {
			buried[at] = true
		}
		s.learn(pos, envelope, e)
		return nil
	}, lost)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		known := s.AcceptLoss.Has(d)
		for pos := d.First; !known && buried[pos]; pos++ {
			known = pos == d.Last
		}
		if !known {
			return nil, &journal.Refusal{
				What: "it is damaged at its newest checkpoint or later, so it does not say which records are stored",
				Repair: fmt.Sprintf("restore it from a backup, or start once with --accept-loss %d-%d: records there count as never stored",
					all[0].First, all[len(all)-1].Last),
				Err: d,
			}
		}
	}
	return all, nil
}

// bury writes down which lost envelopes the operator has accepted, and then a checkpoint: later starts
// do not need them.
func (s *Server) bury() error {
	if len(s.accepted) == 0 {
		return nil
	}
	s.log.Warn("the operator has accepted the loss of envelopes", "first", s.accepted[0], "last", s.accepted[len(s.accepted)-1])
	for left := s.accepted; len(left) > 0; {
		n := min(len(left), statesPerEnvelope)
		err := s.untilFirst(maxConflicts, func() error {
			var e journal.Encoder
			e.Begin(s.queue.base)
			for _, pos := range left[:n] {
				if err := e.Tombstone(pos); err != nil {
					return err
				}
			}
			return s.append(e.Bytes())
		})
		if err != nil {
			return err
		}
		left = left[n:]
	}
	return s.checkpoint()
}

// apply learns from an envelope that another server appended.
func (s *Server) apply(pos uint64, envelope []byte) error {
	e, err := journal.Decode(envelope)
	if err != nil {
		return fmt.Errorf("envelope %d: %w", pos, err)
	}
	s.learn(pos, envelope, e)
	return nil
}

// learn learns from an envelope in the log: one that recovery reads, or that another server appended.
func (s *Server) learn(pos uint64, envelope []byte, e journal.Envelope) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	now := int64(0)
	for c := range e.Clocks() {
		now = c.Time
		if c.Since > s.clock.since {
			defer s.restamp()
		}
		s.clock.learn(c)
		s.sessions.highest = max(s.sessions.highest, c.Highest)
	}
	records, came := 0, int64(0)
	for r := range e.Records() {
		records, came = records+1, r.Time
		s.clock.reach(r.Time)
		if known := s.sessions.learn(r.Client, r.Epoch, s.clock.running, true); known != nil {
			if known.summed = known.summed && r.Seq == known.accepted+1; known.summed {
				known.sum = s.queue.sums.add(known.sum, r.Seq, r.Data)
			}
			known.away = false
			known.reach(r.Seq)
		}
	}
	for state := range e.States() {
		seen := s.clock.running - max(now-state.Seen, 0)
		if known := s.sessions.learn(state.Client, state.Epoch, seen, state.Claim); known != nil {
			known.restore(&state)
		}
	}
	for f := range e.Forgettings() {
		known := s.sessions.byClient[f.Client]
		if known != nil && known.epoch <= f.Epoch && known.link == nil && known.accepted == known.durable.Load() {
			delete(s.sessions.byClient, f.Client)
		}
	}
	s.readers.learn(e, s.clock.running, pos, records, came)
	s.trimmed = max(s.trimmed, e.Trimmed())
	s.since.envelopes++
	s.since.bytes += int64(len(envelope))
	if e.Base > s.queue.base { // another server's checkpoint is complete
		s.queue.base = e.Base
		s.since.envelopes, s.since.bytes = 0, 0
	}
	s.next = pos + 1
	s.count.add(func(st *Stats) { st.Position = pos })
}

// ErrTwice is wrapped by the error of Check when a record is stored twice or out of order.
var ErrTwice = errors.New("gateway: a record is stored twice or out of order")

// Checked is the result of Check.
type Checked struct {
	First     uint64 `json:"first"` // position
	Envelopes uint64 `json:"envelopes"`
	Records   uint64 `json:"records"`
	Sessions  int    `json:"sessions"`
	LeftOut   uint64 `json:"left_out"` // gaps: sequence numbers without a record, within a session
	Lost      uint64 `json:"lost"`     // envelopes that cannot be read
	Accepted  uint64 `json:"accepted"` // of those, how many the operator has accepted
}

// Check reads a log and verifies that each record is stored once and in its client's order.
// It calls each, if not nil, for every record. Gaps in the sequence numbers are counted and
// are not an error: at level received a crash may lose records. Nor are lost envelopes, which
// Verify names.
func Check(ctx context.Context, log journal.Reader, each func(journal.Record) error) (c Checked, err error) {
	type numbering struct {
		client string
		epoch  uint64
	}
	last := map[numbering]uint64{}
	buried, trimmed := map[uint64]bool{}, uint64(0)
	if c.First, _, err = log.Bounds(); err != nil {
		return c, fmt.Errorf("gateway: %w", err)
	}
	lost := func(d *journal.Damage) error {
		c.Lost += d.Last + 1 - d.First
		for pos := d.First; pos <= d.Last && len(buried) < 1<<20; pos++ {
			buried[pos] = false
		}
		return nil
	}
	err = journal.ReadPast(ctx, log, c.First, func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		c.Envelopes++
		trimmed = max(trimmed, e.Trimmed())
		for at := range e.Tombstones() {
			if done, is := buried[at]; is && !done {
				buried[at] = true
				c.Accepted++
			}
		}
		for r := range e.Records() {
			of := numbering{r.Client, r.Epoch}
			before := last[of]
			if r.Seq <= before {
				return fmt.Errorf("%w: client %s, epoch %d: %d comes after %d in envelope %d", ErrTwice, r.Client, r.Epoch, r.Seq, before, pos)
			}
			if before > 0 || c.First == 1 { // else its first records may have been trimmed
				c.LeftOut += r.Seq - before - 1
			}
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
	}, lost)
	if err == nil && c.First > max(trimmed, 1) {
		err = fmt.Errorf("gateway: the log begins at position %d, and was trimmed to position %d only: restore its beginning from a backup", c.First, trimmed)
	}
	c.Sessions = len(last)
	return c, err
}
