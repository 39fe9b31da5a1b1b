package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load/traffic"
)

// Goal is a condition on a result, as ParseGoal reads it.
type Goal struct {
	Step   string  // name of a step of the plan's Traffic; zero: the whole run
	Metric string  // p50, p90, p95, p99, p999, max, mean, service.p50 and so on, rate, errors, requests
	Than   string  // <, <=, >, >= or ==
	Value  float64 // microseconds for times, requests a second for rate, else a count
	Part   bool    // Value is a fraction of the requests, 0.001 for 0.1%; errors only
	text   string
}

// ParseGoal reads one goal, such as
//
//	p99<5ms    service.p99.9<=250us    rate>=10000    errors==0    errors<0.1%
//
// or login.p99<20ms, for one step of a plan's Traffic. Times are response times, from the
// intended moment in an open loop, and need a unit: ns, us, µs, ms, s or m. Blanks are allowed;
// p99.9 may be written as p999, which is its name in JSON.
func ParseGoal(text string) (Goal, error) {
	bare := strings.Join(strings.Fields(text), "")
	at := strings.IndexAny(bare, "<>=!")
	if at <= 0 {
		return Goal{}, badGoal(text, "write a figure, a comparison and a value, as in p99<5ms")
	}
	g := Goal{Metric: strings.Replace(bare[:at], "p99.9", "p999", 1), text: text}
	for _, name := range metrics() {
		if step, ok := strings.CutSuffix(g.Metric, "."+name); ok && !slices.Contains(metrics(), g.Metric) && step != "service" {
			g.Step, g.Metric = strings.TrimSuffix(step, ".service"), name
			if g.Step != step {
				g.Metric = "service." + name
			}
		}
	}
	if !slices.Contains(metrics(), g.Metric) {
		return Goal{}, badGoal(text, fmt.Sprintf("there is no figure %q; use one of %s", g.Metric, strings.ReplaceAll(strings.Join(metrics(), ", "), "p999", "p99.9")))
	}
	rest := bare[at:]
	for _, than := range []string{"<=", ">=", "==", "<", ">"} { // the longer ones first
		if value, ok := strings.CutPrefix(rest, than); ok {
			g.Than = than
			return g.value(value)
		}
	}
	return Goal{}, badGoal(text, "compare with <, <=, >, >= or ==")
}

func badGoal(text, why string) error {
	return fmt.Errorf("load: goal %q: %s", text, why)
}

// counted are the metrics other than times.
func counted() []string { return []string{"rate", "errors", "requests"} }

func metrics() []string {
	names := counted()
	for _, prefix := range []string{"", "service."} {
		names = append(names, prefix+"p50", prefix+"p90", prefix+"p95", prefix+"p99", prefix+"p999", prefix+"max", prefix+"mean")
	}
	return names
}

// IsTime reports whether the metric is a time; it is a count or a rate otherwise.
func (g Goal) IsTime() bool {
	return !slices.Contains(counted(), g.Metric)
}

// value parses the part after the comparison.
func (g Goal) value(text string) (Goal, error) {
	if g.IsTime() {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return Goal{}, badGoal(g.text, fmt.Sprintf("%q is no time; write it with its unit, as in 5ms or 250us", text))
		}
		g.Value = float64(d) / 1e3
		return g, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) || percent && g.Metric != "errors" {
		return Goal{}, badGoal(g.text, fmt.Sprintf("%q is no number for %s; write it without a unit, as in rate>=10000 or errors==0", text, g.Metric))
	}
	if g.Value, g.Part = v, percent; percent {
		g.Value = v / 100
	}
	return g, nil
}

// String returns the goal as it was written.
func (g Goal) String() string {
	if g.text != "" {
		return g.text
	}
	return g.name() + g.Than + g.format(g.Value)
}

// name returns the metric's name, with that of its step.
func (g Goal) name() string {
	if g.Step == "" {
		return g.Metric
	}
	return g.Step + "." + g.Metric
}

// HasSteps returns an error for a goal on a step that the plan does not have.
func (p Plan) HasSteps(goals []Goal) error {
	var names []string
	if p.Traffic != nil {
		for _, r := range p.Traffic.Requests() {
			names = append(names, r.Name)
		}
	}
	for _, g := range goals {
		switch {
		case g.Step == "" || slices.Contains(names, g.Step):
		case names == nil:
			return badGoal(g.text, fmt.Sprintf("there is no figure %q, and the load has no steps; use one of %s", g.name(), strings.Join(metrics(), ", ")))
		default:
			return badGoal(g.text, fmt.Sprintf("there is no step %q; use one of %s", g.Step, strings.Join(names, ", ")))
		}
	}
	return nil
}

// Outcome is the judgement of one goal.
type Outcome struct {
	Goal Goal
	Met  bool
	// Got is the measured value, in the goal's unit. It is nil when there is none, and then the
	// goal is missed.
	Got *float64
	// Judged is false when the result is not valid: then no goal is met.
	Judged bool
}

// String returns one line with the goal and the measured value.
func (o Outcome) String() string {
	got := "without a figure"
	if o.Got != nil {
		got = o.Goal.name() + " is " + o.Goal.format(*o.Got)
	}
	switch {
	case !o.Judged:
		return fmt.Sprintf("%v not judged: the result is not valid (%s)", o.Goal, got)
	case o.Met:
		return fmt.Sprintf("%v met: %s", o.Goal, got)
	}
	return fmt.Sprintf("%v missed: %s", o.Goal, got)
}

// Check judges goals, in their order. A result that is not valid meets none.
func Check(r *Result, goals []Goal) []Outcome {
	outcomes := make([]Outcome, len(goals))
	for i, g := range goals {
		got := g.figure(r)
		outcomes[i] = Outcome{Goal: g, Got: got, Judged: r.Valid, Met: r.Valid && got != nil && traffic.Holds(g.Than, cmp.Compare(*got, g.Value))}
	}
	return outcomes
}

// figure returns the result's value for the goal's metric.
func (g Goal) figure(r *Result) *float64 {
	if g.Step != "" {
		at := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == g.Step })
		if at < 0 {
			return nil
		}
		s := r.Steps[at]
		r = &Result{Rate: s.Rate, Requests: s.Requests, Errors: s.Errors, Latency: s.Latency, Service: s.Service}
	}
	switch g.Metric {
	case "rate":
		if r.RateAtLeast != nil && strings.HasPrefix(g.Than, ">") && *r.RateAtLeast > g.Value {
			return r.RateAtLeast // what is met so is met
		}
		return r.Rate
	case "requests":
		return new(float64(r.Requests))
	case "errors":
		n := float64(r.Errors["total"])
		switch {
		case !g.Part:
			return new(n)
		case r.Requests == 0:
			return nil
		}
		return new(n / float64(r.Requests))
	}
	name, isService := strings.CutPrefix(g.Metric, "service.")
	q := r.Latency
	if isService {
		q = r.Service
	}
	return q.Named(name)
}

// format writes a value in the goal's unit, times as the result's text does.
func (g Goal) format(v float64) string {
	switch {
	case g.IsTime():
		digit := math.Max(0.01, math.Pow(10, math.Floor(math.Log10(v))-2)) // the last that figure.Micros writes
		if v == g.Value || cmp.Compare(math.Round(v/digit)*digit, g.Value) != cmp.Compare(v, g.Value) {
			return time.Duration(v * 1e3).String() // rounded it would be on the other side of the goal
		}
		return figure.Micros(v)
	case g.Part:
		return strconv.FormatFloat(100*v, 'g', 4, 64) + "%"
	case g.Metric == "rate":
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
