package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/race"
	"github.com/hone-go/hone/tool/view"
)

const longestLap = time.Minute

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

// run races the engines and prints the tables.
func (f *demoFlags) run(ctx context.Context, live *livePage, stdout, stderr io.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return exit.Failedf("demo: %w", err)
	}
	watcher := view.NewDemo(stderr)
	defer watcher.End()
	report, err := race.Run(ctx, race.Plan{
		Serve: []string{exe, "serve"}, Lap: f.lap, Say: watcher.Show, Serving: live.watch,
		Watch: func(what, engine string, now load.Progress) { live.show(page.Lane{Group: what, Name: engine}, now) },
	})
	watcher.End()
	if ctx.Err() != nil {
		live.end(nil, ctx.Err())
		return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("demo: interrupted; let it run to the end, or shorten it with --for 1s")}
	}
	if err != nil {
		live.end(nil, err)
		return exit.Failedf("demo: %w", err)
	}
	live.end(report.InvalidReasons, nil)
	if f.json {
		if err := writeJSON(stdout, report); err != nil {
			return err
		}
	} else if _, err := io.WriteString(stdout, report.Text()); err != nil {
		return exit.FailedIf(err)
	}
	if !report.Valid {
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("demo: figures are doubtful; let nothing else run on this machine, and try again with --for 10s")}
	}
	return nil
}
