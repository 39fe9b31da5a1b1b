package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/record"
)

// sample measures a fresh process of a server.
func (t *running) sample(ctx context.Context, s *serverSide, now Progress) (*record.Sample, error) {
	t.say(now)
	at := time.Now().UTC()
	process, err := s.start(ctx, s.Target)
	if err != nil {
		return nil, err
	}
	defer process.Stop()
	w := &window{use: process.Used}
	plan := t.plan.Load
	plan.Target = s.Target
	plan.WindowOpens, plan.WindowCloses = w.opens, w.closes
	var before, after child.Use // the idle connections
	plan.IdleOpens = func() { before, _ = process.Used() }
	plan.IdleOpened = func() { after, _ = process.Used() }
	if t.plan.MaxOthers < 1 {
		plan.Rivals = func() (*float64, time.Duration) { return w.rivals(nil) }
	}
	plan.Progress = func(p load.Progress) {
		now.Load = &p
		t.say(now)
	}
	result, err := whileItLives(ctx, process, plan)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case hasDied(process, result, err):
		return nil, s.died(process, "during a run")
	case err != nil:
		return nil, fmt.Errorf("%s, under load: %w", s.label, err)
	}
	if err := s.identify(w.program, s.Target); err != nil {
		return nil, err
	}
	w.fill(result)
	if i := result.Idle; i != nil && i.Conns > 0 && before.Resident > 0 && after.Resident > before.Resident { // else too few to measure
		i.ServerBytes = new(float64(after.Resident-before.Resident) / float64(i.Conns))
	}
	sample := SampleOf(result, at)
	if s.run.Scenario.Load == nil {
		s.run.Scenario.Load = result.Settings
	}
	spoil(sample, w.reasons(t.plan.MaxOthers))
	if words := process.Said(); words != "" {
		sample.Artefacts = append(sample.Artefacts, record.Artefact{Kind: "log", Name: "server.log", Data: []byte(strings.ReplaceAll(words, " | ", "\n") + "\n")})
	}
	return sample, nil
}

// whileItLives runs the load until the process ends; the load itself would wait for a
// server to come back.
func whileItLives(ctx context.Context, process *child.Child, plan load.Plan) (*load.Result, error) {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		select {
		case <-process.Ended():
			stop()
		case <-ctx.Done():
		}
	})
	return load.Run(ctx, plan)
}

// deathTime is how long after its connections a process may take to end.
const deathTime = 2 * time.Second

// hasDied reports whether the process has ended. If the load lost connections, it waits
// deathTime for that.
func hasDied(process *child.Child, result *load.Result, err error) bool {
	wait := time.Duration(0)
	end := new(load.Error)
	if errors.As(err, &end) && end.Kind != load.BadPlan || result != nil && result.Errors[load.Closed.String()] > 0 {
		wait = deathTime
	}
	select {
	case <-process.Ended():
	case <-time.After(wait):
	}
	select { // with nothing to wait for, both may have been ready
	case <-process.Ended():
		return true
	default:
		return false
	}
}

// identify hashes the server's program for the first sample and reports an error if it
// has changed since.
func (s *serverSide) identify(program string, target codec.Target) error {
	if s.run.Environment.Strict == nil {
		s.run.Environment = s.environment(target)
	}
	if program == "" {
		return nil
	}
	facts, err := machine.Program(program)
	if err != nil {
		return nil // unreadable: another user's process, or another operating system
	}
	hash := facts.Soft["sha256"]
	if s.binary != "" && hash != s.binary {
		return fmt.Errorf("the program of %s has changed since the first sample; build it once, with --build, and start the built program", s.label)
	}
	s.binary = hash
	maps.Copy(s.run.Environment.Strict, facts.Strict)
	maps.Copy(s.run.Environment.Soft, facts.Soft)
	return nil
}

// window records what the machine and the server's processes did during the measured
// time. The load calls its methods.
type window struct {
	use           func() (child.Use, error)
	first, last   child.Use
	known         atomic.Bool // whether the processes could be read
	before, after machine.Usage
	program       string
}

func (w *window) opens() {
	w.before = machine.Measure()
	use, err := w.use()
	w.first = use
	w.known.Store(err == nil)
}

func (w *window) closes() {
	use, err := w.use()
	w.last = use
	w.known.Store(w.known.Load() && err == nil)
	w.after = machine.Measure()
	if err == nil {
		w.program = use.Program()
	}
}

// spoil adds why the machine makes a sample's figures unreliable, if it does.
func spoil(s *record.Sample, reasons []string) {
	if len(reasons) > 0 {
		s.Valid, s.Unfit, s.Reasons = false, record.Disturbed, append(s.Reasons, reasons...)
	}
}

