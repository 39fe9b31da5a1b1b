// Package race compares servers: each in a process of its own, one after the
// other, in rounds of a random order, with the same client for all.
package race

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/tool/child"
)

// Race is what to compare and how. Every field is required.
type Race struct {
	Dir       string   // where fleet.Build has put the programs
	Client    []string // the command that runs drive.Obey
	Schema    string   // of what Run returns
	Servers   []fleet.Entry
	Scenarios []Scenario
	Rounds    int
	Window    time.Duration
	Warmup    time.Duration
	Quiet     time.Duration // how long connections have been idle when their memory is read
	Limit     time.Duration // for all of it
	Retakes   int           // samples that may be taken again, in all
	Seed      uint64        // of the order
	CPUs      []int
	Say       func(line string)
}

// Run measures. When ctx or the limit ends it early, what there is until then is
// returned, with the reason why it is not valid.
func (r *Race) Run(ctx context.Context) *report.Peers {
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	p := &report.Peers{}
	p.Schema, p.Servers, p.InvalidReasons = r.Schema, r.Servers, []string{}
	p.Settings = report.Settings{Rounds: r.Rounds, WindowMS: r.Window.Milliseconds(), WarmupMS: r.Warmup.Milliseconds(), Seed: r.Seed, Client: drive.Client}
	jobs := r.jobs()
	for _, sc := range r.Scenarios {
		p.Scenarios = append(p.Scenarios, report.Scenario{Name: sc.Name, Title: sc.title(r.CPUs)})
		if sc.Wrk {
			p.Settings.Wrk = wrkVersion(ctx)
		}
	}
	order := rand.New(rand.NewPCG(r.Seed, 0))
	pace := pace{start: time.Now(), limit: r.Limit, total: r.Rounds * len(jobs)}
	for round := range r.Rounds {
		for i, at := range inOrder(jobs, order) {
			if most := jobs[at].scenario.Rounds; most > 0 && round >= most {
				continue
			}
			pace.done = round*len(jobs) + i
			samples := r.take(limited, jobs[at], round, pace, &p.Settings)
			if limited.Err() != nil {
				break
			}
			p.Samples = append(p.Samples, samples...)
			for _, s := range samples {
				r.Say(fmt.Sprintf("round %d/%d, %d/%d: %s", round+1, r.Rounds, i+1, len(jobs), line(s)))
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		p.InvalidReasons = append(p.InvalidReasons, "interrupted; let it run to the end")
	case limited.Err() != nil:
		p.InvalidReasons = append(p.InvalidReasons, fmt.Sprintf("not done within %v; choose fewer servers or scenarios", r.Limit))
	}
	for _, s := range p.Samples {
		if s.Error != "" {
			p.InvalidReasons = append(p.InvalidReasons, fmt.Sprintf("%s in %s: %s", s.Server, s.Scenario, s.Error))
		}
	}
	p.Valid = len(p.InvalidReasons) == 0
	return p
}

// inOrder is a random order of the jobs in which those of one scenario follow each other:
// figures of one round are compared, so they are best made within moments.
func inOrder(jobs []job, random *rand.Rand) []int {
	order := random.Perm(len(jobs))
	turn := make(map[string]int)
	for i, at := range order {
		if name := jobs[at].scenario.Name; turn[name] == 0 {
			turn[name] = i + 1
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn[jobs[a].scenario.Name] - turn[jobs[b].scenario.Name] })
	return order
}

// job is some servers in one scenario: one server, except where nothing but
// memory is read, which others do not disturb.
type job struct {
	scenario Scenario
	servers  []fleet.Entry
}

// together is how many servers may hold idle connections at the same time.
const together = 5

func (r *Race) jobs() []job {
	var jobs []job
	for _, sc := range r.Scenarios {
		size := 1
		if len(sc.Levels) > 0 {
			size = together
		}
		for group := range slices.Chunk(r.taking(sc), size) {
			jobs = append(jobs, job{sc, group})
		}
	}
	return jobs
}

// take takes a job's samples, all over again while the rest of the machine is too
// busy, there are retakes left and the run is ahead of its time.
func (r *Race) take(ctx context.Context, j job, round int, pace pace, settings *report.Settings) []report.Sample {
	if len(j.scenario.Levels) > 0 {
		return r.idle(ctx, j, round)
	}
	for again := 0; ; again++ {
		s := report.Sample{Scenario: j.scenario.Name, Server: j.servers[0].Name, Round: round}
		err := r.measure(ctx, j.scenario, j.servers[0], &s)
		if err != nil {
			s.Error = err.Error()
		}
		if !disturbed(s) || again == mostAgain || settings.Retaken >= r.Retakes || !pace.ahead(time.Now()) || ctx.Err() != nil {
			return []report.Sample{s}
		}
		settings.Retaken++
	}
}

// pace is how far a run has come.
type pace struct {
	start       time.Time
	limit       time.Duration
	done, total int // jobs
}

// ahead reports whether the jobs that are left may take longer than those that
// are done, a tenth of the limit kept in reserve.
func (p pace) ahead(now time.Time) bool {
	passed := now.Sub(p.start).Seconds() / p.limit.Seconds()
	return passed < 0.9*float64(p.done+1)/float64(p.total)
}

const (
	mostAgain   = 2
	disturbedAt = 0.6 // of one CPU, what others use; it knows nothing of the result
)

func disturbed(s report.Sample) bool { return s.Others != nil && *s.Others > disturbedAt }

// measure is a new server and a new client for one window.
func (r *Race) measure(ctx context.Context, sc Scenario, e fleet.Entry, s *report.Sample) error {
	if sc.Crowd > 0 {
		return r.crowd(ctx, sc, e, s)
	}
	how, cpu, procs := sc.placed(r.CPUs)
	server, err := fleet.Start(ctx, r.Dir, e, how)
	if err != nil {
		return err
	}
	defer server.Stop()
	order := drive.Order{Addr: server.Addr, Ask: sc.Ask, Open: sc.Idle, Load: &drive.Load{
		PID: server.PID, Conns: sc.Conns, Depth: sc.Depth, Rate: sc.Rate, Sleepers: sc.Sleepers,
		Warmup: r.Warmup, Window: r.Window,
	}}
	switch {
	case sc.Wrk:
		return r.wrk(ctx, sc, server, cpu, s)
	case sc.Calls:
		return r.calls(ctx, server, cpu, order, s)
	case sc.Instructions:
		return r.instructions(ctx, server, cpu, order, s)
	}
	client, err := r.client(ctx, cpu, procs)
	if err != nil {
		return err
	}
	defer client.Stop()
	if sc.Idle == 0 {
		answer, err := ask(ctx, client, order, r.Warmup+r.Window+slack)
		if err != nil {
			return err
		}
		s.Figure = *answer.Load
		return nil
	}
	before, err := r.warm(ctx, sc, server, client)
	if err != nil {
		return err
	}
	answer, err := ask(ctx, client, order, r.Warmup+r.Window+slack)
	if err != nil {
		return err
	}
	s.Figure = *answer.Load
	return r.read(ctx, server, before, answer.Open, s)
}

const (
	slack     = 2 * time.Minute // for a client to open its connections and to settle
	warmConns = 10              // before memory is read for the first time, so that what is there once is not counted
)

// warm has a few connections served and reads what memory that takes.
func (r *Race) warm(ctx context.Context, sc Scenario, server *fleet.Server, client *child.Child) (fleet.Memory, error) {
	if _, err := ask(ctx, client, drive.Order{Addr: server.Addr, Ask: sc.Ask, Open: warmConns}, slack); err != nil {
		return fleet.Memory{}, err
	}
	return server.Collect(ctx)
}

// read reads what memory each of open connections takes.
func (r *Race) read(ctx context.Context, server *fleet.Server, before fleet.Memory, open int, s *report.Sample) error {
	after, err := server.Collect(ctx)
	if err != nil {
		return err
	}
	each := float64(after.Anonymous-before.Anonymous) / float64(open-warmConns)
	s.PerConn, s.Resident = &each, &after.Resident
	return nil
}

// idle reads the memory of some servers at the same time.
func (r *Race) idle(ctx context.Context, j job, round int) []report.Sample {
	done := make(chan []report.Sample)
	for _, e := range j.servers {
		go func() { done <- r.levels(ctx, j.scenario, e, round) }()
	}
	var all []report.Sample
	for range j.servers {
		all = append(all, <-done...)
	}
	slices.SortStableFunc(all, func(a, b report.Sample) int { return strings.Compare(a.Server, b.Server) })
	return all
}

// levels reads one server's memory with more and more idle connections.
func (r *Race) levels(ctx context.Context, sc Scenario, e fleet.Entry, round int) []report.Sample {
	var samples []report.Sample
	err := func() error {
		server, err := fleet.Start(ctx, r.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 1})
		if err != nil {
			return err
		}
		defer server.Stop()
		client, err := r.client(ctx, fleet.AnyCPU, 1)
		if err != nil {
			return err
		}
		defer client.Stop()
		before, err := r.warm(ctx, sc, server, client)
		if err != nil {
			return err
		}
		for _, level := range sc.Levels {
			if _, err := ask(ctx, client, drive.Order{Addr: server.Addr, Ask: sc.Ask, Open: level}, slack); err != nil {
				return err
			}
			if err := fleet.Wait(ctx, r.Quiet); err != nil {
				return err
			}
			s := report.Sample{Scenario: sc.levelName(level), Server: e.Name, Round: round}
			if err := r.read(ctx, server, before, level, &s); err != nil {
				return err
			}
			samples = append(samples, s)
		}
		return nil
	}()
	if err != nil {
		samples = append(samples, report.Sample{Scenario: sc.Name, Server: e.Name, Round: round, Error: err.Error()})
	}
	return samples
}

// client starts a client. Its collector may run rarely: its heap is small, and
// what it collects is connections that have gone. Its loops never yield, and need
// no signals that ask them to.
func (r *Race) client(ctx context.Context, cpu, procs int) (*child.Child, error) {
	return fleet.Spawn(ctx, cpu, clientEnv(procs), r.Client[0], r.Client[1:]...)
}

func clientEnv(procs int) []string {
	return []string{fmt.Sprintf("GOMAXPROCS=%d", procs), "GOGC=400", "GODEBUG=asyncpreemptoff=1"}
}

// ask gives a client an order.
func ask(ctx context.Context, client *child.Child, o drive.Order, limit time.Duration) (answer drive.Report, err error) {
	text, err := json.Marshal(o)
	if err == nil {
		err = client.Ask(ctx, string(text), limit, &answer)
	}
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return answer, err
}

// line is a sample for those who watch.
func line(s report.Sample) string {
	text := fmt.Sprintf("%-10s %-20s", s.Scenario, s.Server)
	if s.Error != "" {
		return text + " failed: " + s.Error
	}
	for _, f := range []struct {
		format string
		value  *float64
	}{
		{" %6.3f µs/request", s.CPU}, {" %.2f calls/request", s.Calls}, {" %8.0f requests/s", s.Rate}, {", p99 %.0f µs", s.P99},
		{", client %.3f µs/request", s.ClientCPU}, {", busy %.2f", s.ServerBusy}, {" and %.2f", s.Busy}, {", others %.2f", s.Others}, {" %.0f B/connection", s.PerConn},
	} {
		if f.value != nil {
			text += fmt.Sprintf(f.format, *f.value)
		}
	}
	if p := s.Push; p != nil {
		text += p.String()
	}
	if s.UserInstructions != nil && s.KernelInstructions != nil {
		text += fmt.Sprintf(" %.0f instructions and %.0f of the kernel's", *s.UserInstructions, *s.KernelInstructions)
	}
	for _, d := range s.Doubts {
		text += "; " + d
	}
	return text
}
