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
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// Contest is a comparison to be made.
type Contest struct {
	Tools     []Tool
	Schedules []report.Stalls
	Rate      int           // requests a second
	Settle    time.Duration // from a generator's start until its CPU time counts
	Window    time.Duration // in which it does
	Rounds    int
	Seed      uint64 // of the order
	CPUs      []int
	Server    []string // the command that runs Serve; a period and a stall are added
	Dir       string   // for files
	Say       func(string)
}

// tail is how much longer a generator runs than it is watched.
const tail = time.Second

// Schedules are those of a run that is to be quoted.
func Schedules() []report.Stalls {
	return []report.Stalls{{PeriodMS: 500, StallMS: 100}, {PeriodMS: 500, StallMS: 300}}
}

// Run makes the comparison. A sample that cannot be taken says so, and the others go on.
func (c *Contest) Run(ctx context.Context) *report.Generators {
	g := &report.Generators{
		Head: report.Head{Schema: report.GeneratorsSchema, Valid: true, InvalidReasons: []string{}},
		Rate: c.Rate, Rounds: c.Rounds, Seed: c.Seed, WindowMS: c.Window.Milliseconds(), Schedules: c.Schedules,
	}
	for _, tool := range c.Tools {
		g.Servers = append(g.Servers, tool.Entry)
	}
	type turn struct {
		tool     Tool
		schedule report.Stalls
	}
	random := rand.New(rand.NewPCG(c.Seed, 1))
	for round := 1; round <= c.Rounds && ctx.Err() == nil; round++ {
		var turns []turn
		for _, schedule := range c.Schedules {
			for _, tool := range c.Tools {
				turns = append(turns, turn{tool, schedule})
			}
		}
		random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, t := range turns {
			s := c.repeated(ctx, t.tool, t.schedule, round)
			g.Samples = append(g.Samples, s)
			if ctx.Err() != nil {
				break
			}
		}
	}
	g.Judge()
	return g
}

// mostRepeats is how often a sample that its own generator doubts is taken again.
const mostRepeats = 2

// repeated takes a sample, again while its generator doubts it.
func (c *Contest) repeated(ctx context.Context, tool Tool, schedule report.Stalls, round int) report.Generated {
	for repeats := 0; ; repeats++ {
		s, err := c.sample(ctx, tool, schedule)
		s.Generator, s.Schedule, s.Round, s.Repeats = tool.Name, schedule.Name(), round, repeats
		if err != nil {
			s.Error = err.Error()
		}
		c.Say(fmt.Sprintf("round %d, %s: %s", round, s.Schedule, s))
		if s.Doubt == "" || repeats == mostRepeats || ctx.Err() != nil {
			return s
		}
	}
}

// sample has one generator load a fresh server.
func (c *Contest) sample(ctx context.Context, tool Tool, schedule report.Stalls) (s report.Generated, err error) {
	serverCPU, clientCPU := fleet.AnyCPU, fleet.AnyCPU
	if len(c.CPUs) > 1 {
		serverCPU, clientCPU = c.CPUs[0], c.CPUs[1]
	}
	args := append(c.Server[1:len(c.Server):len(c.Server)], schedule.Period().String(), schedule.Stall().String())
	server, err := fleet.Spawn(ctx, serverCPU, nil, c.Server[0], args...)
	if err != nil {
		return s, err
	}
	defer server.Stop()
	var begun status
	if err := server.Answer(ctx, patience, &begun); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp(c.Dir, "sample")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	a := Attack{
		URL: "http://" + begun.Addr + "/", Rate: c.Rate, For: c.Settle + c.Window + tail, Dir: dir,
		Workers: max(50, 2*int(schedule.Stall().Seconds()*float64(c.Rate))), File: filepath.Join(dir, "result"),
	}
	command, err := tool.Command(a)
	if err != nil {
		return s, err
	}
	client, err := fleet.Spawn(ctx, clientCPU, nil, tool.Path, command...)
	if err != nil {
		return s, err
	}
	defer client.Stop()
	if err := fleet.Wait(ctx, c.Settle); err != nil {
		return s, err
	}
	used, errUsed := fleet.ProcessCPU(client.PID)
	var first, last status
	if err := errors.Join(errUsed, server.Ask(ctx, "", patience, &first)); err != nil {
		return s, err
	}
	since := time.Now()
	if err := fleet.Wait(ctx, c.Window); err != nil {
		return s, err
	}
	end, errUsed := fleet.ProcessCPU(client.PID)
	if err := errors.Join(errUsed, server.Ask(ctx, "", patience, &last)); err != nil {
		return s, err
	}
	requests := float64(last.Requests - first.Requests)
	if s.Rate = requests / time.Since(since).Seconds(); requests > 0 {
		s.CPU = new(float64((end - used).Nanoseconds()) / 1e3 / requests)
	}
	select {
	case <-client.Ended():
	case <-time.After(a.For + patience):
		return s, fmt.Errorf("%s does not end; it said: %s", tool.Name, client.Said())
	case <-ctx.Done():
		return s, ctx.Err()
	}
	s.P50, s.P99, s.P999, s.Doubt, err = tool.Figures(ctx, a)
	if err != nil {
		return s, fmt.Errorf("%w; %s said: %s", err, tool.Name, client.Said())
	}
	return s, nil
}

const patience = 30 * time.Second