const (
	mostSteal     = 0.05 // of all CPUs
	mostThrottled = 0.01
)

// reasons returns why the machine makes the sample's figures unreliable. With maxOthers
// of 1 nothing is checked.
func (w *window) reasons(maxOthers float64) (reasons []string) {
	if maxOthers >= 1 {
		return nil
	}
	return disturbed(w.meanwhile(nil), maxOthers)
}

// meanwhile returns what the machine did besides this process, the server's and own.
func (w *window) meanwhile(own []int) machine.Meanwhile {
	return w.before.Between(w.after, slices.Concat(w.last.PIDs, own)...)
}

// rivals returns what load.Plan.Rivals does.
func (w *window) rivals(own []int) (share *float64, server time.Duration) {
	return w.meanwhile(own).Rivals, max(0, w.last.Waited-w.first.Waited)
}

// disturbed returns how others disturbed a measurement.
func disturbed(m machine.Meanwhile, maxOthers float64) (reasons []string) {
	for _, c := range []struct {
		part *float64
		most float64
		text string
	}{
		{m.Others, maxOthers, "other programs used %s of the CPUs (limit %s); stop them, or wait"},
		{m.Steal, mostSteal, "steal time was %s of the CPUs: the host ran other machines (limit %s); wait, or use a dedicated machine"},
		{m.Throttled, mostThrottled, "the cgroup's CPU quota throttled it for %s of the time (limit %s); raise the quota"},
	} {
		if c.part != nil && *c.part > c.most {
			limit := percent(c.most)
			if c.part == m.Others && m.Busiest != "" {
				limit += "; of one CPU: " + m.Busiest
			}
			reasons = append(reasons, fmt.Sprintf(c.text, percent(*c.part), limit))
		}
	}
	return reasons
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// fill adds to the result what the server's processes used, for each request; of churn alone, for each connection, which has one.
func (w *window) fill(r *load.Result) {
	requests := r.Requests
	if requests == 0 && r.Churn != nil {
		requests = r.Churn.Conns
	}
	if w.known.Load() && requests > 0 {
		used := float64(w.last.CPU-w.first.CPU) / 1e3 / float64(requests)
		r.Server = &load.Server{CPUPerRequest: &used, RSS: new(w.last.Resident)}
		if n := w.last.Descriptors(); n > 0 {
			r.Server.Descriptors = &n
		}
	}
}

// SampleOf returns a sample with a load's figures and the data behind them.
func SampleOf(r *load.Result, at time.Time) *record.Sample {
	sample := &record.Sample{At: at, Valid: r.Valid, Reasons: r.InvalidReasons, Rate: r.Rate, Errors: new(r.Errors["total"])}
	if !r.Valid {
		sample.Unfit = record.Disturbed
		if r.OnlyLate {
			sample.Unfit = record.Late
		}
	}
	r.Metrics(func(name, unit, better string, value float64) {
		sample.Metrics = append(sample.Metrics, record.Metric{Name: name, Unit: unit, Better: better, Value: value})
	})
	keep(sample, r)
	return sample
}

// keep stores the data behind the figures.
func keep(sample *record.Sample, r *load.Result) {
	distributions := []struct {
		name string
		h    *hdrhistogram.Histogram
	}{{"latency", r.Histograms.Latency}, {"service", r.Histograms.Service}, {"lag", r.Histograms.Lag}}
	if r.Offered == nil {
		distributions = distributions[:1] // the service time is identical
	}
	for _, d := range distributions {
		if d.h == nil {
			continue
		}
		if data, err := d.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
			sample.Histograms = append(sample.Histograms, record.Histogram{Name: d.name, Data: data})
		}
	}
	rate := record.Series{Name: "rate", Unit: "req/s", Step: time.Second}
	errors := record.Series{Name: "errors", Step: time.Second}
	for _, i := range r.Intervals {
		sample.Histograms = append(sample.Histograms, record.Histogram{Name: "latency", Start: i.Start, End: i.End, Data: i.Latency})
		if r.Offered != nil {
			sample.Histograms = append(sample.Histograms, record.Histogram{Name: "service", Start: i.Start, End: i.End, Data: i.Service})
		}
		rate.Step = max(rate.Step, i.End-i.Start)
		rate.Values = append(rate.Values, float64(i.Answered)/(i.End-i.Start).Seconds())
		errors.Values = append(errors.Values, float64(i.Errors))
	}
	errors.Step = rate.Step
	sample.Series = append(sample.Series, rate, errors)
}
