package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/probe"
)

const (
	startTime  = 20 * time.Second // for a stage to become ready
	answerTime = 30 * time.Second // for an order, in addition to the time that it asks for
)

// process is a stage in a separate process.
type process struct {
	name string
	addr string
	*child.Child
}

// start starts a stage. Its process ends with stop, with ctx, and with this process.
func (b *bench) start(ctx context.Context, name string, env ...string) (*process, error) {
	command := exec.CommandContext(ctx, b.stage[0], append(b.stage[1:len(b.stage):len(b.stage)], name)...)
	command.Env = append(os.Environ(), env...)
	c, err := child.Start(command, child.Options{})
	if err != nil {
		return nil, err
	}
	p := &process{name: name, Child: c}
	var first ready
	if err = p.Answer(ctx, startTime, &first); err == nil && first.Error != "" {
		err = errors.New(first.Error)
	}
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: cannot start it in a separate process: %w", name, err)
	}
	p.addr = first.Addr
	return p, nil
}

// startAll starts several stages; end stops them.
func (b *bench) startAll(ctx context.Context, names []string) (all []*process, end func(), err error) {
	end = func() {
		for _, p := range all {
			p.Stop()
		}
	}
	for _, name := range names {
		p, err := b.start(ctx, name)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, p)
	}
	return all, end, nil
}

// order sends an order to the stage and waits answerTime longer than the order takes.
func (p *process) order(ctx context.Context, order string, takes time.Duration, answer any) error {
	var line json.RawMessage
	if err := p.Ask(ctx, order, takes+answerTime, &line); err != nil {
		return err
	}
	var end done
	if err := json.Unmarshal(line, &end); err != nil {
		return err
	}
	if end.Error != "" {
		return errors.New(end.Error)
	}
	return json.Unmarshal(line, answer)
}

// timeAll times cases alternately, round by round, each round starting with another case.
func (b *bench) timeAll(ctx context.Context, p *process, cases []string, rounds int, d time.Duration) (map[string]spread, error) {
	all := make(map[string]spread, len(cases))
	for round := range rounds {
		b.say("round %d of %d", round+1, rounds)
		for i := range cases {
			name := cases[(i+round)%len(cases)]
			var t timing
			if err := p.order(ctx, fmt.Sprintf("time %s %v", name, d), d, &t); err != nil {
				return nil, err
			}
			all[name] = spread{append(all[name].rounds, t.NS)}
		}
	}
	return all, nil
}

// lap is the result of one load on one server: requests per second, and the server's CPU
// time per request in µs, which only Linux reports.
type lap struct{ rate, cpu spread }

// mostLaps bounds how often an invalid lap is repeated, each time for four times as long:
// where other programs use the CPUs, a short lap may see no answer at all.
const mostLaps = 4

// drive loads a server, and again if the first figures are not valid.
func (b *bench) drive(ctx context.Context, p *process, plan load.Plan) (rate, cpu *float64, err error) {
	for try := 1; ; try++ {
		var uses [2]child.Use
		var blind [2]error
		plan.WindowOpens = func() { uses[0], blind[0] = p.Used() }
		plan.WindowCloses = func() { uses[1], blind[1] = p.Used() }
		r, err := load.Run(ctx, plan)
		if err != nil || ctx.Err() != nil {
			return nil, nil, errors.Join(err, ctx.Err())
		}
		if n := r.Errors["total"]; n > 0 {
			return nil, nil, fmt.Errorf("%s: %d of %d requests failed: %v", p.name, n, r.Requests, r.Errors)
		}
		none := r.Rate == nil || *r.Rate == 0
		if none && try < mostLaps {
			plan.For *= 4
			continue
		}
		if none {
			return nil, nil, fmt.Errorf("%s answered nothing in %v; stop other work on this machine", p.name, plan.For)
		}
		if !r.Valid && try == 1 && !b.quick {
			b.say("%s again: %s", p.name, r.InvalidReasons[0])
			continue
		}
		for _, reason := range r.InvalidReasons {
			b.doubt("%s: %s", p.name, reason)
		}
		if errors.Join(blind[:]...) == nil {
			cpu = new(float64((uses[1].CPU - uses[0].CPU).Nanoseconds()) / 1000 / (*r.Rate * r.Window.Seconds()))
		}
		return r.Rate, cpu, nil
	}
}

// driveAll loads servers alternately, round by round.
func (b *bench) driveAll(ctx context.Context, all []*process, rounds int, what string, plan func(*process) (load.Plan, error)) (map[string]lap, error) {
	laps := make(map[string]lap, len(all))
	for round := range rounds {
		b.say("%s, round %d of %d", what, round+1, rounds)
		for i := range all {
			p := all[(i+round)%len(all)]
			wanted, err := plan(p)
			if err != nil {
				return nil, err
			}
			rate, cpu, err := b.drive(ctx, p, wanted)
			if err != nil {
				return nil, err
			}
			l := laps[p.name]
			l.rate.rounds = append(l.rate.rounds, *rate)
			if cpu != nil {
				l.cpu.rounds = append(l.cpu.rounds, *cpu)
			}
			laps[p.name] = l
		}
	}
	return laps, nil
}

// profileOf shows where a stage spent CPU time and memory.
type profileOf struct{ cpu, allocs *probe.View }

// profile profiles a stage while loaded runs, or while it runs a case itself.
func (b *bench) profile(ctx context.Context, p *process, d time.Duration, own string, loaded func(context.Context) error) (of profileOf, err error) {
	folder, err := child.Folder("hone-lab")
	if err != nil {
		return of, err
	}
	defer os.RemoveAll(folder)
	b.say("profile of %s", p.name)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	busy := make(chan error, 1)
	go func() { busy <- loaded(ctx) }()
	err = p.order(ctx, fmt.Sprintf("profile %s %v %s", folder, d, own), d, &done{})
	cancel()
	if err = errors.Join(err, <-busy); err != nil {
		return of, err
	}
	if of.cpu, err = viewOf(folder, probe.CPU); err == nil {
		of.allocs, err = viewOf(folder, probe.Allocs)
	}
	return of, err
}

func viewOf(folder string, kind probe.Kind) (*probe.View, error) {
	data, err := os.ReadFile(filepath.Join(folder, string(kind)))
	if err != nil {
		return nil, err
	}
	parsed, err := probe.Parse(data, kind)
	if err != nil {
		return nil, err
	}
	return probe.NewView(parsed, nil)
}

// nobody is the load of a stage that loads itself.
func nobody(context.Context) error { return nil }

// wait waits for d, or for the end of ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
