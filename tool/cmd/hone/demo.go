package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/demo"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/race"
	"github.com/hone-go/hone/tool/session"
)

const longestLap = time.Minute

// demoFlags holds the parsed flags of hone demo.
type demoFlags struct {
	lap  time.Duration
	step string
	out  session.Flags
}

func newDemo() *cobra.Command {
	f := new(demoFlags)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Race hone's server against three plain ones and print a table",
		Long: `Race hone's server against three that use package net alone: without buffers, with
buffers, and with a sync.Pool. Each runs in a process of its own on 127.0.0.1, one
after the other: memory per connection, throughput and latency with 100 connections, and
the latency of 40 connections while the handlers of 4 others sleep 50 ms per request
(head-of-line blocking). It takes under a minute and leaves no process running.`,
		Example: "  hone demo\n  hone demo --for 10s\n  hone demo --for 1s --json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.lap <= 0 || f.lap > longestLap {
				return exit.Usagef("demo: --for %v: use a duration up to %v, as in 3s", f.lap, longestLap)
			}
			if f.step != "" {
				return exit.FailedIf(demo.Run(cmd.Context(), f.step, cmd.InOrStdin(), cmd.OutOrStdout()))
			}
			return f.run(cmd)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&f.lap, "for", 2500*time.Millisecond, "how long to measure each load")
	f.out.Progress = true
	f.out.Output.Define(cmd)
	f.out.UI.Define(cmd)
	cmd.Flags().StringVar(&f.step, "step", "", "serve as one of the plain servers")
	cmd.Flags().Lookup("step").Hidden = true // for its own processes
	return cmd
}

// run races the servers and prints the tables.
func (f *demoFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	exe, err := command.Self()
	if err != nil {
		return exit.Failedf("demo: %w", err)
	}
	if err := f.out.UI.Check("demo"); err != nil {
		return err
	}
	p := livePage("demo: hone and plain servers, raced")
	p.Groups = []string{page.Client, page.Server, page.Runtime, page.Host}
	s, err := f.out.Open(cmd, false, p)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	watcher := s.Watch(load.Plan{})
	report, err := race.Run(ctx, race.Plan{
		Serve: []string{exe, "serve"}, Step: []string{exe, "demo", "--step"}, Lap: f.lap, Serving: s.Live.Watch,
		Say: func(leg, legs int, engine, what string) {
			watcher.Step(leg-1, legs, fmt.Sprintf("%d of %d, %s: %s", leg, legs, engine, what))
			watcher.Line(fmt.Sprintf("%d/%d  %-13s  %s", leg, legs, engine, what))
		},
		Watch: func(what, engine string, now load.Progress) {
			s.Live.Show(page.Segment{Group: what, Name: engine}, now)
		},
		Lapped: func(what, engine string, lap race.Lap) {
			s.Live.On(func(p *page.Page) {
				p.Settle(page.Segment{Group: what, Name: engine}, lap.Rate, lap.P50, lap.P99, lap.ServerCPU)
			})
		},
	})
	if ctx.Err() != nil {
		s.Live.End(nil, ctx.Err())
		return &exit.Error{Code: exit.Interrupted, Err: errors.New("demo: interrupted; let it run to the end, or shorten it with --for 1s")}
	}
	if err != nil {
		s.Live.End(nil, err)
		return exit.Failedf("demo: %w", err)
	}
	s.Live.End(report.InvalidReasons, nil)
	end := session.End{JSON: report, Text: session.InText(report.Text)}
	if !report.Valid {
		end.Verdict = &exit.Error{Code: exit.Invalid, Err: errors.New("demo: figures are doubtful; stop other work on this machine and try again with --for 10s")}
	}
	return s.Finish(end)
}
