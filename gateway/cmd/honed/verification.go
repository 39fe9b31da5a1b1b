package main

import (
	"context"
	"log/slog"
	"sync/atomic"
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
func (v *verification) run(ctx context.Context, log journal.Reader, rate int64, every time.Duration, logger *slog.Logger) {
	for rate > 0 && ctx.Err() == nil {
		began := time.Now()
		v.once(ctx, log, rate, logger)
		select {
		case <-ctx.Done():
		case <-time.After(every - time.Since(began)):
		}
	}
}

// once verifies the log and logs what it finds.
func (v *verification) once(ctx context.Context, log journal.Reader, rate int64, logger *slog.Logger) {
	err := log.Verify(ctx, rate, func(done, all uint64) { v.done.Store(done); v.all.Store(all) })
	if ctx.Err() != nil {
		return
	}
	found := places(err)
	for _, damage := range found {
		logger.Error("the background verification found damage", "err", damage)
	}
	v.damage.Store(int64(len(found)))
	v.ended.Store(time.Now().Unix())
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
