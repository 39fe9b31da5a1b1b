// Package spec defines the flags and scenario files of a load, its target and the server under
// test. Flags, TOML and JSON fill in the same definition, and saved runs contain it.
package spec

import (
	"fmt"
	"slices"
	"strings"

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

// Load is a load and its target, as flags and files describe them.
type Load struct {
	Plan load.Plan
	// Paced says that there is a rate which no setting has.
	Paced bool

	settings settings
	target   target
	requests requests
	arrivals Choice
}

// Define adds the flags.
func (f *Load) Define(cmd *cobra.Command) { f.settings.define(cmd, f.all()) }

// all returns all settings of a load.
func (f *Load) all() []setting {
	p := &f.Plan
	p.Conns, p.For, p.Timeout, p.MaxLag = 1, load.DefaultFor, load.DefaultTimeout, load.DefaultMaxLag
	f.arrivals = Choice{load.Poisson.String(), []string{load.Constant.String(), load.Poisson.String()}}
	f.requests.files = &f.target.files
	return slices.Concat([]setting{
		{name: "conns", short: "c", value: &p.Conns, usage: "connections; 0 for --idle or --churn without a load"},
		{name: "depth", value: &p.Depth, usage: "most requests in flight on a connection (1; with --rate 256; for HTTP 1)"},
		{name: "rate", value: &p.Rate, usage: "requests a second over all connections (closed loop)"},
		{name: "schedule", value: &value{kind: "SCHEDULE", set: func(text string) error {
			return withoutValue("not a schedule", p.Schedule.UnmarshalText([]byte(text)))
		}}, usage: "a rate that changes: ramp:FROM..TO, or stages:FROM..TO/DURATION,RATE/DURATION,..TO/DURATION"},
		{name: "arrivals", value: &f.arrivals, usage: "how --rate, --schedule and --churn are spread over time"},
		{name: "for", short: "d", value: &p.For, usage: "how long to measure"},
		{name: "warmup", value: &p.Warmup, usage: "how long to load before measuring (a tenth of --for, at most 5s)"},
		{name: "ramp", value: &p.Ramp, usage: "most connections to open a second (no limit)"},
		{name: "timeout", value: &p.Timeout, usage: "time limit for an answer, and for connecting"},
		{name: "source", value: &value{kind: "ADDRESSES", set: func(text string) error {
			return withoutValue("not source addresses", p.Sources.UnmarshalText([]byte(text)))
		}}, usage: "source addresses: 127.0.0.1-127.0.0.20, 10.0.0.0/28, or several with commas (the system's choice)"},
		{name: "idle", value: &p.Idle, usage: "idle connections that are opened first, used once, and kept"},
		{name: "churn", value: &p.Churn, usage: "connection churn: connections a second that are opened, used once, and closed"},
	}, f.target.settings(), f.requests.settings(), []setting{
		{name: "allow-errors", value: &p.AllowErrors, usage: "keep a result VALID if requests failed"},
		{name: "allow-late", value: &p.AllowLate, usage: "keep a closed loop VALID whose generator is busy: its server's CPU counts, not its times"},
		{name: "max-lag", value: &p.MaxLag, unsaved: true,
			usage: "how late the generator itself may be before a result is INVALID; in a closed loop a quarter of the percentile if that is more"},
		{name: "seed", value: &p.Seed, usage: "random seed of content and Poisson arrivals"},
	})
}

// Complete finishes the plan of a command that has these flags.
func (f *Load) Complete(command, target string) (err error) {
	given := f.settings.given
	if given("warmup") && f.Plan.Warmup == 0 {
		f.Plan.Warmup = -1 // none; the plan's zero means the default
	}
	if err := f.Plan.Arrivals.UnmarshalText([]byte(f.arrivals.Value)); err != nil {
		return exit.Usagef("%s: --arrivals: %w", command, err)
	}
	if f.Plan.Target, err = f.target.parse(command, target, &f.settings); err != nil {
		return err
	}
	f.target.fill(&f.Plan)
	if err := f.completeTraffic(command); err != nil {
		return err
	}
	if f.Plan.Requests > 0 && !given("for") {
		f.Plan.For = 0
	}
	if err := f.completeOffer(command); err != nil {
		return err
	}
	f.Plan.Settings = map[string]string{"target": withoutAddress(target)}
	f.saved(func(name, value string, _ bool) { f.Plan.Settings[name] = value })
	return f.check(command)
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
	case f.Plan.For <= 0:
		return exit.Usagef("%s: --for %v: use a positive duration, as in 10s", command, f.Plan.For)
	case f.Plan.Timeout <= 0:
		return exit.Usagef("%s: --timeout %v: use a positive duration, as in 5s", command, f.Plan.Timeout)
	}
	return nil
}

// completeOffer sets the rate, the schedule and the arrivals.
func (f *Load) completeOffer(command string) error {
	if f.settings.given("rate") && f.Plan.Rate == 0 {
		return exit.Usagef("%s: --rate 0: use a rate above 0, or leave it out for a closed loop", command)
	}
	if f.Plan.Schedule.None() {
		return nil
	}
	if f.Plan.Rate > 0 {
		return exit.Usagef("%s: --rate and --schedule exclude each other; give one of them", command)
	}
	if command == "knee" {
		return exit.Usagef("knee: --schedule does not apply, because knee searches for the rate; leave it out, or use hone load")
	}
	if length := f.Plan.Schedule.Length(); length > 0 && !f.settings.given("for") {
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
