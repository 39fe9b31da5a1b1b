// Package trial measures programs with an experimental design that supports verdicts: a
// sample is one run of a fresh server process under a load. Two programs are measured
// alternately, in pairs, half of them A first, so that drift and interference affect
// both.
//
//	runs, err := trial.Run(ctx, trial.Plan{
//		Servers: []trial.Server{{Command: "./server"}},
//		Load:    load.Plan{Target: target, Conns: 100},
//	})
//
// A sample that the machine or the generator has spoilt is stored with the reason, and
// another is taken in its place.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
)

// Server is a program under test: how to build it, start it, and know that it is ready.
// The shell runs the commands; in them and in Env, {out} is an empty folder, one per
// server.
type Server struct {
	Name  string // for display; becomes the Run's
	Dir   string // working folder of the commands; zero: the current one
	Build string // run once, first; zero: no build
	// Command runs until it is asked to end (SIGTERM), once per sample. Required.
	Command string
	Env     []string // as in "GOGC=200", added to this process's environment
	// Target is where it listens. Zero: the load's.
	Target codec.Target
	// Ready is the readiness check. Zero: the target accepts connections.
	Ready Ready
	// ReadyWithin is how long the server may take to become ready. Zero: 30 s.
	ReadyWithin time.Duration
	// StopWithin is how long the server may take to end before it is killed. Zero: 10 s.
	StopWithin time.Duration
}

// Plan is what to measure. Servers and Load.Target are required.
type Plan struct {
	Servers []Server // one, or two to compare: A and B
	// Load is the load; Run sets its Progress, WindowOpens and WindowCloses.
	Load load.Plan
	Design
}

// Design is how to take samples. The zero value works.
type Design struct {
	// Scenario is stored with the runs.
	Scenario record.Scenario
	// Samples is how many valid ones to take of each server or tree. Zero: 12 of a server, 16 of a
	// benchmark.
	Samples int
	// Retakes is how many samples, or takes of each benchmark, that were not valid may be retaken.
	// Zero: half of Samples, at least 1. Negative: none.
	Retakes int
	// MostOthers is the share of all CPUs that other programs may use before a sample
	// becomes invalid. Zero: 0.3. With 1, neither other programs nor steal time nor CPU
	// quotas are checked.
	MostOthers float64
	// Seed chooses the pairs in which B is first: half of them.
	Seed uint64
	// Progress receives the progress whenever a sample begins, and once a second of a load, from
	// one goroutine at a time. It must return soon. Zero: none.
	Progress func(Progress)
}

// The values of fields that are zero.
const (
	ServerSamples    = 12
	BenchmarkSamples = 16
	MostOthers       = 0.3
	UsualReady       = 30 * time.Second       // Server.ReadyWithin
	UsualStop        = 10 * time.Second       // Server.StopWithin
	UsualTake        = 500 * time.Millisecond // Benchmarks.For
)

// Progress is the state of a trial.
type Progress struct {
	Side      int    // of which a sample is taken, or the program built: 0 is A
	Name      string // of the side in messages, as in "the server" or "B (main)"
	Number    int    // of the sample, from 1; 0: the program is being built
	Of        int    // how many samples there will be, as Number counts them
	Benchmark string // which one, of Go benchmarks
	Profiling bool   // the sample is for profiles, and not one of those of the trial
	Taken     int    // samples so far, of all sides
	Samples   int    // expected in total if no more have to be retaken
	// Remaining is an estimate from the samples so far; 0: none yet.
	Remaining time.Duration
	Load      *load.Progress // nil while no load runs
}

// Title names what is done, as in "building A" or "sample 3 of 16: B".
func (p Progress) Title() string {
	title := "building " + p.Name
	if p.Number > 0 {
		title = fmt.Sprintf("sample %d of %d: ", p.Number, p.Of)
		if p.Benchmark != "" {
			title += p.Benchmark + ", "
		}
		title += p.Name
	}
	if p.Profiling {
		title = "profiles: " + title
	}
	return title
}

// String adds how far the sample of a server is, as in "sample 3 of 16: B, measuring".
func (p Progress) String() string {
	switch {
	case p.Load != nil:
		return p.Title() + ", " + p.Load.Phase
	case p.Number > 0 && p.Benchmark == "":
		return p.Title() + ", starting"
	}
	return p.Title()
}

