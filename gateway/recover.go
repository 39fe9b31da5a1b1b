package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// recover rebuilds the sessions and the clock from the log. It starts at the newest complete
// checkpoint, whose position every envelope has. It forgets nobody: only the log does.
func (c *committer) recover(ctx context.Context) error {
	began := time.Now()
	c.copied = c.Log.Status().Copied
	first, next, err := c.Log.Bounds()
	if err == nil {
		err = c.walk(ctx, first, next)
	}
	for trimmed := (*journal.TrimmedError)(nil); errors.As(err, &trimmed) && trimmed.First > first; { // by another server
		if first, next, err = c.Log.Bounds(); err == nil {
			err = c.walk(ctx, first, next)
		}
	}
	if err != nil {
		return fmt.Errorf("gateway: cannot recover the sessions from the log: %w", err)
	}
	c.next = max(c.next, next, 1)
	c.count.add(func(st *Stats) { st.Position = c.next - 1 })
	c.readers.skip(c.next)
	c.queue.mu.Lock()
	now := c.readClock()
	for _, known := range c.sessions.byClient {
		if !known.away {
			known.seen = now // it may have been connected until the end of the log
		}
	}
	if c.clock.off != 0 {
		if _, at, err := c.timeAt(ctx, first, next, false); err == nil && at >= next {
			c.clock.begin(c.next, c.clock.wall) // it begins anew
			c.clock.notices, c.clock.off = nil, 0
		}
	}
	clients := len(c.sessions.byClient)
	c.queue.mu.Unlock()
	c.reportClock()
	c.log.Info("sessions recovered", "clients", clients, "first", first, "next", next, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// walk reads the log from its newest complete checkpoint, or from its beginning. If envelopes are lost
// after that and the operator has accepted it, the checkpoint may be hit: walk begins again at the one
// before.
func (c *committer) walk(ctx context.Context, first, next uint64) error {
	from := next
	var all []*journal.Damage
	var buried map[uint64]bool
	for range 2 {
		base, err := c.newestCheckpoint(ctx, first, from)
		if err != nil {
			return err
		}
		from = max(base, first)
		if all, buried, err = c.replay(ctx, from); err != nil {
			return err
		}
		if len(all) == 0 {
			break
		}
	}
	if err := c.acceptLosses(all, buried); err != nil {
		return err
	}
	if trimmed := c.queue.trims.logged; first > max(trimmed, 1) || first > 1 && c.queue.base < first {
		if c.AcceptLoss.Has(&journal.Damage{First: 1, Last: first - 1}) {
			c.queue.trims.done(first) // so says the checkpoint that bury writes
			c.accepted = append(c.accepted, first-1)
			return c.markLosses(ctx, first, true)
		}
		what := fmt.Sprintf("it begins at position %d, but honed trimmed it to position %d only, and its newest checkpoint is at %d", first, trimmed, c.queue.base)
		if trimmed == 0 {
			what = fmt.Sprintf("it begins at position %d, but honed did not trim it: something else has deleted its beginning", first)
		}
		return &journal.Refusal{
			What:   what,
			Repair: fmt.Sprintf("restore its beginning from a backup, or start once with --accept-loss 1-%d: records there count as never stored", first-1),
		}
	}
	if len(c.accepted) == 0 {
		return nil
	}
	return c.markLosses(ctx, first, first == 1)
}

// replay rebuilds the sessions from position from on. It returns what is lost there, and the positions whose
// loss was accepted before.
func (c *committer) replay(ctx context.Context, from uint64) (all []*journal.Damage, buried map[uint64]bool, err error) {
	c.queue.mu.Lock()
	c.sessions.byClient, c.producers = map[string]*session{}, producers{}
	c.readers.reset()
	c.queue.base = 0
	c.queue.mu.Unlock()
	c.since.envelopes, c.since.bytes, c.accepted = 0, 0, nil
	buried = map[uint64]bool{}
	err = journal.ReadPast(ctx, c.Log, from, func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		for at := range e.Tombstones() {
			buried[at] = true
		}
		c.learn(pos, envelope, e)
		return nil
	}, func(d *journal.Damage) error { all = append(all, d); return nil })
	return all, buried, err
}

// acceptLosses notes the positions to bury. It refuses those whose loss nobody has accepted, and then names all.
func (c *committer) acceptLosses(all []*journal.Damage, buried map[uint64]bool) error {
	var why error
	for _, d := range all {
		known := true
		for pos := d.First; pos <= d.Last; pos++ {
			known = known && buried[pos]
			c.accepted = append(c.accepted, pos)
		}
		if !known && why == nil && !c.AcceptLoss.Has(d) {
			why = d
		}
	}
	if why == nil {
		return nil
	}
	return &journal.Refusal{
		What: "it is damaged at its newest checkpoint or later, so it does not say which records are stored",
		Repair: fmt.Sprintf("restore it from a backup, or start once with --accept-loss %d-%d: the records of %d envelopes there count as never stored",
			all[0].First, all[len(all)-1].Last, len(c.accepted)),
		Err: why,
	}
}

// markLosses marks the sessions of which the log has not every record, once an operator has accepted a loss: their
// clients are told. It reads the whole log, which begins at position first. Its beginning counts if that is not what
// was trimmed.
func (c *committer) markLosses(ctx context.Context, first uint64, beginning bool) error {
	last := map[*session]uint64{}
	err := journal.ReadPast(ctx, c.Log, first, decoded(func(_ uint64, e journal.Envelope) error {
		for r := range e.Records() {
			known := c.sessions.byClient[r.Client]
			if known == nil || known.epoch != r.Epoch {
				continue
			}
			if before := last[known]; r.Seq > before+1 && (before > 0 || beginning) {
				known.recordsLost = true
			}
			last[known] = r.Seq
		}
		return nil
	}), func(*journal.Damage) error { return nil })
	for _, known := range c.sessions.byClient {
		if before := last[known]; known.accepted > before && (before > 0 || beginning) {
			known.recordsLost = true
		}
	}
	return err
}

// bury writes down which lost envelopes the operator has accepted, and then a checkpoint: later starts
// do not need them.
func (c *committer) bury() error {
	if len(c.accepted) == 0 {
		return nil
	}
	c.log.Warn("the operator has accepted the loss of envelopes", "first", c.accepted[0], "last", c.accepted[len(c.accepted)-1])
	for left := c.accepted; len(left) > 0; {
		n := min(len(left), statesPerEnvelope)
		err := c.untilFirst(func() error {
			var e journal.Encoder
			e.Begin(c.queue.base)
			for _, pos := range left[:n] {
				if err := e.Tombstone(pos); err != nil {
					return err
				}
			}
			return c.append(e.Bytes())
		})
		if err != nil {
			return err
		}
		left = left[n:]
	}
	return c.checkpoint()
}

// apply learns from an envelope that another server appended.
func (c *committer) apply(pos uint64, envelope []byte) error {
	e, err := journal.Decode(envelope)
	if err != nil {
		return fmt.Errorf("envelope %d: %w", pos, err)
	}
	c.learn(pos, envelope, e)
	if e.Part&journal.First != 0 { // the other server is writing a checkpoint
		c.since.envelopes, c.since.bytes = 0, 0
	}
	return nil
}

// learn learns from an envelope in the log: one that recovery reads, or that another server appended.
func (c *committer) learn(pos uint64, envelope []byte, e journal.Envelope) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	now := int64(0)
	for clock := range e.Clocks() {
		now = clock.Time
		if clock.Since > c.clock.since {
			defer c.restamp()
		}
		c.clock.learn(clock)
		c.sessions.highest = max(c.sessions.highest, clock.Highest)
	}
	records := 0
	for r := range e.Records() {
		records++
		c.clock.reach(r.Time)
		if known := c.sessions.learn(r.Client, r.Epoch, c.clock.running, true); known != nil {
			if known.summed = known.summed && r.Seq == known.accepted+1; known.summed {
				known.sum = c.queue.sums.add(known.sum, r.Seq, r.Data)
			}
			known.away = false
			known.reach(r.Seq)
			if id := r.PacketID(); id > 0 && pos >= c.copied {
				known.hold(id, r.Seq)
			}
		}
		if said, is := r.Producer(); is {
			c.producers.learn(said, c.sessions.byClient[r.Client], c.clock.running)
		}
	}
	for state := range e.States() {
		seen := c.clock.running - max(now-state.Seen, 0)
		if pos < c.copied && state.Instance == lastingInstance {
			state.Instance = postInstance // its client has sent more, and is told that this session is not there
		}
		if known := c.sessions.learn(state.Client, state.Epoch, seen, state.Claim); known != nil {
			known.restore(&state)
		}
	}
	for said := range e.Producers() {
		if of := c.sessions.byClient[said.Client]; of != nil {
			c.producers.learn(said, of, c.clock.running-max(now-said.Seen, 0))
		}
	}
	e.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		if of := c.sessions.byClient[client]; of != nil && of.epoch == epoch && pos >= c.copied {
			of.learnPackets(released, seqs)
		}
	})
	for f := range e.Forgettings() {
		known := c.sessions.byClient[f.Client]
		if known != nil && known.epoch <= f.Epoch && known.link == nil && known.accepted == known.durable.Load() {
			delete(c.sessions.byClient, f.Client)
			c.producers.forget(f.Client)
		}
	}
	c.readers.learn(e, c.clock.running, pos, records)
	c.queue.trims.done(e.Trimmed())
	c.since.envelopes++
	c.since.bytes += int64(len(envelope))
	c.queue.base = max(c.queue.base, e.Base) // another server's checkpoint is complete
	c.next = pos + 1
	c.count.add(func(st *Stats) { st.Position = pos })
}
