// Package spec is what a load is, with its target and the server behind it: one definition,
// which flags, TOML and JSON fill in, and which runs are kept with.
package spec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// GoalType is how help names a goal.
const GoalType = "GOAL"

// Goals takes goals.
type Goals struct{ List []load.Goal }

// Set takes one goal.
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

// Type is how help names the value.
func (f *Goals) Type() string { return GoalType }

// Size takes a number of bytes.
type Size int

// Set takes the size.
func (f *Size) Set(text string) error {
	n, err := figure.ParseSize(text)
	*f = Size(n)
	return err
}

// String returns the size.
func (f *Size) String() string { return figure.Size(int(*f)) }

// Type is how help names the value.
func (f *Size) Type() string { return "SIZE" }

// contentFlag takes the content of a request.
type contentFlag struct {
	text    string
	content []byte
	files   *files
}

// Set takes TEXT, hex:BYTES or @FILE.
func (f *contentFlag) Set(text string) (err error) {
	f.text = text
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if f.content, err = f.files.read(name); err != nil {
			return fmt.Errorf("cannot be read: %w; name a file after @", err)
		}
		return nil
	}
	f.content = []byte(text)
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		if f.content, err = hex.DecodeString(digits); err != nil {
			return errors.New("not hexadecimal; write two digits for each byte, as in hex:0a0d")
		}
	}
	return nil
}

// String returns the flag as given.
func (f *contentFlag) String() string { return f.text }

// Type is how help names the value.
func (f *contentFlag) Type() string { return "CONTENT" }

// Load is a load and what is spoken with its target, as flags and files give them.
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
	flags.IntVarP(&f.Plan.Conns, "conns", "c", 1, "connections; 0 with --idle or --churn for no load beside them")
	flags.IntVar(&f.Plan.Depth, "depth", 0, "most requests outstanding on a connection (1, with --rate 256, for HTTP 1)")
	flags.Float64Var(&f.Plan.Rate, "rate", 0, "requests a second over all connections (as many as are answered)")
	flags.Var(scheduleFlag{&f.Plan.Schedule}, "schedule", "a rate that changes: ramp:FROM..TO, step:FROM..TO:STEP/DURATION, step:RATE,RATE/DURATION, sine:LOW..HIGH/PERIOD or stages:FROM..TO/DURATION,RATE/DURATION,..TO/DURATION")
	f.arrivals = AddChoice(cmd, "arrivals", load.Poisson.String(), "how --rate, --schedule and --churn are spread over time", load.Constant.String(), load.Poisson.String())
	flags.DurationVarP(&f.Plan.For, "for", "d", 10*time.Second, "how long to measure")
	flags.DurationVar(&f.Plan.Warmup, "warmup", 0, "how long to load before that (a tenth of --for, at most 5s)")
	flags.Float64Var(&f.Plan.Ramp.PerSecond, "ramp", 0, "connections to open in a second (no limit)")
	flags.DurationVar(&f.Plan.Timeout, "timeout", 5*time.Second, "give up a request, or an attempt to connect, after so long")
	flags.DurationVar(&f.Plan.Deadline, "deadline", 0, "do not send what is later than this after its moment, and count it as shed (send it)")
	flags.Var(sourceFlag{&f.Plan.Sources}, "source", "connect from these: 127.0.0.1-127.0.0.20, 10.0.0.0/28, or several with commas (as the system chooses)")
	flags.IntVar(&f.Plan.Idle, "idle", 0, "further connections that are opened first, used once, and kept silent")
	flags.Float64Var(&f.Plan.Churn, "churn", 0, "further connections a second that are opened, used once, and closed")
	flags.BoolVar(&f.Plan.ChurnUnused, "churn-unused", false, "close those of --churn without a request")
	f.targetFlags.define(cmd, f.files)
	f.traffic.define(cmd, f.files)
	flags.BoolVar(&f.Plan.AllowErrors, "allow-errors", false, "keep a result valid in which requests failed")
	flags.Uint64Var(&f.Plan.Seed, "seed", 0, "chooses content and Poisson arrivals, the same for the same seed")
}

// Complete finishes the plan, for a command that has the plan's flags.
func (f *Load) Complete(cmd *cobra.Command, target string) (err error) {
	if cmd.Flags().Changed("warmup") && f.Plan.Warmup == 0 {
		f.Plan.Warmup = -1 // none, where the plan's zero is the usual one
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

// check refuses, by the flag's name, what the plan has its own zero for.
func (f *Load) check(command string) error {
	beside := f.Plan.Idle > 0 || f.Plan.Churn > 0
	switch {
	case f.Plan.Requests < 0:
		return exit.Usagef("%s: --count %d: use 1 or more", command, f.Plan.Requests)
	case f.Plan.Requests > 0 && f.Plan.For == 0: // as long as it takes
	case f.Plan.Conns < 0, f.Plan.Conns == 0 && !beside:
		return exit.Usagef("%s: --conns %d: use 1 or more", command, f.Plan.Conns)
	case f.Plan.ChurnUnused && f.Plan.Churn == 0:
		return exit.Usagef("%s: --churn-unused is about --churn; give that, as in --churn 100", command)
	case f.Plan.For <= 0:
		return exit.Usagef("%s: --for %v: use a positive duration, as in 10s", command, f.Plan.For)
	case f.Plan.Timeout <= 0:
		return exit.Usagef("%s: --timeout %v: use a positive duration, as in 5s", command, f.Plan.Timeout)
	}
	return nil
}

// completeOffer finishes what the flags say of when and what is offered.
func (f *Load) completeOffer(cmd *cobra.Command) error {
	if f.Plan.Schedule.None() {
		return nil
	}
	if f.Plan.Rate > 0 {
		return exit.Usagef("%s: --rate and --schedule cannot both be; give one of them", cmd.Name())
	}
	if cmd.Name() == "knee" {
		return exit.Usagef("knee: --schedule changes what is looked for; leave it out, or use hone load")
	}
	if length := f.Plan.Schedule.Length(); length > 0 && !cmd.Flags().Changed("for") {
		f.Plan.For = length
	}
	return nil
}

// Shape is the plan in a few words.
func (f *Load) Shape() string {
	p := &f.Plan
	shape := fmt.Sprintf("connections × depth %d × %d, closed loop", p.Conns, max(p.Depth, 1))
	open := p.Rate > 0 || !p.Schedule.None()
	switch {
	case p.Conns == 0:
		shape = "no load"
	case open && p.Depth > 0:
		shape = fmt.Sprintf("%d connections, depth %d at most, open loop, %v arrivals", p.Conns, p.Depth, p.Arrivals)
	case open:
		shape = fmt.Sprintf("%d connections, open loop, %v arrivals", p.Conns, p.Arrivals)
	}
	if !p.Schedule.None() {
		shape += ", " + p.Schedule.String()
	}
	if p.Traffic != nil {
		shape += fmt.Sprintf(", %d kinds of request", len(p.Traffic.Requests()))
	}
	if p.Idle > 0 {
		shape += ", " + figure.Grouped(float64(p.Idle)) + " idle"
	}
	if p.Churn > 0 {
		shape += ", " + figure.Rate(p.Churn) + " new a second"
	}
	return shape
}
