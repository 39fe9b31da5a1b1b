package writer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Sequencer admits one Append at a time, and none after the end of the log, and wakes those that wait for one.
type Sequencer struct {
	mu sync.Mutex

	news    sync.Mutex
	reached uint64        // every position before it is stored
	said    uint64        // the same, by what another writer says
	ended   error         // why nobody can append any more; nil: the log works
	changed chan struct{} // closed when one of them changes; nil: nobody waits
}

// Append runs store once the previous Append has ended, unless the log or ctx has ended.
func (s *Sequencer) Append(ctx context.Context, store func() (pos uint64, err error)) (pos uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.Over(), ctx.Err()); err != nil { // nothing was sent, so the log is not broken
		return 0, err
	}
	return store()
}

// Between runs do between two Appends.
func (s *Sequencer) Between(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Breaks marks the log as broken. An Append with an unknown outcome calls it.
func (s *Sequencer) Breaks(cause error) error {
	s.Tell(0, ErrBroken)
	return fmt.Errorf("%w (%w)", ErrBroken, cause)
}

// Shut marks the log as closed, and returns what it was before.
func (s *Sequencer) Shut() (ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended = s.Over()
	s.Tell(0, ErrClosed)
	return ended
}

// Over returns why the log has ended; nil: it works.
func (s *Sequencer) Over() error {
	s.news.Lock()
	defer s.news.Unlock()
	return s.ended
}

// Tell notes how far the log reaches, or why it has ended, and wakes those that wait.
func (s *Sequencer) Tell(reached uint64, ended error) {
	s.news.Lock()
	defer s.news.Unlock()
	s.reached, s.ended = max(s.reached, reached), cmp.Or(ended, s.ended)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Nudge has those that wait look whether another writer is right in that every position before said is stored.
func (s *Sequencer) Nudge(said uint64) {
	s.news.Lock()
	s.said = max(s.said, said)
	s.news.Unlock()
	s.Tell(0, nil)
}

// Heard returns up to where the log is stored by what another writer says, once.
func (s *Sequencer) Heard() (said uint64) {
	s.news.Lock()
	defer s.news.Unlock()
	said, s.said = s.said, 0
	return said
}

// WaitEvery is how often wait asks for an envelope of another process.
const WaitEvery = 100 * time.Millisecond

// Wait returns when the envelope at position pos is stored. If others may have stored it, ask reports that; without
// ask, it is enough that another writer says so.
func (s *Sequencer) Wait(ctx context.Context, pos uint64, ask func() bool) error {
	soon := time.Millisecond
	for due := ask != nil; ; {
		s.news.Lock()
		reached, said, ended := s.reached, s.said, s.ended
		if s.changed == nil && reached <= pos {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.news.Unlock()
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
			soon = min(2*soon, WaitEvery)
		case ask != nil:
			tick = time.After(WaitEvery)
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
