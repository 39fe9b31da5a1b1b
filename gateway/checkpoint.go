package gateway

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/hone-go/hone/gateway/journal"
)

// The sizes of a part: after or beside a small pack it has statesBeside sessions, which take about 2 ms to collect and to
// encode, so that what comes meanwhile does not wait longer. Behind large packs it is as large as partBytes allows: else
// gateways that take turns would store more beside a checkpoint than between two.
const (
	statesPerEnvelope = 8000
	statesBeside      = 1000
	partBytes         = journal.MaxEnvelope * 3 / 8
)

func (c *committer) beginCheckpoint() {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.saving = &saving{since: c.since.envelopes}
	c.saving.more = func(client string) int {
		return len(c.producers.byClient[client])*producerBytes + len(c.sessions.byClient[client].held)*packetBytes
	}
	c.saving.next, c.saving.stop = iter.Pull(maps.Keys(c.sessions.byClient))
}

// part returns the clients of the next part, which has up to most sessions, and whether it is the last one; queue.mu is
// held.
func (v *saving) part(most int) (names []string, last bool) {
	n := 0
	for size := 0; n < most && size < partBytes; n++ {
		if n == len(v.names) {
			name, more := v.next()
			if !more {
				return v.names, true
			}
			v.names = append(v.names, name)
		}
		size += stateBytes + len(v.names[n]) + v.more(v.names[n])
	}
	return v.names[:n], false
}

// checkpoint writes all sessions to the log, without a pack in between. Only the committer may call it.
func (c *committer) checkpoint() error {
	c.abandon()
	c.beginCheckpoint()
	for c.saving != nil {
		if err := c.save(&pack{bytes: journal.MaxEnvelope}); err != nil {
			return err
		}
	}
	return nil
}

// save writes the next part of a checkpoint into an envelope of its own, which follows a pack. Only the committer may
// call it.
func (c *committer) save(p *pack) error {
	return c.untilFirst(func() error { return c.savePart(p, nil) })
}

// savesWith reports whether the next part of a checkpoint goes into the envelope of a pack, so that no record waits for an
// append more. That takes room: there is none in a large envelope, nor in a full log.
func (c *committer) savesWith(p *pack) bool {
	c.yield()
	return c.saving != nil && p.count > 0 && p.bytes < journal.MaxEnvelope/2 && !c.full.Load()
}

// yield abandons a checkpoint of which nothing is stored yet if another server has begun one meanwhile.
func (c *committer) yield() {
	if v := c.saving; v != nil && v.begins == 0 && c.since.envelopes < v.since {
		c.abandon()
	}
}

// savePart stores the next part of a checkpoint, and with it an envelope of a pack, unless that is empty. It forgets
// expired sessions. Only the committer may call it: then session.durable matches the log, up to the pack.
func (c *committer) savePart(p *pack, envelope []byte) error {
	v, part := c.saving, journal.Part(0)
	most := min(max(p.bytes/(2*stateBytes), statesBeside), statesPerEnvelope) // so that checkpoints keep up with the log
	c.queue.mu.Lock()
	superseded := v.begins > 0 && v.begins < c.queue.base || // another server's newer one is complete
		v.begins == 0 && c.since.envelopes < v.since // or has begun
	names, last := v.part(most)
	c.queue.mu.Unlock()
	if superseded {
		c.abandon()
		if len(envelope) > 0 {
			return c.append(envelope)
		}
		return nil
	}
	begins := v.begins
	if begins == 0 {
		begins, part = c.next, journal.First
	}
	if last {
		part |= journal.Last
	}
	expired := c.statesNow(names, p)
	if err := c.appendStates(part, begins, envelope, v.states, expired); err != nil {
		return err
	}
	if v.begins = begins; part&journal.First != 0 {
		c.since.envelopes, c.since.bytes = 0, 0
	}
	v.names = slices.Delete(v.names, 0, len(names))
	if p.saved = true; !last {
		return nil
	}
	c.abandon()
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.queue.base = max(c.queue.base, begins)
	c.checkpointed = c.clock.running
	return nil
}

// abandon ends the checkpoint that is being written, complete or not.
func (c *committer) abandon() {
	if c.saving != nil {
		c.saving.stop()
		c.saving = nil
	}
}

