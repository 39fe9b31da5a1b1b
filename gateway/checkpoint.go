package gateway

import (
	"cmp"
	"fmt"
	"iter"
	"maps"

	"github.com/hone-go/hone/gateway/journal"
)

// saving is a checkpoint that the committer writes, one part after each pack. Whatever comes between its parts says more
// than they do.
type saving struct {
	begins uint64                  // position of its first part; 0: that is not stored yet
	next   func() (*session, bool) // yields the sessions that were there when it began; queue.mu is held
	stop   func()
	names  []string // clients that next has yielded and that are not stored yet
}

// statesPerEnvelope keeps an envelope of states and forgettings under 512 KiB.
const statesPerEnvelope = 4000

// checkpoint writes all sessions to the log, without a pack in between. Only the committer may call it.
func (s *Server) checkpoint() error {
	s.abandon()
	for {
		if err := s.save(); err != nil || s.saving == nil {
			return err
		}
	}
}

// save writes the next part of a checkpoint, or the first one of a new one, and forgets expired sessions.
// Only the committer may call it: then session.durable matches the log.
func (s *Server) save() error {
	s.queue.mu.Lock()
	v := s.saving
	if v == nil {
		v = &saving{}
		v.next, v.stop = iter.Pull(maps.Values(s.sessions.byClient))
		s.saving = v
	}
	for len(v.names) <= statesPerEnvelope {
		known, more := v.next()
		if !more {
			break
		}
		v.names = append(v.names, known.client)
	}
	s.queue.mu.Unlock()
	n, part := min(len(v.names), statesPerEnvelope), journal.Part(0)
	if n == len(v.names) {
		part = journal.Last
	}
	begins := v.begins
	err := s.untilFirst(func() error {
		if v.begins > 0 && v.begins < s.queue.base { // another server's newer one is complete
			part = journal.Last
			return nil
		}
		if v.begins == 0 {
			begins, part = s.next, part|journal.First
		}
		states, expired := s.statesNow(v.names[:n])
		return s.appendStates(part, begins, states, expired)
	})
	if err != nil {
		return err
	}
	if v.begins = begins; part&journal.First != 0 {
		s.since.envelopes, s.since.bytes = 0, 0
	}
	if v.names = append(v.names[:0], v.names[n:]...); part&journal.Last == 0 {
		return nil
	}
	s.abandon()
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.base = max(s.queue.base, begins)
	s.checkpointed = s.clock.running
	return nil
}

// abandon ends the checkpoint that is being written, complete or not.
func (s *Server) abandon() {
	if s.saving != nil {
		s.saving.stop()
		s.saving = nil
	}
}

// checkpointDue reports whether a checkpoint is to follow a pack: one was asked for, or so much was stored
// since somebody began the newest one, but at least twice as much as one has, so that checkpoints are at most half of the
// log; or that is older than a quarter of the expiry, so that quiet servers forget sessions as well, and servers of
// one log know about each other's clients.
func (s *Server) checkpointDue(p *pack) bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if p.tick && s.readClock()-s.checkpointed >= s.Expiry.Milliseconds()/checkpointsPerExpiry {
		return true
	}
	size := 2 * int64(len(s.sessions.byClient)*stateBytes) // with what comes meanwhile
	return (p.checkpoint || s.since.envelopes >= s.Checkpoint || s.since.bytes >= s.CheckpointBytes-size) && s.since.bytes >= size
}

// stateBytes is about how large a session is in a checkpoint.
const stateBytes = 64

// state returns a session as the log stores it. Seen is relative: appendStates adds the time.
func (known *session) state(age int64, claim bool) journal.State {
	return journal.State{
		Client: known.client, Epoch: known.epoch, Last: known.durable.Load(), Claim: claim,
		Connected: known.link != nil, Seen: -age, Summed: known.summed, Sum: known.storedSum, Instance: known.instance, Holed: known.holed,
	}
}

// statesNow returns the states of clients' sessions, and the sessions that have expired.
func (s *Server) statesNow(names []string) (states []journal.State, expired []*session) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	now := s.readClock()
	expiry := s.Expiry.Milliseconds()
	if s.Shared { // what another server wrote about its clients before it crashed may be so old
		expiry += expiry / checkpointsPerExpiry
	}
	for _, name := range names {
		known := s.sessions.byClient[name]
		switch {
		case known == nil: // forgotten meanwhile
			continue
		case known.link != nil:
			known.seen = now
		case now-known.seen > expiry && known.accepted == known.durable.Load():
			expired = append(expired, known)
			continue
		}
		states = append(states, known.state(now-known.seen, false))
	}
	return states, expired
}

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
