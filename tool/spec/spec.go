// Package spec defines the flags and scenario files of a load, its target and the server under
// test. Flags, TOML and JSON fill in the same definition, and saved runs contain it.
package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// GoalType is the type name of a goal in help texts.
const GoalType = "GOAL"

// Goals is a list of goals.
type Goals struct{ List []load.Goal }

// Set parses one goal.
func (f *Goals) Set(text string) error {
	g, err := load.ParseGoal(text)
	if err != nil {
		return err
	}
	f.List = append(f.List, g)
	return nil
}

// String returns the goals given.
func (f *Goals) String() string {
	var texts []string
	for _, g := range f.List {
		texts = append(texts, g.String())
	}
	return strings.Join(texts, ",")
}

// Type returns the value's name in help texts.
func (f *Goals) Type() string { return GoalType }

// Size is a number of bytes.
type Size int

// Set parses the size.
func (f *Size) Set(text string) error {
	n, err := figure.ParseSize(text)
	*f = Size(n)
	return err
}

// String formats the size.
func (f *Size) String() string { return figure.Size(int(*f)) }

// Type returns the value's name in help texts.
func (f *Size) Type() string { return "SIZE" }

// Load is a load and its target, as flags and files describe them.
type Load struct {
	Plan        load.Plan
	targetFlags targetFlags
	traffic     trafficFlags
	arrivals    *Choice
	files       *files
}

// Define adds the flags.
func (f *Load) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	if f.files == nil {
		f.files = new(files)
	}
	flags.IntVarP(&f.Plan.Conns, "conns", "c", 1, "connections; 0 for --idle or --churn without a load")
	flags.IntVar(&f.Plan.Depth, "depth", 0, "most requests in flight on a connection (1; with --rate 256; for HTTP 1)")
	flags.Float64Var(&f.Plan.Rate, "rate", 0, "requests a second over all connections (closed loop)")
	flags.Var(&parsed{kind: "SCHEDULE", keep: func(text string) error {
		return withoutValue("not a schedule", f.Plan.Schedule.UnmarshalText([]byte(text)))
	}}, "schedule", "a rate that changes: ramp:FROM..TO, step:RATE,RATE/DURATION or stages:FROM..TO/DURATION,RATE/DURATION,..TO/DURATION")
	f.arrivals = AddChoice(cmd, "arrivals", load.Poisson.String(), "how --rate, --schedule and --churn are spread over time", load.Constant.String(), load.Poisson.String())
	flags.DurationVarP(&f.Plan.For, "for", "d", 10*time.Second, "how long to measure")
	flags.DurationVar(&f.Plan.Warmup, "warmup", 0, "how long to load before measuring (a tenth of --for, at most 5s)")
	flags.Float64Var(&f.Plan.Ramp, "ramp", 0, "most connections to open a second (no limit)")
	flags.DurationVar(&f.Plan.Timeout, "timeout", 5*time.Second, "time limit for an answer, and for connecting")
	flags.DurationVar(&f.Plan.Deadline, "deadline", 0, "shed requests that are later than this: do not send them (send them)")
	flags.Var(&parsed{kind: "ADDRESSES", keep: func(text string) error {
		return withoutValue("not source addresses", f.Plan.Sources.UnmarshalText([]byte(text)))
	}}, "source", "source addresses: 127.0.0.1-127.0.0.20, 10.0.0.0/28, or several with commas (the system's choice)")
	flags.IntVar(&f.Plan.Idle, "idle", 0, "idle connections that are opened first, used once, and kept")
	flags.Float64Var(&f.Plan.Churn, "churn", 0, "connection churn: connections a second that are opened, used once, and closed")
	flags.BoolVar(&f.Plan.ChurnUnused, "churn-unused", false, "close the connections of --churn without a request")
	f.targetFlags.define(cmd, f.files)
	f.traffic.define(cmd, f.files)
	flags.BoolVar(&f.Plan.AllowErrors, "allow-errors", false, "keep a result VALID if requests failed")
	flags.DurationVar(&f.Plan.MaxLag, "max-lag", time.Millisecond, "how late the generator itself may be before a result is INVALID; in a closed loop a quarter of the percentile if that is more")
	flags.Uint64Var(&f.Plan.Seed, "seed", 0, "random seed of content and Poisson arrivals")
}

