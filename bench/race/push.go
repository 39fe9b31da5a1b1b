package race

import (
	"context"
	"errors"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
)

const (
	pushes     = 30               // whose CPU is measured
	gatherTime = 20 * time.Second // for all of a crowd to have a push
)

// push measures a server that pushes to a crowd: what that costs for each recipient, the memory of one, and over WebSocket
// the response times of others without pushes, and during one after the other.
func (s scenario) push(ctx context.Context, g *Ground, e fleet.Entry) ([]table.Sample, error) {
	times := pushes
	if g.Small() {
		s.crowd, times = 1000, 3
	}
	server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: s.loops})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	// Those who read what is pushed give way to those who ask, and to the server.
	listeners, err := g.client(ctx, fleet.AnyCPU, 1, "nice", "-n", "19")
	if err != nil {
		return nil, err
	}
	defer listeners.Stop()
	push := func() error { return s.pushOnce(ctx, server, listeners) }
	var memory [2]fleet.Memory
	for i, crowd := range []int{warmConns, s.crowd} {
		if _, err := ask(ctx, listeners, drive.Order{Addr: server.Addr, Ask: s.ask, Crowd: crowd}, 0); err != nil {
			return nil, err
		}
		err := push() // what grows with the first is not counted
		if err == nil {
			memory[i], err = server.Collect(ctx, e)
		}
		if err != nil {
			return nil, err
		}
	}
	cpu, others, err := watch(server.PID, []*child.Child{listeners}, func() (err error) {
		for n := 0; n < times && err == nil; n++ {
			err = push()
		}
		return err
	})
	peak, errPeak := fleet.PeakOf(server.PID)
	if err := errors.Join(err, errPeak); err != nil {
		return nil, err
	}
	sample := table.Sample{Figures: map[string]float64{
		"cpu_us": float64(cpu) / 1e3 / float64(times*s.crowd), "peak_bytes": float64(peak), "others": others,
		"per_conn_bytes": float64(memory[1].Anonymous-memory[0].Anonymous) / float64(s.crowd-warmConns),
	}}
	if s.ask == web.Stream {
		return []table.Sample{sample}, nil
	}
	client, err := g.client(ctx, fleet.AnyCPU, 1)
	if err != nil {
		return nil, err
	}
	defer client.Stop()
	for _, of := range []struct {
		name  string
		while func() error
	}{{"alone_p99_us", func() error { return nil }}, {"during_p99_us", push}} {
		answer, err := s.beside(ctx, g, server, client, of.while)
		if err != nil {
			return nil, err
		}
		if p99, has := answer.Load.Figures["p99_us"]; has {
			sample.Figures[of.name] = p99
		}
		sample.Doubts = append(sample.Doubts, answer.Load.Doubts...)
	}
	return []table.Sample{sample}, nil
}

// pushOnce has everybody sent a message, and read it.
func (s scenario) pushOnce(ctx context.Context, server *fleet.Server, listeners *child.Child) error {
	if err := server.Push(ctx); err != nil {
		return err
	}
	_, err := ask(ctx, listeners, drive.Order{Addr: server.Addr, Ask: s.ask, Gather: &drive.Gather{Message: service.Message(), Limit: gatherTime}}, gatherTime)
	return err
}

// beside loads the server, and calls while one time after the other until the load is over.
func (s scenario) beside(ctx context.Context, g *Ground, server *fleet.Server, client *child.Child, while func() error) (answer drive.Report, err error) {
	order, done := s.order(g, server), make(chan error, 1)
	order.Load.Window *= 2
	go func() {
		var errAsk error
		answer, errAsk = ask(ctx, client, order, g.Warmup+order.Load.Window)
		done <- errAsk
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for err == nil {
		select {
		case err := <-done:
			return answer, err
		case <-tick.C:
			err = while()
		}
	}
	<-done
	return answer, err
}
