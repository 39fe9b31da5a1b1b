// Package journal stores the messages that a gateway acknowledges, in an append-only log of
// envelopes. Each envelope holds many messages.
//
// A Log is a folder of checksummed segments on one machine (OpenSegments), or a stream of a JetStream
// cluster (package cluster). Both are crash-only: an Append whose outcome is unknown breaks the Log, and the
// process recovers with a restart.
package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// Reader reads a log. Positions start at 1 and have no gaps. All methods are safe for concurrent use.
type Reader interface {
	// Read calls each for every envelope from position from (0 is the first one) up to the
	// newest at the time of the call. envelope is valid until each returns. When each
	// returns an error, Read stops and returns it. A lost envelope ends it with a *Damage, and a
	// Read from the position after Damage.Last goes on, as ReadPast does. Positions that were
	// trimmed are a *TrimmedError.
	Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error

	// Bounds returns the positions of the first envelope and of the next one to be stored.
	// They are equal in an empty log.
	Bounds() (first, next uint64, err error)

	// Verify reads the whole log, at most at a rate in bytes per second (0: as fast as possible),
	// and checks everything in it. Its error joins all damage, a *Damage for each lost envelope.
	// It calls progress, if not nil, periodically with numbers of envelopes.
	Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error

	// Close releases the log. It waits for a running Append, and loses nothing that Append
	// has stored.
	Close() error
}

// Log is an append-only sequence of envelopes, and all that a gateway needs of one: a Log around another one, such as one
// that measures it, has to have every method. Append and AppendReserved run one call at a time.
type Log interface {
	Reader

	// Append stores one envelope and returns its position. It returns a nil error only
	// when the envelope is as durable as the log promises: fsynced, or on a majority of
	// machines. After ErrNoSpace, ErrTooLarge, ErrMalformed and ErrConflict nothing was
	// stored and the Log still works. After any other error the outcome is unknown: the Log
	// is broken, and every later Append returns ErrBroken. A ctx that ends while the
	// envelope is in flight breaks the Log too. The Log does not keep envelope, but may
	// still read it after it broke.
	Append(ctx context.Context, envelope []byte) (pos uint64, err error)

	// AppendReserved is Append of what makes room. It may exceed the log's limit and use a part of the disk's
	// reserve. A log without a reserve returns ErrNoSpace.
	AppendReserved(ctx context.Context, envelope []byte) (pos uint64, err error)

	// Follow is Read by the writer: the next Append comes after what Follow has read, and is refused with
	// ErrConflict if another writer's envelope is there.
	Follow(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error

	// Wait returns when the envelope at position pos is stored, by whichever writer. It
	// returns an error when ctx ends, or the log closes or breaks first.
	Wait(ctx context.Context, pos uint64) error

	// Trim deletes old envelopes, none at position to or later. It may leave some before to. It
	// does not hold up Append. A crash leaves no gap.
	Trim(ctx context.Context, to uint64) error

	// Measure returns a function that says of a position up to where Trim could delete before it, and how many bytes
	// the log has from the position on, roughly.
	Measure(ctx context.Context) (func(pos uint64) (begins uint64, after int64), error)

	// Status returns how large the log is and whether it can grow. It does not wait for a running Append.
	Status() Status

	// Failed returns a channel that receives an error if the log fails between two Appends; nil: it cannot.
	Failed() <-chan error
}

// Status is the state of a Log.
type Status struct {
	Size, Left     int64  // bytes that it has, and that it may still grow; Left is math.MaxInt64 if nothing is known
	Full           error  // what limits the log, if Left is 0
	Connected      *bool  // to its cluster; nil: it has none
	Disconnections uint64 // from its cluster
	Copied         uint64 // what is before this position comes from a backup: clients may know of more; 0: nothing
}

// The errors of a Log that callers handle.
var (
	// ErrBroken: an earlier Append had an unknown outcome. Close connections without
	// acknowledging, exit, and recover from the log.
	ErrBroken = writer.ErrBroken
	// ErrClosed: the Log is closed.
	ErrClosed = writer.ErrClosed
	// ErrConflict: another writer of the same cluster appended first, or is about to. Follow to the end, drop
	// the records that turn out to be stored already, and append the rest again.
	ErrConflict = errors.New("journal: another writer appended first")
	// ErrNoSpace: the disk has only its reserve left, or the log has reached its size limit.
	ErrNoSpace = errors.New("journal: no space left for the log")
	// ErrTooLarge: the envelope is larger than MaxEnvelope.
	ErrTooLarge = errors.New("journal: the envelope is too large")
	// ErrMalformed: the bytes are not an envelope, or an entry cannot be encoded.
	ErrMalformed = errors.New("journal: malformed envelope")
)

// Refusal is the error of a log that cannot be opened, or whose files were replaced. This package does not change a log
// that it refuses.
type Refusal = writer.Refusal

// TrimmedError is the error of a Read of positions that were trimmed.
type TrimmedError struct{ First uint64 } // the first position of the log

// Error names the first position.
func (e *TrimmedError) Error() string {
	return fmt.Sprintf("journal: the positions before %d were trimmed", e.First)
}

// CheckHeader returns why Append refuses an envelope, by its size and its header alone, or nil.
func CheckHeader(envelope []byte) error {
	if len(envelope) > MaxEnvelope {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, len(envelope), MaxEnvelope)
	}
	_, err := header(envelope)
	return err
}

