package race

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
)

// WSScenarios compare servers of WebSocket that echo 64 bytes. The last four measure something
// other than the CPU for a message: instructions counts those, in the kernel and outside,
// idle reads memory, push sends to a crowd, and deaf is a crowd of which some never read.
func WSScenarios() []Scenario {
	return []Scenario{
		{Name: "100x1", Ask: web.Socket, Conns: 100, Depth: 1, Pinned: true, Loops: 1},
		{Name: "2000x1", Ask: web.Socket, Conns: 2000, Depth: 1, Pinned: true, Loops: 1},
		{Name: "100x16", Ask: web.Socket, Conns: 100, Depth: 16, Pinned: true, Loops: 1},
		{Name: "instructions", Ask: web.Socket, Conns: 100, Depth: 1, Pinned: true, Loops: 1, Instructions: true, Rounds: steadyRounds},
		{Name: "idle", Ask: web.Socket, Levels: []int{15_000}, Rounds: steadyRounds},
		{Name: "push", Ask: web.Socket, Conns: 100, Depth: 8, Rate: 2000, Loops: 2, Crowd: 15_000, Rounds: steadyRounds},
		{Name: "deaf", Ask: web.Socket, Loops: 2, Crowd: 14_000, Deaf: 1000, Rounds: 1},
	}
}

const (
	pushes     = 30                     // whose CPU is measured
	gatherTime = 20 * time.Second       // for all of a crowd to have a push
	deafTime   = 90 * time.Second       // for who is deaf to be closed
	deafPause  = 100 * time.Millisecond // between pushes
)

// crowd measures a server that pushes.
func (r *Race) crowd(ctx context.Context, sc Scenario, e fleet.Entry, s *report.Sample) error {
	server, err := fleet.Start(ctx, r.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: sc.Loops})
	if err != nil {
		return err
	}
	defer server.Stop()
	// Who reads what is pushed gives way to who asks, and to the server.
	listeners, err := fleet.Spawn(ctx, fleet.AnyCPU, clientEnv(1), "nice", append([]string{"-n", "19"}, r.Client...)...)
	if err != nil {
		return err
	}
	defer listeners.Stop()
	if _, err := ask(ctx, listeners, drive.Order{Addr: server.Addr, Ask: sc.Ask, Crowd: sc.Crowd, Deaf: sc.Deaf}, slack); err != nil {
		return err
	}
	s.Push = new(report.Push)
	if sc.Deaf > 0 {
		return r.deaf(ctx, sc, server, listeners, s.Push)
	}
	if err := r.pushes(ctx, sc, server, listeners, s.Push); err != nil {
		return err
	}
	return r.beside(ctx, sc, server, listeners, s)
}

// push has everybody that reads sent a message, and read it.
func push(ctx context.Context, sc Scenario, server *fleet.Server, listeners *child.Child, line string) error {
	if err := server.Push(ctx, line); err != nil {
		return err
	}
	size := service.PushedSize
	if line == service.PushLong {
		size = service.LongPush
	}
	order := drive.Order{Addr: server.Addr, Ask: sc.Ask, Gather: &drive.Gather{Message: service.Message(size), Times: 1, Limit: gatherTime}}
	_, err := ask(ctx, listeners, order, gatherTime+slack)
	return err
}

// pushes measures what a push costs for each that it goes to.
func (r *Race) pushes(ctx context.Context, sc Scenario, server *fleet.Server, listeners *child.Child, p *report.Push) error {
	if err := push(ctx, sc, server, listeners, service.Push); err != nil { // what grows with the first is not counted
		return err
	}
	var all, user [2]time.Duration
	var errs [4]error
	times := pushes
	if r.Window < time.Second {
		times = 3
	}
	for i := range 2 {
		all[i], errs[2*i] = fleet.ProcessCPU(server.PID)
		user[i], errs[2*i+1] = fleet.UserCPU(server.PID)
		for n := 0; i == 0 && n < times; n++ {
			if err := push(ctx, sc, server, listeners, service.Push); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	each := func(d time.Duration) *float64 {
		v := float64(d.Nanoseconds()) / 1e3 / float64(times*sc.Crowd)
		return &v
	}
	p.CPU, p.User = each(all[1]-all[0]), each(user[1]-user[0])
	peak, err := fleet.PeakOf(server.PID)
	p.Peak = peak
	return err
}

// beside measures the response times of others without pushes, and during one after the other.
func (r *Race) beside(ctx context.Context, sc Scenario, server *fleet.Server, listeners *child.Child, s *report.Sample) error {
	client, err := r.client(ctx, fleet.AnyCPU, 1)
	if err != nil {
		return err
	}
	defer client.Stop()
	order := drive.Order{Addr: server.Addr, Ask: sc.Ask, Load: &drive.Load{
		PID: server.PID, Conns: sc.Conns, Depth: sc.Depth, Rate: sc.Rate, Warmup: r.Warmup, Window: 2 * r.Window,
	}}
	alone, err := ask(ctx, client, order, r.Warmup+2*r.Window+slack)
	if err != nil {
		return err
	}
	s.Push.Alone = alone.Load.P99
	type outcome struct {
		answer drive.Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := ask(ctx, client, order, r.Warmup+2*r.Window+slack)
		done <- outcome{answer, err}
	}()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return o.err
			}
			s.Push.During = o.answer.Load.P99
			return nil
		default:
		}
		if err := push(ctx, sc, server, listeners, service.Push); err != nil {
			<-done
			return err
		}
		s.Push.Times++
	}
}

// deaf pushes until the server has closed who never reads.
func (r *Race) deaf(ctx context.Context, sc Scenario, server *fleet.Server, listeners *child.Child, p *report.Push) error {
	before, err := fleet.MemoryOf(server.PID)
	if err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < deafTime {
		if err := push(ctx, sc, server, listeners, service.PushLong); err != nil {
			return err
		}
		p.Times++
		n, err := server.Count(ctx)
		if err != nil {
			return err
		}
		p.Closed = sc.Crowd + sc.Deaf - n
		if p.Closed >= sc.Deaf {
			break
		}
		if err := fleet.Wait(ctx, deafPause); err != nil {
			return err
		}
	}
	took := time.Since(began).Seconds()
	p.ClosedAfter = &took
	peak, err := fleet.PeakOf(server.PID)
	p.Peak, p.Grown = peak, peak-before.Resident
	return err
}

// instructions counts the instructions of a load's messages, the warm-up included.
func (r *Race) instructions(ctx context.Context, server *fleet.Server, cpu int, order drive.Order, s *report.Sample) error {
	file := filepath.Join(r.Dir, "instructions")
	client, err := r.counter(ctx, server, cpu, file, "instructions:u,instructions:k")
	if err != nil {
		return err
	}
	answer, err := ask(ctx, client, order, r.Warmup+r.Window+slack)
	client.Stop()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	counts, err := perfCounts(text)
	if err != nil || len(counts) != 2 || answer.Load.Answered == 0 {
		return fmt.Errorf("no instructions are counted for %d messages: %v, %w", answer.Load.Answered, counts, err)
	}
	for i, to := range []**float64{&s.UserInstructions, &s.KernelInstructions} {
		each := counts[i] / float64(answer.Load.Answered)
		*to = &each
	}
	s.Requests, s.Answered = answer.Load.Requests, answer.Load.Answered
	return nil
}