// Run takes the samples and returns one run per server, in the servers' order, with
// samples in the order in which they were taken; with two servers, samples of the same
// pair have the same Sample.Pair. No process is left running.
//
// An error of one line explains why a trial could not go on. When ctx ends, Run returns
// its error and the runs with what was taken until then, whole pairs only; runs without
// a sample are not returned.
func Run(ctx context.Context, p Plan) ([]*record.Run, error) {
	t, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer t.end()
	for i, s := range t.servers {
		if s.Build != "" {
			t.say(Progress{Side: i, Name: s.label})
		}
		if err := s.build(ctx); err != nil {
			return nil, err
		}
	}
	err = t.take(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return t.sampled(), ctx.Err()
}

// serverTrial is a running trial.
type serverTrial struct {
	plan        Plan
	servers     []*serverSide
	measurement // its folder is the parent of all {out} folders
}

func (p Plan) begin() (*serverTrial, error) {
	switch {
	case len(p.Servers) == 0 || len(p.Servers) > 2:
		return nil, fmt.Errorf("trial: %d servers; give one, or two to compare", len(p.Servers))
	case p.Load.Target == nil:
		return nil, errors.New("trial: the load has no target")
	}
	t := &serverTrial{plan: p}
	if err := t.begin(&t.plan.Design, "hone-trial", ServerSamples); err != nil {
		return nil, err
	}
	t.planned = t.plan.Samples * len(p.Servers)
	for i, server := range p.Servers {
		if server.Target == nil {
			server.Target = p.Load.Target
		}
		s := &serverSide{Server: server, label: "the server", out: filepath.Join(t.folder, string(rune('A'+i)))}
		if len(p.Servers) > 1 {
			s.label = Label(i, s.Name)
		}
		s.run = t.add("bench", s.Name)
		t.servers = append(t.servers, s)
		if err := os.Mkdir(s.out, 0o700); err != nil {
			t.end()
			return nil, fmt.Errorf("trial: %w", err)
		}
	}
	return t, nil
}

// take takes pairs, or samples of the only server, until enough are valid or too many are
// not. A retaken pair keeps its order: the first of a pair measures differently, and only
// equal numbers of both orders cancel that.
func (t *serverTrial) take(ctx context.Context) error {
	t.began = time.Now().UTC()
	reversed := halfOf(t.plan.Samples, t.random)
	retaken := 0
	for number, valid := 1, 0; valid < t.plan.Samples; number++ {
		taken, ok, err := t.turn(number, reversed[valid], func(side int) (*record.Sample, error) { return t.sample(ctx, side) })
		if err != nil {
			return err
		}
		t.keep(taken)
		if ok {
			valid++
		} else if !t.again(&retaken) {
			break
		}
	}
	return nil
}

// measurement is a running measurement.
type measurement struct {
	design         *Design
	folder         string
	random         *rand.Rand
	runs           []*record.Run // of the sides
	taken, planned int
	began          time.Time
}

// begin completes the design.
func (t *measurement) begin(d *Design, folder string, samples int) (err error) {
	d.Samples = cmp.Or(d.Samples, samples)
	d.Retakes = cmp.Or(d.Retakes, max(1, d.Samples/2))
	d.MostOthers = cmp.Or(d.MostOthers, MostOthers)
	t.design, t.random = d, rand.New(rand.NewPCG(d.Seed, 1))
	if t.folder, err = child.Folder(folder); err != nil {
		return fmt.Errorf("trial: %w", err)
	}
	return nil
}

func (t *measurement) end() { os.RemoveAll(t.folder) }

// add returns the run of another side.
func (t *measurement) add(made, name string) *record.Run {
	run := &record.Run{Name: name, Made: made, Scenario: t.design.Scenario}
	t.runs = append(t.runs, run)
	return run
}

// keep adds a sample to each run.
func (t *measurement) keep(samples []record.Sample) {
	for i, run := range t.runs {
		if run.At.IsZero() {
			run.At = t.began // of all samples, so that the last side's run is the newest
		}
		run.Samples = append(run.Samples, samples[i])
	}
}

// turn takes one sample of each side, in reverse order if reversed, and reports whether all are valid.
func (t *measurement) turn(pair int, reversed bool, take func(side int) (*record.Sample, error)) (taken []record.Sample, valid bool, err error) {
	taken, valid = make([]record.Sample, len(t.runs)), true
	for i := range t.runs {
		if reversed {
			i = len(t.runs) - 1 - i
		}
		sample, err := take(i)
		if err != nil {
			return nil, false, err
		}
		t.taken++
		sample.Order = t.taken
		if len(t.runs) > 1 {
			sample.Pair = pair
		}
		valid = valid && sample.Valid
		taken[i] = *sample
	}
	return taken, valid, nil
}

// again reports whether samples that were not valid may be taken again, and counts that.
func (t *measurement) again(retaken *int) bool {
	if *retaken >= t.design.Retakes {
		return false // the comparison will report that there are too few
	}
	*retaken++
	t.planned += len(t.runs)
	return true
}

// sampled returns the runs that have samples.
func (t *measurement) sampled() (runs []*record.Run) {
	for _, run := range t.runs {
		if len(run.Samples) > 0 {
			runs = append(runs, run)
		}
	}
	return runs
}

// say adds the progress of the whole measurement.
func (t *measurement) say(p Progress) {
	p.Taken, p.Samples = t.taken, t.planned
	if t.taken > 0 {
		each := time.Since(t.began) / time.Duration(t.taken)
		p.Remaining = each * time.Duration(t.planned-t.taken)
	}
	if t.design.Progress != nil {
		t.design.Progress(p)
	}
}

// Label names one of two sides in messages.
func Label(side int, name string) string {
	label := string(rune('A' + side))
	if name != "" {
		label += " (" + name + ")"
	}
	return label
}

// halfOf returns n booleans of which half are true, chosen at random.
func halfOf(n int, random *rand.Rand) []bool {
	chosen := make([]bool, n)
	for i, place := range random.Perm(n) {
		chosen[place] = i < n/2
	}
	return chosen
}
