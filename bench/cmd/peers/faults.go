package main

import (
	"context"
	"io"
	"time"

	"github.com/hone-go/hone/bench/faults"
	"github.com/hone-go/hone/tool/torture"
)

// How long the servers' own time limits are waited for.
const (
	fullWait  = 75 * time.Second
	quickWait = 3 * time.Second
)

func runFaults(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("faults", stderr)
	s.build = faults.Build
	r := &faults.Run{Limits: torture.Limits{Wait: fullWait}, Say: stopwatch(stderr)}
	s.flags.DurationVar(&r.Limits.Wait, "wait", fullWait, "how long to wait for the servers' own time limits")
	s.flags.Uint64Var(&r.Seed, "seed", 1, "of inputs and pauses")
	s.flags.IntVar(&r.Limits.Peers, "peers", 0, "clients of an attack on HTTP/2; 0: 8, or 3")
	second := s.flags.Bool("http2", false, "attack servers of HTTP/2, with the scenarios for that")
	if err := s.parse(args); err != nil {
		return err
	}
	s.all = faults.Servers(*second)
	if s.quick {
		r.Limits = torture.Limits{Wait: quickWait, Answer: time.Second, Peers: r.Limits.Peers}
	}
	r.Limits.Few = r.Limits.Peers
	var err error
	if r.Scenarios, err = faults.Choose(list(s.only)); err != nil {
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
	short := r.Limits.Wait < fullWait || r.Limits.Peers > 0 || s.only != ""
	if short {
		f.Valid, f.InvalidReasons = false, append(f.InvalidReasons, "not all scenarios, other clients or too short a wait; leave --quick, --only, --peers and --wait out")
	}
	if err := s.deliver(f, stdout); err != nil {
		return err
	}
	return verdict(ctx, short, f.Valid, f.InvalidReasons)
}