// Complete finishes the plan of a command that has these flags.
func (f *Load) Complete(cmd *cobra.Command, target string) (err error) {
	if cmd.Flags().Changed("warmup") && f.Plan.Warmup == 0 {
		f.Plan.Warmup = -1 // none; the plan's zero means the default
	}
	if err := f.Plan.Arrivals.UnmarshalText([]byte(f.arrivals.Value)); err != nil {
		return exit.Usagef("%s: --arrivals: %w", cmd.Name(), err)
	}
	if f.Plan.Target, err = f.targetFlags.target(cmd, target); err != nil {
		return err
	}
	f.targetFlags.fill(&f.Plan)
	if err := f.completeTraffic(cmd); err != nil {
		return err
	}
	if f.Plan.Requests > 0 && !cmd.Flags().Changed("for") {
		f.Plan.For = 0
	}
	if err := f.completeOffer(cmd); err != nil {
		return err
	}
	f.Plan.Settings = settings(cmd, target)
	return f.check(cmd.Name())
}

// check refuses zero values that the plan would replace with a default.
func (f *Load) check(command string) error {
	beside := f.Plan.Idle > 0 || f.Plan.Churn > 0
	switch {
	case f.Plan.Requests < 0:
		return exit.Usagef("%s: --count %d: use 1 or more", command, f.Plan.Requests)
	case f.Plan.Requests > 0 && f.Plan.For == 0: // no time limit
	case f.Plan.Conns < 0, f.Plan.Conns == 0 && !beside:
		return exit.Usagef("%s: --conns %d: use 1 or more", command, f.Plan.Conns)
	case f.Plan.ChurnUnused && f.Plan.Churn == 0:
		return exit.Usagef("%s: --churn-unused needs --churn; give it, as in --churn 100", command)
	case f.Plan.For <= 0:
		return exit.Usagef("%s: --for %v: use a positive duration, as in 10s", command, f.Plan.For)
	case f.Plan.Timeout <= 0:
		return exit.Usagef("%s: --timeout %v: use a positive duration, as in 5s", command, f.Plan.Timeout)
	}
	return nil
}

// completeOffer sets the rate, the schedule and the arrivals.
func (f *Load) completeOffer(cmd *cobra.Command) error {
	if cmd.Flags().Changed("rate") && f.Plan.Rate == 0 {
		return exit.Usagef("%s: --rate 0: use a rate above 0, or leave it out for a closed loop", cmd.Name())
	}
	if f.Plan.Schedule.None() {
		return nil
	}
	if f.Plan.Rate > 0 {
		return exit.Usagef("%s: --rate and --schedule exclude each other; give one of them", cmd.Name())
	}
	if cmd.Name() == "knee" {
		return exit.Usagef("knee: --schedule does not apply, because knee searches for the rate; leave it out, or use hone load")
	}
	if length := f.Plan.Schedule.Length(); length > 0 && !cmd.Flags().Changed("for") {
		f.Plan.For = length
	}
	return nil
}

// Shape describes the plan in a few words.
func (f *Load) Shape() string {
	p := &f.Plan
	shape := fmt.Sprintf("%d connections, %d in flight on each, closed loop", p.Conns, max(p.Depth, 1))
	open := p.Rate > 0 || !p.Schedule.None()
	switch {
	case p.Conns == 0:
		shape = "no load"
	case open && p.Depth > 0:
		shape = fmt.Sprintf("%d connections, at most %d in flight on each, open loop, %v arrivals", p.Conns, p.Depth, p.Arrivals)
	case open:
		shape = fmt.Sprintf("%d connections, open loop, %v arrivals", p.Conns, p.Arrivals)
	}
	if !p.Schedule.None() {
		shape += ", " + p.Schedule.String()
	}
	if p.Traffic != nil {
		kinds := "1 kind"
		if n := len(p.Traffic.Requests()); n > 1 {
			kinds = fmt.Sprintf("%d kinds", n)
		}
		shape += ", " + kinds + " of request"
	}
	if p.Idle > 0 {
		shape += ", " + figure.Grouped(float64(p.Idle)) + " idle"
	}
	if p.Churn > 0 {
		shape += ", " + figure.Rate(p.Churn) + " new a second"
	}
	return shape
}
