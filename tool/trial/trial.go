// Package trial measures programs with an experimental design that supports verdicts: a
// sample is one run of a fresh server process under a load. Several programs are measured
// alternately, one sample of each in a turn, and half of the turns in reverse order, so that
// drift and interference affect all. Samples of one turn have the same Sample.Pair.
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
	"slices"
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
	// Command runs until it is asked to end (SIGTERM), once per sample. Required. A command that is not
	// loaded runs until it ends.
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

// MostServers is how many programs a trial compares at most.
const MostServers = 8

// Plan is what to measure, and how to take samples. Servers are required.
type Plan struct {
	Servers []Server // one, or several to compare: A, B and so on
	// Load is the load; Run sets its Progress, WindowOpens and WindowCloses. Without a Target there is
	// none: the commands run to their end, and what they print in Go's benchmark format are the figures.
	Load load.Plan
	// Scenario is stored with the runs.
	Scenario record.Scenario
	// Samples is how many valid ones to take of each server. Zero: 12.
	Samples int
	// Retakes is how many samples that were not valid may be retaken. Zero: half of Samples, at least 1.
	// Negative: none.
	Retakes int
	// MaxOthers is the share of all CPUs that other programs may use before a sample
	// becomes invalid. Zero: 0.3. With 1, neither other programs nor steal time nor CPU
	// quotas are checked.
	MaxOthers float64
	// Seed chooses the turns in which the last is first: half of them.
	Seed uint64
	// Progress receives the progress whenever a sample begins, and once a second of a load, from
	// one goroutine at a time. It must return soon. Zero: none.
	Progress func(Progress)
}

// The values of fields that are zero.
const (
	ServerSamples    = 12
	BenchmarkSamples = 16 // what callers use for benchmarks, whose runs vary more
	MaxOthers        = 0.3
	DefaultReady     = 30 * time.Second // Server.ReadyWithin
	DefaultStop      = 10 * time.Second // Server.StopWithin
)

// Progress is the state of a trial.
type Progress struct {
	Side      int    // of which a sample is taken, or the program built: 0 is A
	Name      string // of the side in messages, as in "the server" or "B (main)"
	Number    int    // of the sample, from 1; 0: the program is being built
	Of        int    // how many samples there will be, as Number counts them
	Prints    bool   // the command runs to its end, without a load
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
		title = fmt.Sprintf("sample %d of %d: %s", p.Number, p.Of, p.Name)
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
	case p.Number > 0 && !p.Prints:
		return p.Title() + ", starting"
	}
	return p.Title()
}

// Run takes the samples and returns one run per server, in the servers' order, with
// samples in the order in which they were taken. No process is left running.
//
// An error of one line explains why a trial could not go on. When ctx ends, Run returns
// its error and the runs with what was taken until then, whole turns only; runs without
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

// running is a running trial.
type running struct {
	plan           Plan
	folder         string // the parent of all {out} folders
	random         *rand.Rand
	servers        []*serverSide
	taken, planned int
	began          time.Time
}

// begin completes the plan.
func (p Plan) begin() (*running, error) {
	if len(p.Servers) == 0 || len(p.Servers) > MostServers {
		return nil, fmt.Errorf("trial: %d servers; give one, or up to %d to compare", len(p.Servers), MostServers)
	}
	if slices.ContainsFunc(p.Servers, func(s Server) bool { return s.Command == "" }) {
		return nil, errors.New("trial: a server without a command")
	}
	made := "bench"
	if p.Load.Target == nil {
		made = record.Printed
	}
	p.Samples = cmp.Or(p.Samples, ServerSamples)
	p.Retakes = cmp.Or(p.Retakes, max(1, p.Samples/2))
	p.MaxOthers = cmp.Or(p.MaxOthers, MaxOthers)
	folder, err := child.Folder("hone-trial")
	if err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	t := &running{plan: p, folder: folder, random: rand.New(rand.NewPCG(p.Seed, 1)), planned: p.Samples * len(p.Servers)}
	for i, server := range p.Servers {
		if server.Target == nil {
			server.Target = p.Load.Target
		}
		s := &serverSide{Server: server, label: "the server", out: filepath.Join(t.folder, string(rune('A'+i)))}
		if p.Load.Target == nil {
			s.label = "the command"
		}
		if len(p.Servers) > 1 {
			s.label = Label(i, s.Name)
		}
		s.run = &record.Run{Name: s.Name, Made: made, Scenario: p.Scenario}
		t.servers = append(t.servers, s)
		if err := os.Mkdir(s.out, 0o700); err != nil {
			t.end()
			return nil, fmt.Errorf("trial: %w", err)
		}
	}
	return t, nil
}

func (t *running) end() { os.RemoveAll(t.folder) }

// take takes turns, or samples of the only server, until enough are valid or too many are
// not. A retaken pair keeps its order: the first of a pair measures differently, and only
// equal numbers of both orders cancel that.
func (t *running) take(ctx context.Context) error {
	t.began = time.Now().UTC()
	reversed := halfOf(t.plan.Samples, t.random)
	for number, valid, retaken := 1, 0, 0; valid < t.plan.Samples; number++ {
		taken, ok, err := t.turn(ctx, number, reversed[valid])
		if err != nil {
			return err
		}
		for i, s := range t.servers {
			if s.run.At.IsZero() {
				s.run.At = t.began // of all samples, so that the last side's run is the newest
			}
			s.run.Samples = append(s.run.Samples, taken[i])
		}
		switch {
		case ok:
			valid++
		case retaken >= t.plan.Retakes:
			return nil // the comparison will report that there are too few
		default:
			retaken++
			t.planned += len(t.servers)
		}
	}
	return nil
}

// turn takes one sample of each side, in reverse order if reversed, and reports whether all are valid.
func (t *running) turn(ctx context.Context, pair int, reversed bool) (taken []record.Sample, valid bool, err error) {
	taken, valid = make([]record.Sample, len(t.servers)), true
	for i := range t.servers {
		if reversed {
			i = len(t.servers) - 1 - i
		}
		take := t.sample
		if t.plan.Load.Target == nil {
			take = t.printed
		}
		sample, err := take(ctx, t.servers[i], Progress{Side: i, Name: t.servers[i].label, Number: t.taken + 1, Of: t.planned})
		if err != nil {
			return nil, false, err
		}
		t.taken++
		sample.Order = t.taken
		if len(t.servers) > 1 {
			sample.Pair = pair
		}
		valid = valid && sample.Valid
		taken[i] = *sample
	}
	return taken, valid, nil
}

// sampled returns the runs that have samples.
func (t *running) sampled() (runs []*record.Run) {
	for _, s := range t.servers {
		if len(s.run.Samples) > 0 {
			runs = append(runs, s.run)
		}
	}
	return runs
}

// say adds the progress of the whole trial.
func (t *running) say(p Progress) {
	p.Taken, p.Samples = t.taken, t.planned
	if t.taken > 0 {
		each := time.Since(t.began) / time.Duration(t.taken)
		p.Remaining = each * time.Duration(t.planned-t.taken)
	}
	if t.plan.Progress != nil {
		t.plan.Progress(p)
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
