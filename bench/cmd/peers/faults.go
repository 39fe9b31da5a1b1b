package main

import (
	"context"
	"io"
	"time"

	"github.com/hone-go/hone/bench/faults"
)

// How long bytes trickle, and how many the client sends that never reads.
const (
	fullTrickle  = 7 * time.Second // hone's limit for one message is 5
	fullFlood    = 256 << 20
	quickTrickle = 300 * time.Millisecond
	quickFlood   = 80 << 20
)

func runFaults(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("faults", stderr)
	if err := s.parse(args); err != nil {
		return err
	}
	r := &faults.Run{Trickle: fullTrickle, Flood: fullFlood, Say: stopwatch(stderr)}
	if s.quick {
		r.Trickle, r.Flood = quickTrickle, quickFlood
	}
	var err error
	if r.Probes, err = faults.Choose(list(s.only)); err != nil {
		return usageError(err)
	}
	g, err := s.prepare(ctx, r.Say)
	if err != nil {
		return err
	}
	defer g.remove()
	r.Dir, r.Servers = g.dir, g.entries
	f := r.Do(ctx)
	f.Machine = g.machine
	if s.quick {
		f.Valid, f.InvalidReasons = false, append(f.InvalidReasons, "too short to mean anything; leave --quick out")
	}
	if err := s.deliver(f, stdout); err != nil {
		return err
	}
	return verdict(ctx, s.quick, f.Valid, f.InvalidReasons)
}