// Range is a range of positions. The zero value is empty.
type Range struct{ First, Last uint64 }

// Has reports whether all positions of d are in the range.
func (r Range) Has(d *Damage) bool { return r.First > 0 && r.First <= d.First && d.Last <= r.Last }

// ReadPast is Reader.Read, but goes on after lost envelopes once it has called lost.
func ReadPast(ctx context.Context, log Reader, from uint64, each func(pos uint64, envelope []byte) error, lost func(*Damage) error) error {
	for {
		err := log.Read(ctx, from, each)
		d, is := errors.AsType[*Damage](err)
		if !is {
			return err
		}
		if err := lost(d); err != nil {
			return err
		}
		from = d.Last + 1
	}
}

// ReadKept is ReadPast, but goes on after what is trimmed meanwhile.
func ReadKept(ctx context.Context, log Reader, from uint64, each func(pos uint64, envelope []byte) error, lost func(*Damage) error) error {
	for {
		err := ReadPast(ctx, log, from,
			func(pos uint64, envelope []byte) error { from = pos + 1; return each(pos, envelope) },
			func(d *Damage) error { from = d.Last + 1; return lost(d) })
		trimmed, is := errors.AsType[*TrimmedError](err)
		if !is || trimmed.First <= from {
			return err
		}
		from = trimmed.First
	}
}

const (
	progressStep = 1024                  // envelopes between two calls of Verify's progress
	verifyStep   = 50 * time.Millisecond // how far Verify may be ahead of its rate
	mostDamage   = 100                   // how much damage one Verify names
)

// VerifyReads is Verify for a log of which Read finds all damage.
func VerifyReads(ctx context.Context, log Reader, rate int64, progress func(done, all uint64)) error {
	first, next, err := log.Bounds()
	if err != nil {
		return err
	}
	began, read, found := time.Now(), int64(0), 0
	var damage []error
	err = ReadKept(ctx, log, first, func(pos uint64, envelope []byte) error {
		if _, err := DecodeAt(pos, envelope); err != nil {
			return err
		}
		if done := pos + 1 - first; progress != nil && done%progressStep == 0 {
			progress(done, next-first)
		}
		if read += int64(len(envelope)); rate > 0 {
			if ahead := time.Duration(float64(read)/float64(rate)*float64(time.Second)) - time.Since(began); ahead > verifyStep {
				return writer.Pause(ctx, ahead)
			}
		}
		return nil
	}, func(d *Damage) error {
		if found++; found <= mostDamage {
			damage = append(damage, d)
		}
		return nil
	})
	if err != nil {
		return errors.Join(append(damage, err)...)
	}
	if found > mostDamage {
		damage = append(damage, fmt.Errorf("journal: and %d more", found-mostDamage))
	}
	if progress != nil {
		progress(next-first, next-first)
	}
	return errors.Join(damage...)
}
