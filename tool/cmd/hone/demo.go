package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/page"
)

const (
	longestLap  = time.Minute
	mostRetries = 4 // of the laps of both races
	idleConns   = 1000
)

// demoFlags are demo's, as they were given.
type demoFlags struct {
	lap  time.Duration
	json bool
	ui   uiFlags
}

func newDemo() *cobra.Command {
	f := new(demoFlags)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Race every engine and print a table",
		Long: `Race every engine, each in a process of its own on 127.0.0.1, one after the
other. The first race is for speed: memory of a connection just used (a parked
one gives more back after 5 s of silence), 100 connections with one request each
outstanding, and 100 with 64 each. The second is beside slow handlers: four
connections whose handler sleeps 50 ms for every request, and how long the
requests of 40 others take meanwhile. It takes under a minute, and leaves
nothing running.`,
		Example: "  hone demo\n  hone demo --for 10s\n  hone demo --for 1s --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.lap <= 0 || f.lap > longestLap {
				return exit.Usagef("demo: --for %v: use a duration up to %v, as in 3s", f.lap, longestLap)
			}
			live, err := f.ui.open(cmd, &page.Page{
				Title: "hone demo: every engine, raced", Groups: []string{page.Client, page.Server, page.Runtime, page.Host},
				About: []page.Fact{{Name: "hone", Value: buildVersion().Version}},
			})
			if err != nil {
				return err
			}
			defer live.close(cmd.Context())
			return f.run(cmd.Context(), live, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&f.lap, "for", 2500*time.Millisecond, "how long to measure each load")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	f.ui.define(cmd)
	return cmd
}

// run races the engines and prints what came of it.
func (f *demoFlags) run(ctx context.Context, live *livePage, stdout, stderr io.Writer) error {
	race := &raceReport{Schema: "hone.demo/1", InvalidReasons: []string{}}
	legs, retries := race.legs(), mostRetries
	watcher := newDemoWatcher(stderr)
	defer watcher.end()
	for i, l := range legs {
		c := &contest{
			engine: l.engine, lap: f.lap, retries: &retries, page: live,
			say: func(what string) { watcher.show(i+1, len(legs), l.engine, what) },
		}
		err := l.run(ctx, c)
		if ctx.Err() != nil {
			live.end(nil, ctx.Err())
			return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("demo: interrupted; let it run to the end, or shorten it with --for 1s")}
		}
		if err != nil {
			live.end(nil, err)
			return exit.Failedf("demo: %s: %w", l.engine, err)
		}
		race.InvalidReasons = append(race.InvalidReasons, c.doubts...)
	}
	watcher.end()
	race.Valid = len(race.InvalidReasons) == 0
	live.end(race.InvalidReasons, nil)
	race.compare()
	if f.json {
		if err := writeJSON(stdout, race); err != nil {
			return err
		}
	} else if _, err := io.WriteString(stdout, race.text()); err != nil {
		return exit.FailedIf(err)
	}
	if !race.Valid {
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("demo: figures are doubtful; let nothing else run on this machine, and try again with --for 10s")}
	}
	return nil
}

// leg is one engine's part in one of the races.
type leg struct {
	engine string
	run    func(context.Context, *contest) error
}

// legs are the first race and the second. Events without hand-off is there to
// show what it is for.
func (r *raceReport) legs() []leg {
	alone := func(ctx context.Context, c *contest) error {
		entry, err := c.alone(ctx)
		if err == nil {
			r.Engines = append(r.Engines, entry)
		}
		return err
	}
	beside := func(ctx context.Context, c *contest) error {
		entry, err := c.besideSlow(ctx)
		if err == nil {
			r.Beside = append(r.Beside, entry)
		}
		return err
	}
	var first, second []leg
	for _, e := range engine.All() {
		first = append(first, leg{e.Name(), alone})
		second = append(second, leg{e.Name(), beside})
	}
	if e := engine.Events(engine.Inline); slices.Contains(engines(), e) {
		second = append(second, leg{e.Name(), beside})
	}
	return append(first, second...)
}
