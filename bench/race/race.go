// Package race measures rows: servers in one way of using them, each in a process of its own, one after the
// other, in rounds of a random order.
package race

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
)

// Row is what to compare.
type Row struct {
	Name    string // as in frames/A
	Title   func(cpus []int) string
	Client  string // what sends the load
	Servers []fleet.Entry
	Rounds  int // of a run that is to be quoted
	// Round measures the servers once, in that order.
	Round func(ctx context.Context, g *Ground, order []fleet.Entry) []table.Sample

	scenario *scenario // which hone bench measures, instead of Round
}

// Ground is where rows are measured.
type Ground struct {
	Module  string // the folder of the module bench
	Dir     string // where fleet.Build has put the programs
	Self    string // this program, which is a server that stalls with the argument stalls
	CPUs    []int
	Addr    string    // where the servers of a scenario file listen, one after the other
	Log     io.Writer // for what hone bench says of its progress
	Window  time.Duration
	Warmup  time.Duration
	Quiet   time.Duration // how long connections have been idle when their memory is read
	Retakes int           // samples that may be taken again, in a row
	Say     func(line string)
	retaken int
}

// Small makes a ground for a smoke test, whose figures mean nothing.
func (g *Ground) Small() bool { return g.Window < time.Second }

// Run measures a row. If ctx ends, what there is until then is returned, with the reason why it is not valid.
func (g *Ground) Run(ctx context.Context, row Row, rounds int, seed uint64) *table.Row {
	wanted := row.Rounds
	row.Rounds = rounds
	r := &table.Row{Name: row.Name, Title: row.Title(g.CPUs), Rounds: rounds, WindowMS: g.Window.Milliseconds(), Client: row.Client}
	r.Schema, r.Valid, r.InvalidReasons = table.Schema, true, []string{}
	for _, e := range row.Servers {
		r.Servers = append(r.Servers, e.Server)
	}
	if row.scenario == nil {
		r.Seed = seed
		g.rounds(ctx, row, r)
	} else if err := g.bench(ctx, row, r); err != nil && ctx.Err() == nil {
		r.Doubt("%v", err)
	}
	if ctx.Err() != nil {
		r.Doubt("interrupted; let it run to the end")
	}
	if rounds < wanted || g.Small() {
		r.Doubt("too short to mean anything; make %d rounds, and not --quick ones", wanted)
	}
	return r
}

// rounds measures a row by its Round.
func (g *Ground) rounds(ctx context.Context, row Row, r *table.Row) {
	order := rand.New(rand.NewPCG(r.Seed, 0))
	g.retaken = 0
	for round := range r.Rounds {
		entries := slices.Clone(row.Servers)
		order.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		samples := row.Round(ctx, g, entries)
		if ctx.Err() != nil {
			return
		}
		for _, s := range samples {
			s.Round = round
			r.Samples = append(r.Samples, s)
			if s.Error != "" {
				r.Doubt("%s: %s", s.Server, s.Error)
			}
			g.Say(fmt.Sprintf("%s, round %d of %d: %s", row.Name, round+1, r.Rounds, line(s)))
		}
	}
	r.Retaken = g.retaken
}

// each measures the servers one after the other.
func each(measure func(ctx context.Context, g *Ground, e fleet.Entry) ([]table.Sample, error)) func(context.Context, *Ground, []fleet.Entry) []table.Sample {
	return func(ctx context.Context, g *Ground, order []fleet.Entry) (all []table.Sample) {
		for _, e := range order {
			all = append(all, g.take(ctx, e, measure)...)
		}
		return all
	}
}

// mostOthers is the share of all CPUs that other programs may use; it knows nothing of the result.
func (g *Ground) mostOthers() float64 {
	if g.Small() {
		return 1
	}
	return 0.1
}

// take takes a server's samples, again while other programs use too much and there are retakes left.
func (g *Ground) take(ctx context.Context, e fleet.Entry, measure func(context.Context, *Ground, fleet.Entry) ([]table.Sample, error)) []table.Sample {
	for {
		all, err := measure(ctx, g, e)
		if err != nil {
			all = []table.Sample{{Error: err.Error()}}
		}
		others := 0.0
		for i := range all {
			all[i].Server = e.Name
			others = max(others, all[i].Figures["others"]/float64(max(1, len(g.CPUs))))
		}
		switch {
		case others <= g.mostOthers() || ctx.Err() != nil:
			return all
		case g.retaken >= g.Retakes:
			all[0].Error = fmt.Sprintf("other programs used %.0f %% of the machine, and no more samples may be thrown away; let it do nothing else", 100*others)
			return all
		}
		g.retaken++
	}
}

// watch measures the CPU time of a server while do runs, and how much of a CPU was neither idle nor used by it, this
// program and what has ended of its clients. That is other programs, interrupts beside all of them, and what the host
// took away.
func watch(server int, do func() error) (cpu time.Duration, others float64, err error) {
	var at [2]struct{ server, ours, idle time.Duration }
	began, cpus := time.Now(), 0
	for i := range at {
		var ended syscall.Rusage
		var errs [4]error
		at[i].server, errs[0] = fleet.ProcessCPU(server)
		at[i].idle, cpus, errs[1] = fleet.IdleCPU()
		at[i].ours, errs[2] = fleet.ProcessCPU(os.Getpid())
		errs[3] = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended)
		at[i].ours += at[i].server + time.Duration(ended.Utime.Nano()+ended.Stime.Nano())
		if err = errors.Join(errs[:]...); err == nil && i == 0 {
			err = do()
		}
		if err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(began)
	rest := took*time.Duration(cpus) - (at[1].idle - at[0].idle) - (at[1].ours - at[0].ours)
	return at[1].server - at[0].server, max(0, rest.Seconds()/took.Seconds()), nil
}

// line is a sample for those who watch.
func line(s table.Sample) string {
	text := fmt.Sprintf("%-14s %s", s.Server, s.Case)
	if s.Error != "" {
		return text + " failed: " + s.Error
	}
	for _, name := range slices.Sorted(maps.Keys(s.Figures)) {
		text += fmt.Sprintf(" %s %.4g", name, s.Figures[name])
	}
	return strings.Join(append([]string{text}, s.Doubts...), "; ")
}
