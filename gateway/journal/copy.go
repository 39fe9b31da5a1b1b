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

// pass returns what reports one pass over a log.
func pass(progress func(what string, done, all uint64), what string) func(done, all uint64) {
	if progress == nil {
		return nil
	}
	return func(done, all uint64) { progress(what, done, all) }
}

// copyRange calls each for the envelopes from position first up to, but not including, next, and lost for
// those that are lost. It calls progress, if not nil, after each.
func copyRange(ctx context.Context, log Reader, first, next uint64, progress func(done, all uint64),
	each func(pos uint64, envelope []byte) error, lost func(*Damage) error,
) error {
	err := ReadPast(ctx, log, first, func(pos uint64, envelope []byte) error {
		if pos >= next {
			return errEnough
		}
		err := each(pos, envelope)
		if err == nil && progress != nil {
			progress(pos+1-first, next-first)
		}
		return err
	}, lost)
	if err == errEnough {
		return nil
	}
	return err
}

// compare returns a *Refusal unless a copy has the same envelopes as old from position first up to, but not
// including, next. It reads all of them.
func compare(ctx context.Context, old, copied Reader, first, next uint64, progress func(done, all uint64)) error {
	var failed error
	theirs, stop := iter.Pull2(func(yield func(uint64, []byte) bool) {
		failed = copyRange(ctx, copied, first, next, nil, func(pos uint64, envelope []byte) error {
			if !yield(pos, envelope) {
				return errEnough
			}
			return nil
		}, func(*Damage) error { return nil })
	})
	defer stop()
	differs := func(pos uint64) error {
		return &Refusal{
			What:   fmt.Sprintf("the copy differs from the old log at position %d", pos),
			Repair: "delete the copy and begin again, and check the memory and the disks of the machine",
			Err:    failed,
		}
	}
	err := copyRange(ctx, old, first, next, progress, func(pos uint64, envelope []byte) error {
		if at, copied, more := theirs(); !more || at != pos || !bytes.Equal(copied, envelope) {
			return differs(pos)
		}
		return nil
	}, func(*Damage) error { return nil })
	if err != nil {
		return err
	}
	if at, _, more := theirs(); more || failed != nil {
		return differs(at)
	}
	return nil
}
