package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
	"github.com/hone-go/hone/bench/report"
)

// The sizes of a run that is to be quoted, and of a quick one.
const (
	fewestRounds = 5
	fewestPairs  = 8
	fullWindow   = time.Second
	fullWarmup   = 300 * time.Millisecond
	fullQuiet    = 6 * time.Second // a goroutine of hone's gives its memory back after 5
	fullLimit    = 20 * time.Minute
	fullRetakes  = 60
	quickWindow  = 150 * time.Millisecond
	quickWarmup  = 50 * time.Millisecond
	quickQuiet   = 100 * time.Millisecond
)

// contest is a comparison of speed and memory: of servers of hone's frames, of HTTP, or of WebSocket.
type contest struct {
	name      string
	schema    string
	fewest    int // rounds of a run that is to be quoted
	servers   []fleet.Entry
	scenarios []race.Scenario
}

func framesContest() contest {
	return contest{"race", report.PeersSchema, fewestRounds, fleet.All(), race.Scenarios()}
}

// httpContest pairs rounds, of which it wants eight at least.
func httpContest() contest {
	return contest{"http", report.HTTPSchema, fewestPairs, fleet.HTTP(), race.HTTPScenarios()}
}

// wsContest pairs rounds as httpContest does.
func wsContest() contest {
	return contest{"ws", report.WSSchema, fewestPairs, fleet.WebSocket(), race.WSScenarios()}
}

func (c contest) do(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings(c.name, stderr)
	s.all = c.servers
	r := &race.Race{Schema: c.schema, Window: fullWindow, Warmup: fullWarmup, Quiet: fullQuiet, Retakes: fullRetakes}
	s.flags.IntVar(&r.Rounds, "rounds", c.fewest, "how often to measure each")
	s.flags.Uint64Var(&r.Seed, "seed", uint64(time.Now().UnixNano()), "of the order; the same seed, the same order")
	s.flags.DurationVar(&r.Limit, "limit", fullLimit, "end then, with what there is")
	if err := s.parse(args); err != nil {
		return err
	}
	if r.Rounds < 1 || r.Limit <= 0 {
		return usageError(errors.New("--rounds and --limit are positive"))
	}
	var err error
	if r.Scenarios, err = race.Choose(c.scenarios, list(s.only)); err != nil {
		return usageError(err)
	}
	if s.quick {
		r.Window, r.Warmup, r.Quiet, r.Retakes, r.Rounds = quickWindow, quickWarmup, quickQuiet, 0, 1
		for i, sc := range r.Scenarios {
			r.Scenarios[i] = sc.Small()
		}
	}
	r.Say = stopwatch(stderr)
	g, err := s.prepare(ctx, r.Say)
	if err != nil {
		return err
	}
	defer g.remove()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	r.Dir, r.Client, r.Servers, r.CPUs = g.dir, []string{exe, clientCommand}, g.entries, g.cpus
	r.Say(fmt.Sprintf("seed %d", r.Seed))
	p := r.Run(ctx)
	p.Machine = g.machine
	if s.quick || r.Rounds < c.fewest {
		p.InvalidReasons = append(p.InvalidReasons, fmt.Sprintf("too short to mean anything; make %d rounds, and not --quick ones", c.fewest))
		p.Valid = false
	}
	if err := s.deliver(p, stdout); err != nil {
		return err
	}
	return verdict(ctx, s.quick, p.Valid, p.InvalidReasons)
}

// verdict is the error, if any, that a run ends with. A quick run never is valid,
// and does well when nothing else is wrong with it.
func verdict(ctx context.Context, quick, valid bool, reasons []string) error {
	switch {
	case ctx.Err() != nil:
		return &failure{exitInterrupted, errors.New("interrupted")}
	case valid || quick && len(reasons) == 1:
		return nil
	}
	return &failure{exitInvalid, fmt.Errorf("the run is not valid: %s", reasons[0])}
}
