// Package trial measures programs the way that verdicts need: a sample is one run
// of a fresh server process under a load, and where two programs are compared they
// take turns in pairs, half of them A first, so that what the machine does meanwhile
// happens to both.
//
//	runs, err := trial.Run(ctx, trial.Plan{
//		Servers: []trial.Server{{Command: "./server"}},
//		Load:    load.Plan{Target: target, Conns: 100},
//	})
//
// A sample that the machine or the generator has spoilt is kept, with the reason,
// and another is taken in its place.
package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// Server is a program under test: how to make it, to start it, and to know that
// it is ready. Commands are the shell's; in them and in Env, {out} is an empty
// folder of this server's own.
type Server struct {
	Name  string // for people; becomes the Run's
	Dir   string // where the commands run; zero: here
	Build string // run once, first; zero: nothing
	// Command runs until it is asked to end (SIGTERM), for each sample anew.
	// Required.
	Command string
	Env     []string // as in "GOGC=200", beside this process's own
	// Ready is what says that it serves. Zero: the target takes connections.
	Ready Ready
	// ReadyWithin is how long that may take. Zero: 30 s.
	ReadyWithin time.Duration
	// StopWithin is how long it may take to end. Zero: 10 s. Then it is killed.
	StopWithin time.Duration
}

// Plan is what to measure. Servers and Load.Target are required.
type Plan struct {
	Servers []Server // one, or two to compare: A and B
	// Load is the load; its Progress, WindowOpens and WindowCloses are taken.
	Load load.Plan
	// Scenario is kept with the runs.
	Scenario record.Scenario
	// Samples is how many valid ones to take of each server. Zero: 12.
	Samples int
	// Retakes is how many may be taken again because they were not valid. Zero:
	// half of Samples, at least 1. Negative: none.
	Retakes int
	// MostOthers is the part of all CPUs that other programs may use before a
	// sample is not valid. Zero: 0.3. With 1, nothing is asked of the machine: not
	// what the host gives to others, and not whether a quota stops the process.
	MostOthers float64
	// Seed chooses the pairs in which B is first: half of them.
	Seed uint64
	// Progress is told how far it is, once a second and whenever a sample begins,
	// by one goroutine at a time. It must return soon. Zero: nobody.
	Progress func(Progress)
}

// Progress is how far a trial is.
type Progress struct {
	Doing   string // "building A", "sample 3 of 16: B", with what the load does
	Taken   int    // samples so far, of all servers
	Samples int    // that it will be if no more have to be taken again
	// Remaining is a guess from the samples so far; 0: there are none yet.
	Remaining time.Duration
	Load      *load.Progress // nil while nothing is loaded
}