// checkpointDue reports whether a checkpoint is to follow a pack: one was asked for, or so much was stored
// since somebody began the newest one, but at least twice as much as one has, so that checkpoints are at most half of the
// log; or that is older than a quarter of the expiry, so that quiet servers forget sessions as well, and servers of
// one log know about each other's clients.
func (c *committer) checkpointDue(p *pack) bool {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if p.tick && c.readClock()-c.checkpointed >= c.Expiry.Milliseconds()/checkpointsPerExpiry {
		return true
	}
	size := 2 * int64(len(c.sessions.byClient)*stateBytes+c.producers.count*producerBytes) // with what comes meanwhile
	return (p.checkpoint || c.since.envelopes >= c.Checkpoint || c.since.bytes >= c.CheckpointBytes-size) && c.since.bytes >= size
}

// How large a session and a producer are in a checkpoint, about.
const (
	stateBytes    = 64
	producerBytes = 128
	packetBytes   = 10 // and a message at QoS 2
)

// statesNow sets the states of a part to those of clients' sessions once a pack is stored. It returns the sessions that
// have expired.
func (c *committer) statesNow(names []string, p *pack) (expired []*session) {
	newest := map[*session]*entry{}
	for i := range p.entries {
		if e := &p.entries[i]; e.records > 0 {
			newest[e.session] = e
		}
	}
	states, producers, packets := c.saving.states[:0], c.saving.posting[:0], c.saving.packets[:0]
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	now := c.readClock()
	expiry := c.Expiry.Milliseconds()
	if c.Shared { // what another server wrote about its clients before it crashed may be so old
		expiry += expiry / checkpointsPerExpiry
	}
	for _, name := range names {
		known := c.sessions.byClient[name]
		switch {
		case known == nil: // forgotten meanwhile
			continue
		case known.link != nil:
			known.seen = now
		case now-known.seen > expiry && known.accepted == known.durable.Load():
			expired = append(expired, known)
			continue
		}
		producers = c.producers.states(producers, name, now, expiry)
		state := known.state(now-known.seen, false)
		if e := newest[known]; e != nil {
			state.Last, state.Sum = e.seq, e.sum
		}
		states = append(states, state)
		if len(known.held) > 0 {
			packets = append(packets, known.packets(state.Last))
		}
	}
	c.saving.states, c.saving.posting, c.saving.packets = states, producers, packets
	return expired
}

// appendStates stores states, with the clock, and forgets the expired sessions. They are
// part of the checkpoint that begins at a position; with part 0, of none. They follow what an envelope has, if there is
// one.
func (c *committer) appendStates(part journal.Part, begins uint64, envelope []byte, states []journal.State, expired []*session) error {
	e := &c.encoder
	c.queue.mu.Lock()
	running := c.readClock()
	base, at := c.queue.base, c.next
	k := c.clock
	clock := journal.Clock{Time: k.time, Highest: c.sessions.highest, Running: k.running, Since: k.since, Moments: k.moments}
	if part&journal.Last != 0 { // it is complete with this envelope: a start after it reads no older one
		base = begins
	}
	e.BeginCheckpoint(part, base, envelope)
	trimmed := c.queue.trims.wanted
	c.queue.mu.Unlock()
	err := e.Clock(clock)
	if trimmed > 0 {
		err = cmp.Or(err, e.Trim(trimmed))
	}
	id := [16]byte{}
	if part&journal.First != 0 {
		err = cmp.Or(err, c.appendCursors(e, running, &id))
	}
	for _, state := range states {
		state.Seen += clock.Time
		err = cmp.Or(err, e.State(&state))
	}
	if part != 0 {
		for _, p := range c.saving.posting {
			p.Seen += clock.Time
			err = cmp.Or(err, e.Producer(&p))
		}
		for _, p := range c.saving.packets {
			err = cmp.Or(err, e.Packets(p.client, p.epoch, false, p.seqs))
		}
	}
	for _, known := range expired {
		err = cmp.Or(err, e.Forgetting(&journal.Forgetting{Client: known.client, Epoch: known.epoch}))
	}
	if err == nil {
		err = c.appendNext(e.Bytes(), true)
	}
	if err != nil {
		return err
	}
	if c.next != at+1 {
		return fmt.Errorf("gateway: a checkpoint was stored at position %d instead of %d", c.next-1, at)
	}
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.clock.logged = clock.Time - clock.Running
	c.readers.identified(id)
	c.noted = c.clock.running
	c.queue.trims.done(trimmed)
	for _, known := range expired {
		if known.accepted == known.durable.Load() { // else a post has come meanwhile
			delete(c.sessions.byClient, known.client)
			c.producers.forget(known.client)
		}
	}
	return nil
}
