package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// turns lets the writers of one stream append in turn. Without them, the writer that has just appended knows the
// log's end before all others, and wins every race for the next position.
//
// A writer that has lost a race says that it wants the next position, in a message that the stream does not store. The
// one that has the turn goes on for turnTime, or for busyTurn if all have large envelopes, while it has something to
// append, and then leaves the position to the one that has waited longest. Turns only save time: when messages are lost or a writer stands still, the others race
// as before, and JetStream decides.
type turns struct {
	nc              *nats.Conn
	subject, writer string
	idle            *time.Timer // ends a turn of which nothing more is made

	mu    sync.Mutex
	busy  bool              // an Append runs
	took  time.Duration     // the longest of its Appends, an eighth less after each turn
	last  uint64            // position of this writer's newest envelope; 0: none
	holds bool              // it has the turn
	began time.Time         // its turn
	told  bool              // that it ends soon
	size  int               // of the envelope that this writer appends
	want  map[string]wanted // the other writers that want a turn
	soon  time.Time         // another writer's turn ends soon after that; zero: it has ended
}

// wanted is what a writer that wants a turn says.
type wanted struct {
	last uint64 // its last
	size int    // of its envelope; 0: it did not say
}

// word is what a writer says about a position.
type word int

const (
	wants word = 1 + iota // it wants that position
	soon                  // its turn ends soon, and everything before that position is stored
	ends                  // its turn ends, and everything before that position is stored, or will be in a moment
)

const (
	turnSubject  = "honed.turn"           // without the stream's name
	turnTime     = 100 * time.Millisecond // handing over a turn takes about 5
	busyTurn     = 250 * time.Millisecond // where much waits for each turn
	busySize     = 16 << 10               // bytes of an envelope that has gathered much
	turnIdle     = 2 * time.Millisecond   // at least, until a turn ends of which nothing more is made
	turnPatience = 250 * time.Millisecond // a writer that stands still costs the others that much, once, or a longer turn more
	mostWanted   = 100                    // turns that this writer knows of
)

// join takes part. stored is called when another writer says up to where the stream has envelopes.
func (t *turns) join(nc *nats.Conn, stream, writer string, stored func(next uint64)) error {
	t.nc, t.subject, t.writer, t.want = nc, turnSubject+"."+stream, writer, map[string]wanted{}
	t.idle = time.AfterFunc(time.Hour, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.busy && t.holds && len(t.want) > 0 {
			t.say(ends, t.last+1)
		}
	})
	t.idle.Stop()
	_, err := nc.Subscribe(t.subject, func(m *nats.Msg) {
		var what word
		var who string
		var last, next uint64
		var size int
		if n, _ := fmt.Sscan(string(m.Data), &what, &who, &last, &next, &size); n < 4 || who == writer {
			return
		}
		t.mu.Lock()
		before, known := t.want[who]
		switch t.soon = (time.Time{}); {
		case what == wants && (known || len(t.want) < mostWanted):
			t.want[who] = wanted{last, size}
			t.idle.Reset(turnIdle)
		case known && before.last < last:
			delete(t.want, who)
		}
		if what == soon {
			t.soon = time.Now()
		}
		t.mu.Unlock()
		if what != wants {
			stored(next)
		}
	})
	return err
}

// say tells the others a word about a position; mu is held. Nobody relies on it, so an error does not matter.
func (t *turns) say(what word, next uint64) {
	t.holds = t.holds && what == soon
	t.nc.Publish(t.subject, fmt.Appendf(nil, "%d %s %d %d %d", what, t.writer, t.last, next, t.size))
}

func (t *turns) stored(pos uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pos != t.last+1 {
		t.began = time.Now()
		t.took -= t.took / 8
	}
	if pos != t.last+1 || len(t.want) == 0 {
		t.holds, t.told = true, false
	}
	t.last = pos
}

// done notes the end of an Append that has taken so long.
func (t *turns) done(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy, t.took = false, max(t.took, took)
	if len(t.want) > 0 {
		t.idle.Reset(t.rest(took))
	}
}

// rest returns how long a turn goes on after an Append that took so long, if nothing follows; mu is held. Where much waits, what
// follows a short Append, as that of a part of a checkpoint, may take as long to gather as what took longer.
func (t *turns) rest(took time.Duration) time.Duration {
	if t.length() == busyTurn {
		took = t.took
	}
	return min(max(took, turnIdle), turnTime)
}

