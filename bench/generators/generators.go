// Package generators compares load generators: each sends the same requests at the same
// rate to the same server, whose response times can be computed, and says what they were.
//
// The server answers nothing in the first part of every period. Requests that come at a
// constant rate then wait between nothing and the whole stall, evenly spread, and the others
// not at all. What a generator says beyond that is its own, or the machine's.
package generators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
	"github.com/hone-go/hone/bench/table"
)

// Stalls is the schedule of a server that does not answer in the first part of every period.
type Stalls struct{ Period, Stall time.Duration }

// String returns a description of the schedule.
func (s Stalls) String() string {
	return fmt.Sprintf("%d ms in %d", s.Stall.Milliseconds(), s.Period.Milliseconds())
}

// Quantile returns the expected quantile of the response time, in microseconds, if requests
// arrive at a constant rate and are answered immediately or at the end of the stall: those in a
// stall wait for between zero and the whole stall, evenly distributed, and the others do not wait.
func (s Stalls) Quantile(q float64) float64 {
	part := float64(s.Stall) / float64(s.Period)
	return float64(s.Stall.Microseconds()) * max(0, (q-(1-part))/part)
}

const (
	rate     = 500             // requests a second
	settle   = 4 * time.Second // from a generator's start until its CPU time counts: k6 makes its VUs
	window   = 5 * time.Second // in which it does
	tail     = time.Second     // how much longer a generator runs than it is watched
	rounds   = 5
	patience = 30 * time.Second
	// leastRate is the fraction of the rate that must have reached the server.
	leastRate = 0.98
	// mostRepeats is how often a sample that its own generator doubts is taken again.
	mostRepeats = 2
)

// computed is the server whose figures are computed.
const computed = "computed"

// Row has hone, vegeta and k6 under two schedules. The others are those on PATH.
func Row() race.Row {
	schedules := []Stalls{{500 * time.Millisecond, 100 * time.Millisecond}, {500 * time.Millisecond, 300 * time.Millisecond}}
	row := race.Row{
		Name: "generators", Client: "each", Rounds: rounds,
		Title: func(cpus []int) string {
			return fmt.Sprintf("%d requests/s at constant distances to a server that stalls, server on CPU %d, generator on CPU %d", rate, cpus[0], cpus[len(cpus)-1])
		},
	}
	row.Servers = append(row.Servers, fleet.Entry{Server: table.Server{Name: computed}, Inside: true})
	for _, t := range tools() {
		row.Servers = append(row.Servers, t.Entry)
	}
	row.Round = func(ctx context.Context, g *race.Ground, order []fleet.Entry) (all []table.Sample) {
		for _, s := range schedules {
			for _, e := range order {
				all = append(all, repeated(ctx, g, e, s))
			}
		}
		return all
	}
	return row
}

// repeated takes a sample, again while its generator doubts it.
func repeated(ctx context.Context, g *race.Ground, e fleet.Entry, s Stalls) table.Sample {
	if e.Name == computed {
		return table.Sample{Server: computed, Case: s.String(), Figures: map[string]float64{"p50_us": s.Quantile(0.5), "p99_us": s.Quantile(0.99), "p999_us": s.Quantile(0.999)}}
	}
	for repeats := 0; ; repeats++ {
		sample, err := sample(ctx, g, e, s)
		sample.Server, sample.Case = e.Name, s.String()
		switch {
		case err == nil && sample.Figures["rate"] < leastRate*rate && !g.Small():
			err = fmt.Errorf("sent %.0f of %d requests a second", sample.Figures["rate"], rate)
		case err == nil && sample.Doubts != nil && repeats == mostRepeats:
			err = fmt.Errorf("doubts itself: %s", sample.Doubts[0])
		}
		if err != nil {
			sample.Error = err.Error()
		}
		if err != nil || sample.Doubts == nil || ctx.Err() != nil {
			return sample
		}
	}
}

// sample has one generator load a fresh server.
func sample(ctx context.Context, g *race.Ground, e fleet.Entry, schedule Stalls) (s table.Sample, err error) {
	t, err := named(e.Name, g.Dir)
	if err != nil {
		return s, err
	}
	settle, window := settle, window
	if g.Small() {
		settle, window = 300*time.Millisecond, 2*time.Second // a p99.9 needs 1,000 requests
	}
	server, err := fleet.Spawn(ctx, g.CPUs[0], g.Self, "stalls", schedule.Period.String(), schedule.Stall.String())
	if err != nil {
		return s, err
	}
	defer server.Stop()
	var begun status
	if err := server.Answer(ctx, patience, &begun); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp(g.Dir, "sample")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	a := attack{
		url: "http://" + begun.Addr + "/", duration: settle + window + tail, dir: dir,
		workers: max(50, 2*int(schedule.Stall.Seconds()*rate)), file: filepath.Join(dir, "result"),
	}
	command, err := t.command(a)
	if err != nil {
		return s, err
	}
	client, err := fleet.Spawn(ctx, g.CPUs[len(g.CPUs)-1], t.path, command...)
	if err != nil {
		return s, err
	}
	defer client.Stop()
	var at [2]struct {
		cpu      time.Duration
		when     time.Time
		requests int64
	}
	for i, wait := range []time.Duration{settle, window} {
		if err := fleet.Wait(ctx, wait); err != nil {
			return s, err
		}
		var now status
		cpu, err := fleet.ProcessCPU(client.PID)
		at[i].when = time.Now()
		if err := errors.Join(err, server.Ask(ctx, "", patience, &now)); err != nil {
			return s, err
		}
		at[i].cpu, at[i].requests = cpu, now.Requests
	}
	select {
	case <-client.Ended():
	case <-time.After(a.duration + patience):
		return s, fmt.Errorf("%s does not end; it said: %s", t.Name, client.Said())
	case <-ctx.Done():
		return s, ctx.Err()
	}
	s, err = t.figures(ctx, a)
	if err != nil {
		return s, fmt.Errorf("%w; %s said: %s", err, t.Name, client.Said())
	}
	requests := float64(at[1].requests - at[0].requests)
	s.Figures["rate"] = requests / at[1].when.Sub(at[0].when).Seconds()
	if requests > 0 {
		s.Figures["cpu_us"] = float64((at[1].cpu - at[0].cpu).Nanoseconds()) / 1e3 / requests
	}
	return s, nil
}
