package fleet

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"time"

	"github.com/hone-go/hone/tool/child"
)

// AnyCPU leaves a process on all the CPUs that this one may use.
const AnyCPU = -1

// Spawn starts a process on one CPU, or AnyCPU. When ctx ends, it is killed.
func Spawn(ctx context.Context, cpu int, name string, args ...string) (*child.Child, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	return child.Start(cmd, child.Options{Signal: true, Start: func(cmd *exec.Cmd) error { return startOn(cpu, cmd) }})
}

// startOn starts cmd from a thread that is bound to cpu, which the process
// inherits: so even what a runtime asks of the system before main is answered as
// it will be.
func startOn(cpu int, cmd *exec.Cmd) error {
	if cpu == AnyCPU {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := affinity()
	if err != nil {
		return err
	}
	if err := bind(maskOf(cpu)); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), bind(before))
}

// Wait waits, but not beyond ctx.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
