package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/engine"
)

const (
	longestLap   = time.Minute
	mostRetries  = 4 // of the laps of a race
	idleConns    = 1000
	sleeperSleep = "sleep 50ms"
)

// demoFlags are demo's, as they were given.
type demoFlags struct {
	lap  time.Duration
	json bool
}

func newDemo() *cobra.Command {
	f := new(demoFlags)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Race every engine and print a table",
		Long: `Race every engine, each in a process of its own on 127.0.0.1, one after the
other: memory of a connection just used (a parked one gives more back after 5 s
of silence), 100 connections with one request each outstanding, 100 with 64
each, and how the others fare beside one handler that sleeps 50 ms. It takes under a minute, and leaves nothing running.`,
		Example: "  hone demo\n  hone demo --for 1s --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.lap <= 0 || f.lap > longestLap {
				return wrongUse("demo: --for %v: use a duration up to %v, as in 3s", f.lap, longestLap)
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&f.lap, "for", 3*time.Second, "how long to measure each of an engine's three loads")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// run races the engines and prints what came of it.
func (f *demoFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	race := raceReport{Schema: "hone.demo/1", InvalidReasons: []string{}}
	engines, retries := engine.All(), mostRetries
	for i, e := range engines {
		c := contest{
			engine: e.Name(), lap: f.lap, retries: &retries,
			say: func(what string) { fmt.Fprintf(stderr, "%d/%d  %-8s  %s\n", i+1, len(engines), e.Name(), what) },
		}
		entry, err := c.run(ctx)
		if ctx.Err() != nil {
			return &failure{exitInterrupted, fmt.Errorf("demo: interrupted; let it run to the end, or shorten it with --for 1s")}
		}
		if err != nil {
			return failed("demo: %s: %w", e.Name(), err)
		}
		race.Engines = append(race.Engines, entry)
		race.InvalidReasons = append(race.InvalidReasons, c.doubts...)
	}
	race.Valid = len(race.InvalidReasons) == 0
	race.compare()
	if f.json {
		if err := writeJSON(stdout, race); err != nil {
			return err
		}
	} else if _, err := io.WriteString(stdout, race.text()); err != nil {
		return failedIf(err)
	}
	if !race.Valid {
		return &failure{exitInvalid, fmt.Errorf("demo: figures are doubtful; let nothing else run on this machine, and try again with --for 10s")}
	}
	return nil
}
