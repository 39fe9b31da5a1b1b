package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/journal"
)

// verified is a log whose verification ends with an error.
type verified struct {
	journal.Reader
	err error
}

func (v verified) Verify(context.Context, int64, func(done, all uint64)) error { return v.err }

// A verification that lacks descriptors has not found damage, and does not forget what was found before.
func TestVerificationWithoutDescriptors(t *testing.T) {
	lacks := &fs.PathError{Op: "open", Path: "1.seg", Err: syscall.EMFILE}
	damage := &journal.Damage{First: 3, Last: 3, Err: errors.New("damaged")}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var v verification
	for i, c := range []struct {
		err      error
		complete bool
		damage   int64
	}{
		{lacks, false, 0},
		{errors.Join(damage, damage), true, 2},
		{errors.Join(damage, lacks), false, 2},
		{nil, true, 0},
		{&fs.PathError{Op: "read", Path: "1.seg", Err: syscall.EIO}, true, 1},
	} {
		if complete := v.once(t.Context(), verified{err: c.err}, 1, log); complete != c.complete || v.damage.Load() != c.damage {
			t.Errorf("%d: complete %v with %d places; want %v and %d", i, complete, v.damage.Load(), c.complete, c.damage)
		}
	}
}
