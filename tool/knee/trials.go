package knee

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// Search runs the trials of a Plan.
type Search struct {
	Plan  Plan
	Goals []load.Goal
	// Load is the plan of each trial, except the searched load and the duration.
	Load load.Plan
	// Length is the duration of a full trial; a short one lasts a third. Both last longer
	// at low rates.
	Length time.Duration
	// Cool is the target's rest after a trial that was too much.
	Cool time.Duration
	// Others reports trials in which other programs used too much CPU. Nil: not checked.
	Others *trial.Others
	// Watch receives the progress every second. Nil: none.
	Watch func(Progress)
	// Made receives the state of the search after each trial. Nil: none.
	Made func(Knee)

	points []measured
}

// Progress is the state of a search.
type Progress struct {
	Step
	Trial int            // its number, from 1
	Unit  string         // of loads
	Load  *load.Progress // nil while no load runs
}

// String names the trial, as in "trial 3: 400 req/s, short".
func (p Progress) String() string {
	length := "short"
	if p.Full {
		length = "full"
	}
	return fmt.Sprintf("trial %d: %s %s, %s", p.Trial, figure.Grouped(p.Step.Load), p.Unit, length)
}

func (s *Search) show(step Step, l *load.Progress) {
	if s.Watch != nil {
		s.Watch(Progress{Step: step, Trial: len(s.points) + 1, Unit: s.Unit(), Load: l})
	}
}

// Any reports whether any trial has finished.
func (s *Search) Any() bool { return len(s.points) > 0 }

// measured is a trial and its result.
type measured struct {
	Trial
	Why    string       // reason for a miss or an invalid trial; empty if all goals were met
	result *load.Result // nil: the run failed

	disturbed []string // warnings about other programs
	at        time.Time
}

// Run runs trials until the knee is known, the context ends, or the server is gone.
func (s *Search) Run(ctx context.Context) error {
	for {
		step, more := s.Plan.Next(s.made())
		if !more || ctx.Err() != nil {
			return nil
		}
		s.show(step, nil)
		if step.Rest && !rested(ctx, s.Cool) {
			return nil
		}
		p, err := s.trial(ctx, step)
		switch {
		case ctx.Err() != nil:
			if len(s.points) == 0 {
				return ctx.Err()
			}
			return nil // the interrupted trial does not count
		case err != nil:
			return err
		}
		s.points = append(s.points, p)
		if s.Made != nil {
			s.Made(s.Plan.Find(s.made()))
		}
	}
}

// made returns the trials in the form that Plan uses.
func (s *Search) made() (made []Trial) {
	for _, p := range s.points {
		made = append(made, p.Trial)
	}
	return made
}

// rested waits, and reports false if the context ended.
func rested(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	shortPart     = 3    // of a full trial
	fewest        = 150  // requests in a trial, for a meaningful 99th percentile
	fewestThinner = 1500 // the same for the 99.9th
	mostLonger    = 20   // factor by which a trial may be extended to get that many
)

// trial runs one load; if there were too few requests, it runs again for longer.
func (s *Search) trial(ctx context.Context, step Step) (measured, error) {
	plan := s.Load
	plan.For = s.Length
	if !step.Full {
		plan.For /= shortPart
	}
	longest := mostLonger * plan.For
	if s.Plan.Whole {
		plan.Conns = int(step.Load)
	} else {
		plan.Rate = step.Load
		plan.For = min(max(plan.For, time.Duration(float64(s.fewest())/step.Load*float64(time.Second))), longest)
	}
	for {
		p, err := s.once(ctx, plan, step)
		if err != nil || p.result == nil || p.result.Interrupted || plan.For >= longest || p.result.Requests >= int64(s.fewest()) || !s.Plan.Whole {
			return p, err
		}
		enough := 1.5 * float64(s.fewest()) / float64(max(p.result.Requests, 1))
		plan.For = min(time.Duration(float64(plan.For)*enough)+time.Millisecond, longest)
	}
}

// fewest returns how many requests the goals need.
func (s *Search) fewest() int {
	for _, g := range s.Goals {
		if strings.HasSuffix(g.Metric, "p999") {
			return fewestThinner
		}
	}
	return fewest
}

// once runs and judges one load.
func (s *Search) once(ctx context.Context, plan load.Plan, step Step) (measured, error) {
	plan.AllowErrors, plan.AllowBehind, plan.MaxLag = true, true, max(plan.MaxLag, s.mostLag())
	plan.Progress = func(now load.Progress) { s.show(step, &now) }
	p := measured{Trial: Trial{Step: step}, at: time.Now().UTC()}
	if s.Others != nil {
		s.Others.Watch(&plan)
	}
	result, err := load.Run(ctx, plan)
	if s.Others != nil {
		p.disturbed = s.Others.Judge(result)
	}
	if err != nil {
		return s.brokenOff(p, err)
	}
	p.result = result
	return s.judge(p)
}

