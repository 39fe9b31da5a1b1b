package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// verification verifies the whole log in the background while honed serves.
type verification struct {
	done, all atomic.Uint64
	ended     atomic.Int64 // when, in Unix seconds; 0: not yet
	damage    atomic.Int64 // places that the last one found
}

// run verifies log at a rate in bytes per second, again and again, until ctx ends.
func (v *verification) run(ctx context.Context, log journal.Reader, rate int64, logger *slog.Logger) {
	for rate > 0 && ctx.Err() == nil {
		next := time.Now().Add(verifyEvery)
		if !v.once(ctx, log, rate, logger) {
			next = time.Now().Add(verifyAgain)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
}

// When a verification is repeated, and one that could not read everything.
const (
	verifyEvery = 7 * 24 * time.Hour
	verifyAgain = time.Minute
)

// once verifies the log and logs what it finds. It reports whether it could read everything.
func (v *verification) once(ctx context.Context, log journal.Reader, rate int64, logger *slog.Logger) (complete bool) {
	err := log.Verify(ctx, rate, func(done, all uint64) { v.done.Store(done); v.all.Store(all) })
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM): // this machine's, not the log's
		logger.Warn("the background verification could not read everything; it is repeated soon", "err", err)
		return false
	}
	found := places(err)
	for _, place := range found {
		logger.Error("the background verification found damage", "err", place)
	}
	v.damage.Store(int64(len(found)))
	v.ended.Store(time.Now().Unix())
	return true
}

// places returns the errors that err joins.
func places(err error) (all []error) {
	joined, is := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case is:
		for _, one := range joined.Unwrap() {
			all = append(all, places(one)...)
		}
	default:
		all = append(all, err)
	}
	return all
}
