// Package writer has what a program needs that writes to a log, whatever the kind of the log: one Append at a time, a
// high-water mark, locks, and the reasons to refuse a log.
package writer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors of a log that has ended.
var (
	ErrBroken = errors.New("journal: the log is broken; exit and recover from it")
	ErrClosed = errors.New("journal: the log is closed")
)

// Refusal is the error of a log that cannot be opened, or whose files were replaced. This package does not change a log
// that it refuses.
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

// About adds what an error is about, unless a *Refusal says it.
func About(what string, err error) error {
	if _, is := errors.AsType[*Refusal](err); is || err == nil {
		return err
	}
	return fmt.Errorf("journal: %s: %w", what, err)
}

// Pause returns after a time, or with the error of ctx when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