// judge judges a run. Whether the target keeps up and whether requests fail is judged here, not
// by the run: both are misses. So only faults of the generator make the run invalid.
func (s *Search) judge(p measured) (measured, error) {
	result := p.result
	if broken := result.Errors[load.Closed.String()]; 2*broken > result.Requests {
		return s.brokenOff(p, &load.Error{
			Kind: load.Closed, Target: s.Load.Target.String(),
			What: fmt.Sprintf("the server closed the connections of %d of %d requests before their answers", broken, result.Requests),
			Try:  "check its log",
		})
	}
	if !result.Valid {
		p.Invalid, p.Why = true, strings.Join(result.InvalidReasons, "; ")
		return p, nil
	}
	lost := ""
	switch {
	case result.Kept != nil:
		lost = fmt.Sprintf("it answered %.1f %% of the requests in time", 100**result.Kept)
	case !s.Load.AllowErrors && !s.judgesErrors():
		lost = failures(result)
	}
	p.Why, p.Met = lost, lost == ""
	for _, o := range load.Check(result, s.Goals) {
		if o.Goal.Metric == "rate" && result.RateAtLeast != nil && !o.Met {
			p.Invalid, p.Why = true, strings.Join(result.Warnings, "; ")
			return p, nil
		}
		if o.Got == nil {
			p.Invalid, p.Why = true, fmt.Sprintf("%v cannot be judged: there were only %d requests; use a longer --for", o.Goal, result.Requests)
			return p, nil
		}
		if p.Met = p.Met && o.Met; !o.Met && p.Why == "" {
			p.Why = o.String()
		}
	}
	return p, nil
}

// About returns how long a search may take: most of some twenty trials are short and miss nothing, and a knee of
// low rates takes longer.
func (s *Search) About() string {
	least := time.Duration(6+s.Plan.Confirm) * s.Length
	return fmt.Sprintf("%v to %v", least.Round(time.Second), (3*least + 6*s.Cool).Round(time.Second))
}

// mostLag returns how late the generator may be. Lateness is part of every response time,
// so it is a tenth of the strictest time goal, or the default.
func (s *Search) mostLag() time.Duration {
	most := time.Duration(0)
	for _, g := range s.Goals {
		part := time.Duration(g.Value / 10 * float64(time.Microsecond))
		if g.IsTime() && (most == 0 || part < most) {
			most = part
		}
	}
	return max(most, time.Millisecond)
}

func (s *Search) judgesErrors() bool {
	return slices.ContainsFunc(s.Goals, func(g load.Goal) bool { return g.Metric == "errors" })
}

// brokenOff judges a run that ended early: a miss if the server met the goals before.
func (s *Search) brokenOff(p measured, err error) (measured, error) {
	end := new(load.Error)
	if !errors.As(err, &end) || end.Kind == load.BadPlan {
		return p, err
	}
	p.Why = err.Error()
	if sys.Exhausted(err) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		p.Invalid = true // the generator's machine failed
		return p, nil
	}
	before := s.Plan.Find(s.made())
	if before.Met == 0 || p.Load <= before.Met {
		return p, err // the server is not there, or no longer
	}
	return p, nil
}

// failures describes how many requests failed.
func failures(r *load.Result) string {
	total := r.Errors["total"]
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s requests failed", figure.Grouped(float64(total)), figure.Grouped(float64(r.Requests)))
}

// The axes.
const (
	AxisRate  = "rate"
	AxisConns = "conns"
)

// Axis returns what the search increases.
func (s *Search) Axis() string {
	if s.Plan.Whole {
		return AxisConns
	}
	return AxisRate
}

// Unit returns the unit of loads.
func (s *Search) Unit() string {
	if s.Plan.Whole {
		return "connections"
	}
	return "req/s"
}

// Settings returns those of the first trial's load.
func (s *Search) Settings() map[string]string {
	for _, p := range s.points {
		if p.result != nil {
			return p.result.Settings
		}
	}
	return nil
}

// Samples returns the trials as samples to store.
func (s *Search) Samples() (samples []record.Sample) {
	for i, p := range s.points {
		sample := &record.Sample{At: p.at, Unfit: record.Disturbed, Reasons: []string{p.Why}}
		if p.result != nil {
			sample = trial.SampleOf(p.result, p.at)
		}
		if sample.Order = i + 1; p.Invalid {
			sample.Valid, sample.Unfit, sample.Reasons = false, record.Disturbed, []string{p.Why}
		}
		sample.Metrics = append([]record.Metric{{Name: "load", Unit: s.Unit(), Better: record.Higher, Value: p.Load}}, sample.Metrics...)
		samples = append(samples, *sample)
	}
	return samples
}
