package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
)

// errEnough ends a Read.
var errEnough = errors.New("enough")

// copyRange calls each for the envelopes from position first up to, but not including, next, and lost for
// those that are lost.
func copyRange(ctx context.Context, log Reader, first, next uint64, each func(pos uint64, envelope []byte) error, lost func(*Damage) error) error {
	err := ReadPast(ctx, log, first, func(pos uint64, envelope []byte) error {
		if pos >= next {
			return errEnough
		}
		return each(pos, envelope)
	}, lost)
	if err == errEnough {
		return nil
	}
	return err
}

// compare returns a *Refusal unless a copy has the same envelopes as old from position first up to, but not
// including, next. It reads all of them, and calls progress, if not nil, after each.
func compare(ctx context.Context, old, copied Reader, first, next uint64, progress func(what string, done, all uint64)) error {
	var failed error
	past := func(*Damage) error { return nil }
	theirs, stop := iter.Pull2(func(yield func(uint64, []byte) bool) {
		failed = copyRange(ctx, copied, first, next, func(pos uint64, envelope []byte) error {
			if !yield(pos, envelope) {
				return errEnough
			}
			return nil
		}, past)
	})
	defer stop()
	differs := func(pos uint64) error {
		return &Refusal{
			What:   fmt.Sprintf("the copy differs from the old log at position %d", pos),
			Repair: "delete the copy and begin again, and check the memory and the disks of the machine",
			Err:    failed,
		}
	}
	err := copyRange(ctx, old, first, next, func(pos uint64, envelope []byte) error {
		if at, copied, more := theirs(); !more || at != pos || !bytes.Equal(copied, envelope) {
			return differs(pos)
		}
		if progress != nil {
			progress("compared", pos+1-first, next-first)
		}
		return nil
	}, past)
	if err != nil {
		return err
	}
	if at, _, more := theirs(); more || failed != nil {
		return differs(at)
	}
	return nil
}