// Run takes the samples and returns a run of each server, in their order, their
// samples in the order in which they were taken; of two servers, Sample.Pair is
// the same for those that were taken in turn. Nothing is left running.
//
// An *Error says why it could not go on. When ctx ends, the error is its own, and
// the runs have what was taken until then, whole pairs only; runs without a
// sample are not returned.
func Run(ctx context.Context, p Plan) ([]*record.Run, error) {
	t, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer t.end()
	for _, s := range t.servers {
		if s.Build != "" {
			t.say(Progress{Doing: "building " + s.label})
		}
		if err := s.build(ctx); err != nil {
			return nil, err
		}
	}
	err = t.take(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	var runs []*record.Run
	for _, s := range t.servers {
		if len(s.run.Samples) > 0 {
			runs = append(runs, s.run)
		}
	}
	return runs, ctx.Err()
}

// course is a trial on its way.
type course struct {
	plan    Plan
	servers []*subject
	random  *rand.Rand
	folder  string // everybody's {out}
	taken   int
	planned int
	began   time.Time
}

func (p Plan) begin() (*course, error) {
	switch {
	case len(p.Servers) == 0 || len(p.Servers) > 2:
		return nil, fmt.Errorf("trial: %d servers; give one, or two to compare", len(p.Servers))
	case p.Load.Target == nil:
		return nil, errors.New("trial: the load has no target")
	}
	if p.Samples == 0 {
		p.Samples = 12
	}
	if p.Retakes == 0 {
		p.Retakes = max(1, p.Samples/2)
	}
	if p.MostOthers == 0 {
		p.MostOthers = 0.3
	}
	if p.Progress == nil {
		p.Progress = func(Progress) {}
	}
	t := &course{plan: p, random: rand.New(rand.NewPCG(p.Seed, 1)), planned: p.Samples * len(p.Servers)}
	var err error
	if t.folder, err = child.Folder("hone-trial"); err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	for i, server := range p.Servers {
		s := &subject{Server: server, label: "the server", out: filepath.Join(t.folder, string(rune('A'+i)))}
		if len(p.Servers) > 1 {
			s.label = string(rune('A' + i))
			if s.Name != "" {
				s.label += " (" + s.Name + ")"
			}
		}
		s.run = &record.Run{Name: s.Name, Made: "bench", Scenario: p.Scenario}
		t.servers = append(t.servers, s)
		if err := os.Mkdir(s.out, 0o700); err != nil {
			t.end()
			return nil, fmt.Errorf("trial: %w", err)
		}
	}
	return t, nil
}

func (t *course) end() { os.RemoveAll(t.folder) }

// take takes pairs, or samples of the only server, until there are enough valid
// ones or too many are not. A pair that is taken again keeps its order: what comes
// first measures differently, and only as many pairs of either order cancel that.
func (t *course) take(ctx context.Context) error {
	t.began = time.Now().UTC()
	reversed := halfOf(t.plan.Samples, t.random)
	for number, valid, again := 1, 0, 0; valid < t.plan.Samples; number++ {
		ok, err := t.turn(ctx, number, reversed[valid])
		switch {
		case err != nil:
			return err
		case ok:
			valid++
			continue
		case again >= t.plan.Retakes:
			return nil // who compares will say that there are too few
		}
		again++
		t.planned += len(t.servers)
	}
	return nil
}

// halfOf is true in half of n places, chosen at random.
func halfOf(n int, random *rand.Rand) []bool {
	chosen := make([]bool, n)
	for i, place := range random.Perm(n) {
		chosen[place] = i < n/2
	}
	return chosen
}

// turn takes one sample of each server, the last one's first if reversed.
func (t *course) turn(ctx context.Context, number int, reversed bool) (valid bool, err error) {
	valid = true
	taken := make([]record.Sample, len(t.servers))
	for i := range t.servers {
		if reversed {
			i = len(t.servers) - 1 - i
		}
		s := t.servers[i]
		sample, err := t.sample(ctx, s)
		if err != nil {
			return false, err
		}
		t.taken++
		sample.Order = t.taken
		if len(t.servers) > 1 {
			sample.Pair = number
		}
		valid = valid && sample.Valid
		taken[i] = *sample
	}
	for i, s := range t.servers {
		if s.run.At.IsZero() {
			s.run.At = t.began // of all, so that the newest is the last server's
		}
		s.run.Samples = append(s.run.Samples, taken[i])
	}
	return valid, nil
}

// say adds what is known of the whole.
func (t *course) say(p Progress) {
	p.Taken, p.Samples = t.taken, t.planned
	if t.taken > 0 {
		each := time.Since(t.began) / time.Duration(t.taken)
		p.Remaining = each * time.Duration(t.planned-t.taken)
	}
	t.plan.Progress(p)
}

// Reason is what kind of thing an Error is about.
type Reason uint8

// The reasons.
const (
	BuildFailed Reason = iota // Server.Build has failed
	NotStarted                // Server.Command could not be run at all
	Occupied                  // something answers at the target before the server was started
	NotReady                  // the server was not ready in time
	Died                      // the server has ended by itself
	Changed                   // the program is not the same for all samples
	Unloadable                // the load could not be applied
	NoRevision                // the revision asked for could not be had
)

// Error is why a trial could not go on. Its text is one line that ends with the
// next thing to try.
type Error struct {
	Reason Reason
	What   string
	Try    string
	Err    error // may be nil
}

// Error returns the line.
func (e *Error) Error() string {
	text := e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Try != "" {
		text += "; " + e.Try
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
