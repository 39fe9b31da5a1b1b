package writer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Turn admits one Append at a time, and none after the end of the log, and wakes those that wait for one.
type Turn struct {
	mu sync.Mutex

	news    sync.Mutex
	reached uint64        // every position before it is stored
	said    uint64        // the same, by what another writer says
	ended   error         // why nobody can append any more; nil: the log works
	changed chan struct{} // closed when one of them changes; nil: nobody waits
}

// Append runs store once the previous Append has ended, unless the log or ctx has ended.
func (t *Turn) Append(ctx context.Context, store func() (pos uint64, err error)) (pos uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmp.Or(t.Over(), ctx.Err()); err != nil { // nothing was sent, so the log is not broken
		return 0, err
	}
	return store()
}

// Between runs do between two Appends.
func (t *Turn) Between(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
}

// Breaks marks the log as broken. An Append with an unknown outcome calls it.
func (t *Turn) Breaks(cause error) error {
	t.Tell(0, ErrBroken)
	return fmt.Errorf("%w (%w)", ErrBroken, cause)
}

// Shut marks the log as closed, and returns what it was before.
func (t *Turn) Shut() (ended error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended = t.Over()
	t.Tell(0, ErrClosed)
	return ended
}

// Over returns why the log has ended; nil: it works.
func (t *Turn) Over() error {
	t.news.Lock()
	defer t.news.Unlock()
	return t.ended
}

// Tell notes how far the log reaches, or why it has ended, and wakes those that wait.
func (t *Turn) Tell(reached uint64, ended error) {
	t.news.Lock()
	defer t.news.Unlock()
	t.reached, t.ended = max(t.reached, reached), cmp.Or(ended, t.ended)
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Nudge has those that wait look whether another writer is right in that every position before said is stored.
func (t *Turn) Nudge(said uint64) {
	t.news.Lock()
	t.said = max(t.said, said)
	t.news.Unlock()
	t.Tell(0, nil)
}

// Heard returns up to where the log is stored by what another writer says, once.
func (t *Turn) Heard() (said uint64) {
	t.news.Lock()
	defer t.news.Unlock()
	said, t.said = t.said, 0
	return said
}

// WaitEvery is how often wait asks for an envelope of another process.
const WaitEvery = 100 * time.Millisecond

// Wait returns when the envelope at position pos is stored. If others may have stored it, ask reports that; without
// ask, it is enough that another writer says so.
func (t *Turn) Wait(ctx context.Context, pos uint64, ask func() bool) error {
	soon := time.Millisecond
	for due := ask != nil; ; {
		t.news.Lock()
		reached, said, ended := t.reached, t.said, t.ended
		if t.changed == nil && reached <= pos {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.news.Unlock()
		switch {
		case pos < reached:
			return nil
		case ended != nil:
			return ended
		case ask == nil && pos < said:
			return nil
		case ask != nil && (due || pos < said) && ask():
			t.Tell(pos+1, nil)
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