// first returns the writers whose turn is before this one's; mu is held.
func (t *turns) first() (all []string) {
	for who, w := range t.want {
		if cmp.Or(cmp.Compare(w.last, t.last), cmp.Compare(who, t.writer)) < 0 {
			all = append(all, who)
		}
	}
	return all
}

// length returns how long a turn is now; mu is held.
func (t *turns) length() time.Duration {
	least := t.size
	for _, w := range t.want {
		least = min(least, w.size)
	}
	if least < busySize {
		return turnTime
	}
	return busyTurn
}

// leaves reports whether this writer, with an envelope of size bytes, leaves position next to others, and how long it
// then waits for the one after that.
func (t *turns) leaves(next uint64, size int) (patience time.Duration, leaves bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy, t.size = true, size
	length := t.length()
	if t.holds = t.holds && next == t.last+1; t.holds && len(t.want) > 0 {
		switch took := time.Since(t.began); {
		case took > length: // with the envelope that comes now
			t.say(ends, next+1)
		case took > length*3/4 && !t.told: // so that they read all but the last ones meanwhile
			t.told = true
			t.say(soon, next)
		}
		return 0, false
	}
	if len(t.first()) == 0 && time.Since(t.soon) > length {
		return 0, false
	}
	t.say(wants, next)
	return length + turnPatience - turnTime, true
}

// forget makes this writer's turn come.
func (t *turns) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.soon = time.Time{}
	for _, who := range t.first() {
		delete(t.want, who)
	}
}

// leave leaves other writers their turn, and reports whether they have taken the next position.
func (l *Log) leave(ctx context.Context, size int) bool {
	patience, leaves := l.turns.leaves(l.next, size)
	if !leaves || l.awaitTurn(ctx, patience) {
		return leaves
	}
	l.turns.forget()
	return false
}

// lost waits for a turn after a lost race.
func (l *Log) lost(ctx context.Context) {
	l.turns.mu.Lock()
	l.turns.say(wants, l.next)
	patience := 2 * l.turns.length()
	l.turns.mu.Unlock()
	l.awaitTurn(ctx, patience)
}

// awaitTurn waits for a word about the next position, and reports whether there was one. The next Follow goes by it.
func (l *Log) awaitTurn(ctx context.Context, patience time.Duration) bool {
	brief, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.sequencer.wait(brief, l.next, nil) != nil {
		return false
	}
	l.heard = l.sequencer.heard()
	return true
}

// sequencer is that of a log to which others append as well.
type sequencer struct {
	writer.Sequencer
	mu   sync.Mutex
	said uint64 // every position before it is stored, by what another writer says
}

// nudge has those that wait look whether another writer is right in that every position before said is stored.
func (s *sequencer) nudge(said uint64) {
	s.mu.Lock()
	s.said = max(s.said, said)
	s.mu.Unlock()
	s.Tell(0, nil)
}

// heard returns up to where the log is stored by what another writer says, once.
func (s *sequencer) heard() (said uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, s.said = s.said, 0
	return said
}

// waitEvery is how often wait asks for an envelope of another process.
const waitEvery = 100 * time.Millisecond

// wait returns when the envelope at position pos is stored: by this process, or as ask reports; without ask, it is enough
// that another writer says so.
func (s *sequencer) wait(ctx context.Context, pos uint64, ask func() bool) error {
	soon := time.Millisecond
	for due := ask != nil; ; {
		reached, changed, ended := s.News()
		s.mu.Lock()
		said := s.said
		s.mu.Unlock()
		switch {
		case pos < reached:
			return nil
		case ended != nil:
			return ended
		case ask == nil && pos < said:
			return nil
		case ask != nil && (due || pos < said) && ask():
			s.Tell(pos+1, nil)
			return nil
		}
		var tick <-chan time.Time
		switch {
		case ask != nil && pos < said: // the nearest replica has not caught up
			tick = time.After(soon)
			soon = min(2*soon, waitEvery)
		case ask != nil:
			tick = time.After(waitEvery)
		}
		select {
		case <-tick:
			due = true
		case <-changed:
			due = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
