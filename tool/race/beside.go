package race

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// The second race: connections whose handler sleeps, and what others have of it.
const (
	slowConns  = 4
	slowSleep  = 50 * time.Millisecond
	otherConns = 40
	otherRate  = 2000 // requests a second of all of them
)

// besideSlow is the engine's part in the race beside slow handlers.
func (c *contest) besideSlow(ctx context.Context) (*Beside, error) {
	server, err := startServer(ctx, c.plan.Serve, c.engine, "faults")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	target, err := load.ParseTarget("tcp://"+server.addr, wire.Standard)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("beside %d connections whose handler sleeps %d ms", slowConns, slowSleep.Milliseconds())
	asleep, wake := context.WithCancel(ctx)
	defer wake()
	slept := make(chan error, 1)
	go func() {
		r, err := load.Run(asleep, load.Plan{
			Target: target, Conns: slowConns, Content: fmt.Appendf(nil, "sleep %v", slowSleep), Expect: []byte{},
			For: 4*c.plan.Lap + settleTime, Warmup: -1,
		})
		if err == nil && r.Errors["total"] > 0 {
			err = fmt.Errorf("%d of %d requests that should sleep went wrong", r.Errors["total"], r.Requests)
		}
		slept <- err
	}()
	r, err := c.drive(ctx, server, what, load.Plan{
		Conns: otherConns, Rate: otherRate, Arrivals: load.Poisson, Content: []byte{}, Expect: []byte{},
		MaxLag:   slowSleep / 10,        // a tenth of what is looked for
		MaxStall: slowConns * slowSleep, // one after the other on one loop
	})
	wake()
	if err = errors.Join(err, <-slept); err != nil {
		return nil, err
	}
	// Every request is written at its moment, whatever has become of those before:
	// a connection has room for five seconds of them. So what Latency has more than
	// Service is the generator's lateness and nothing else.
	return &Beside{Engine: c.engine, Rate: r.Rate, P50: r.Service.P50, P99: r.Service.P99, P999: r.Service.P999}, nil
}
