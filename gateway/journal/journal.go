// Package journal stores the messages that a gateway acknowledges, in an append-only log of
// envelopes. Each envelope holds many messages.
//
// A Log is an embedded JetStream store on one machine (OpenEmbedded), a JetStream cluster
// (OpenCluster), a folder of checksummed segments (OpenSegments, which honed does not use yet), a
// plain file (OpenFile), which is the baseline of the benchmarks, or Memory, for tests. All are crash-only: an Append whose outcome is unknown breaks the Log, and the
// process recovers with a restart.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Log is an append-only sequence of envelopes. Positions start at 1 and have no gaps. All
// methods are safe for concurrent use; Append runs one call at a time.
type Log interface {
	// Append stores one envelope and returns its position. It returns a nil error only
	// when the envelope is as durable as the log promises: fsynced, or on a majority of
	// machines. After ErrNoSpace, ErrTooLarge, ErrMalformed and ErrConflict nothing was
	// stored and the Log still works. After any other error the outcome is unknown: the Log
	// is broken, and every later Append returns ErrBroken. A ctx that ends while the
	// envelope is in flight breaks the Log too. The Log does not keep envelope, but may
	// still read it after it broke.
	Append(ctx context.Context, envelope []byte) (pos uint64, err error)

	// Read calls each for every envelope from position from (0 is the first one) up to the
	// newest at the time of the call. envelope is valid until each returns. When each
	// returns an error, Read stops and returns it.
	Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error

	// Bounds returns the positions of the first envelope and of the next one to be stored.
	// They are equal in an empty log.
	Bounds() (first, next uint64, err error)

	// Verify reads the whole log and checks each envelope. It reports damage as a *Refusal.
	// It calls progress, if not nil, periodically with numbers of envelopes.
	Verify(ctx context.Context, progress func(done, all uint64)) error

	// Close waits for a running Append and releases the log. It loses nothing that Append
	// has stored.
	Close() error
}

// The errors of a Log that callers handle.
var (
	// ErrBroken: an earlier Append had an unknown outcome. Close connections without
	// acknowledging, exit, and recover from the log.
	ErrBroken = errors.New("journal: the log is broken; exit and recover from it")
	// ErrClosed: the Log is closed.
	ErrClosed = errors.New("journal: the log is closed")
	// ErrConflict: another writer of the same cluster appended first. Read to the end, drop
	// the records that turn out to be stored already, and append the rest again.
	ErrConflict = errors.New("journal: another writer appended first")
	// ErrNoSpace: the disk has only its reserve left, or the log has reached its size limit.
	ErrNoSpace = errors.New("journal: no space left for the log")
	// ErrTooLarge: the envelope is larger than MaxEnvelope.
	ErrTooLarge = errors.New("journal: the envelope is too large")
	// ErrMalformed: the bytes are not an envelope, or an entry cannot be encoded.
	ErrMalformed = errors.New("journal: malformed envelope")
)

// Refusal is the error of a log that cannot be opened, or of a failed Verify. This package does
// not change a log that it refuses. JetStream may have done so: it opens its files before they can
// be checked, truncates torn ends and rebuilds its indexes. Copy the folder before you repair it.
type Refusal struct {
	What   string // what is wrong, with the values
	Repair string // what the operator can do
	Err    error  // the cause, may be nil
}

// Error returns What, the cause and Repair in one line.
func (r *Refusal) Error() string {
	text := "journal: " + r.What
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text + "; " + r.Repair
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// TrimmedError is the error of a Read of positions that were trimmed.
type TrimmedError struct{ First uint64 } // the first position of the log

// Error names the first position.
func (e *TrimmedError) Error() string {
	return fmt.Sprintf("journal: the positions before %d were trimmed", e.First)
}

// turn admits one Append at a time, and none after a failure.
type turn struct {
	mu     sync.Mutex
	closed bool
	broken error // the error that broke the log
}

// enter waits for the previous Append. If it returns nil, the caller must unlock t.mu.
func (t *turn) enter(ctx context.Context, envelope []byte) error {
	if len(envelope) > MaxEnvelope {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, len(envelope), MaxEnvelope)
	}
	if _, err := header(envelope); err != nil {
		return err
	}
	t.mu.Lock()
	err := ctx.Err() // nothing was sent, so the log is not broken
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

// breaks marks the log as broken. An Append with an unknown outcome calls it, with t.mu locked.
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

// progressStep is the number of envelopes between two calls of Verify's progress.
const progressStep = 1024

// verify reads the whole log and checks that positions have no gap and envelopes are undamaged.
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
