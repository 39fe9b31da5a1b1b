package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/generators"
	"github.com/hone-go/hone/bench/report"
)

// stallsCommand is how this program runs itself as the server of the load generators.
const stallsCommand = "stalls"

// The sizes of a run of generators that is to be quoted, and of a quick one.
const (
	generatorRate   = 1000
	generatorRounds = 5
	generatorSettle = 4 * time.Second // k6 makes its VUs
	generatorWindow = 10 * time.Second
	quickSettle     = time.Second
)

func runGenerators(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("generators", stderr)
	c := &generators.Contest{Rate: generatorRate, Settle: generatorSettle, Window: generatorWindow, Schedules: generators.Schedules(), Say: stopwatch(stderr)}
	var bin string
	s.flags.IntVar(&c.Rate, "rate", generatorRate, "requests a second")
	s.flags.IntVar(&c.Rounds, "rounds", generatorRounds, "how often to measure each")
	s.flags.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "of the order; the same seed, the same order")
	s.flags.StringVar(&bin, "bin", "", "where k6 and vegeta are, if not on PATH")
	if err := s.parse(args); err != nil {
		return err
	}
	if c.Rounds < 1 || c.Rate < 1 {
		return usageError(errors.New("--rounds and --rate are positive"))
	}
	if s.quick {
		c.Settle, c.Window, c.Rounds, c.Schedules = quickSettle, quickSettle, 1, c.Schedules[:1]
	}
	module, err := fleet.Module(ctx)
	if err != nil {
		return err
	}
	if c.Dir, err = os.MkdirTemp("", "hone-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(c.Dir)
	c.Say("building hone")
	hone := filepath.Join(c.Dir, "hone")
	build := exec.CommandContext(ctx, "go", "build", "-o", hone, "./cmd/hone")
	build.Dir = filepath.Join(module, "..", "tool")
	build.Env = append(build.Environ(), "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	if c.Tools, err = generators.Find(ctx, hone, bin); err != nil {
		return err
	}
	if only := list(s.only); len(only) > 0 {
		c.Tools = slices.DeleteFunc(c.Tools, func(t generators.Tool) bool { return !slices.Contains(only, t.Name) })
	}
	if len(c.Tools) == 0 {
		return usageError(errors.New("--only leaves nobody; use some of hone,vegeta,k6"))
	}
	if c.CPUs, err = fleet.CPUs(); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c.Server = []string{exe, stallsCommand}
	machine := report.ThisMachine(ctx, module, len(c.CPUs))
	g := c.Run(ctx)
	g.Machine = machine
	if s.quick || c.Rounds < generatorRounds {
		g.Valid, g.InvalidReasons = false, append([]string{fmt.Sprintf("too short to mean anything; make %d rounds, and not --quick ones", generatorRounds)}, g.InvalidReasons...)
	}
	if err := s.deliver(g, stdout); err != nil {
		return err
	}
	return verdict(ctx, s.quick, g.Valid, g.InvalidReasons)
}

// serveStalls is the server; its arguments are the period and the stall.
func serveStalls(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return usageError(errors.New("stalls takes a period and a stall"))
	}
	period, errPeriod := time.ParseDuration(args[0])
	stall, errStall := time.ParseDuration(args[1])
	if err := errors.Join(errPeriod, errStall); err != nil {
		return usageError(errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return generators.Serve(stdin, stdout, period, stall)
}
