package writer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
)

// Sequencer admits one Append at a time, and none after the end of the log, and wakes those that wait for one.
type Sequencer struct {
	mu sync.Mutex

	news    sync.Mutex
	reached uint64        // every position before it is stored
	ended   error         // why nobody can append any more; nil: the log works
	changed chan struct{} // closed when one of them may have changed; nil: nobody waits
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

// News returns how far the log reaches, why it has ended, and a channel that is closed with the next Tell.
func (s *Sequencer) News() (reached uint64, changed <-chan struct{}, ended error) {
	s.news.Lock()
	defer s.news.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.reached, s.changed, s.ended
}

// Wait returns when the envelope at position pos is stored.
func (s *Sequencer) Wait(ctx context.Context, pos uint64) error {
	for {
		reached, changed, ended := s.News()
		switch {
		case pos < reached:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
