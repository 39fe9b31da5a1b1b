// Package journal keeps what a gateway has acknowledged: an append-only log of envelopes,
// each of which holds many messages.
//
// A Log is the embedded JetStream store of one machine (OpenEmbedded), a JetStream cluster
// (OpenCluster), a plain file (OpenFile), which is the baseline of the benchmarks, or Memory,
// for tests. All are crash-only: an Append whose outcome is unknown breaks the Log, and the
// process recovers by starting again.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Log is an append-only sequence of envelopes. Positions begin at 1 and have no gaps. All
// methods may be called from any goroutine; Append serves one call at a time.
type Log interface {
	// Append stores one envelope and returns its position. It returns a nil error only
	// after the promise of the log's level holds: fsynced, or on a majority of machines.
	// After ErrNoSpace, ErrTooLarge, ErrMalformed and ErrConflict nothing was stored and the
	// Log goes on. Any other error leaves the outcome unknown: the Log is broken, and every
	// later Append returns ErrBroken. A ctx that ends while the envelope is on its way
	// breaks the Log too. The Log does not keep envelope, but may still read it once it is
	// broken.
	Append(ctx context.Context, envelope []byte) (pos uint64, err error)

	// Read calls each for every envelope from position from (0 is the first one) up to the
	// newest at the time of the call. envelope is valid until each returns. An error of
	// each ends Read, which returns it.
	Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error

	// Bounds returns the position of the first envelope and the position that the next one
	// will get. They are equal in an empty log.
	Bounds() (first, next uint64, err error)

	// Verify reads the whole log and checks each envelope. Damage is reported as a *Refusal.
	// progress, if not nil, is called now and then with numbers of envelopes.
	Verify(ctx context.Context, progress func(done, all uint64)) error

	// Close waits for a running Append and releases the log. It does not lose anything
	// that Append has acknowledged.
	Close() error
}

// The errors of a Log that a caller tells apart.
var (
	// ErrBroken: an earlier Append had an unknown outcome. Close connections without
	// acknowledging, exit, and recover from the log.
	ErrBroken = errors.New("journal: the log is broken; exit and recover from it")
	// ErrClosed: the Log was closed.
	ErrClosed = errors.New("journal: the log is closed")
	// ErrConflict: another writer of the same cluster appended first. Read to the end, drop
	// what that shows to be stored already, and append the rest again.
	ErrConflict = errors.New("journal: another writer appended first")
	// ErrNoSpace: the disk is down to its reserve, or the log has reached its size limit.
	ErrNoSpace = errors.New("journal: no space left for the log")
	// ErrTooLarge: the envelope is larger than MaxEnvelope.
	ErrTooLarge = errors.New("journal: the envelope is too large")
	// ErrMalformed: the bytes are not an envelope, or an entry cannot be encoded.
	ErrMalformed = errors.New("journal: malformed envelope")
)

// Refusal is why a log does not open, or what Verify found. This package changes nothing in a
// log that it refuses. JetStream may have: it opens its files before they can be checked, and
// then cuts off torn ends and rebuilds its indexes. Copy the folder before you repair it.
type Refusal struct {
	What   string // what is wrong, with the values that show it
	Repair string // what the operator can do
	Err    error  // the cause, if there is one
}

// Error returns both sentences.
func (r *Refusal) Error() string {
	text := "journal: " + r.What
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text + "; " + r.Repair
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// turn admits one Append at a time and remembers that one has failed.
type turn struct {
	mu     sync.Mutex
	closed bool
	broken error // what broke the log
}

// enter waits for the Append before. The caller unlocks t.mu when err is nil.
func (t *turn) enter(ctx context.Context, envelope []byte) error {
	if len(envelope) > MaxEnvelope {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(envelope), MaxEnvelope)
	}
	if _, err := header(envelope); err != nil {
		return err
	}
	t.mu.Lock()
	err := ctx.Err() // nothing was sent, so nothing breaks
	switch {
	case t.closed:
		err = ErrClosed
	case t.broken != nil:
		err = ErrBroken
	}
	if err != nil {
		t.mu.Unlock()
	}
	return err
}

// breaks is called with t.mu locked, by an Append whose outcome is unknown.
func (t *turn) breaks(cause error) error {
	t.broken = cause
	return fmt.Errorf("%w (%w)", ErrBroken, cause)
}

// shut marks the log as closed and reports whether this call did it.
func (t *turn) shut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.closed
	t.closed = true
	return first
}

// progressStep is how many envelopes Verify reads between two calls of its progress.
const progressStep = 1024

// verify reads all of log and checks that positions have no gap and that each envelope is whole.
func verify(ctx context.Context, log Log, progress func(done, all uint64)) error {
	first, next, err := log.Bounds()
	if err != nil {
		return err
	}
	at, all := first, next-first
	err = log.Read(ctx, first, func(pos uint64, envelope []byte) error {
		if pos != at {
			return &Refusal{
				What:   fmt.Sprintf("position %d follows %d: envelopes are missing", pos, at-1),
				Repair: "restore the log from a backup or a replica",
			}
		}
		if _, err := Decode(envelope); err != nil {
			return &Refusal{
				What:   fmt.Sprintf("the envelope at position %d is damaged", pos),
				Repair: "restore the log from a backup or a replica",
				Err:    err,
			}
		}
		at++
		if done := at - first; progress != nil && done%progressStep == 0 {
			progress(done, all)
		}
		return nil
	})
	if err == nil && at < next {
		err = &Refusal{
			What:   fmt.Sprintf("the log ends at position %d and should end at %d", at-1, next-1),
			Repair: "restore the log from a backup or a replica",
		}
	}
	if err == nil && progress != nil {
		progress(all, all)
	}
	return err
}
