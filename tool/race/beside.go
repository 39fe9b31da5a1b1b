package race

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// The second race: some connections have a sleeping handler, and the latency of the
// others is measured.
const (
	slowConns  = 4
	slowSleep  = 50 * time.Millisecond
	otherConns = 40
	otherRate  = 2000 // requests per second of all of them
)

// besideSlow runs the engine's part of the race with slow handlers.
func (c *contest) besideSlow(ctx context.Context) (*Beside, error) {
	server, err := startServer(ctx, c.plan.command(c.engine, "faults"))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	target, err := codec.ParseTarget("tcp://" + server.addr)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("with %d connections whose handler sleeps %d ms", slowConns, slowSleep.Milliseconds())
	asleep, wake := context.WithCancel(ctx)
	defer wake()
	slept := make(chan error, 1)
	go func() {
		r, err := load.Run(asleep, load.Plan{
			Target: target, Conns: slowConns, Content: fmt.Appendf(nil, "sleep %v", slowSleep), Expect: []byte{},
			For: 4*c.plan.Lap + settleTime, Warmup: -1,
		})
		if err == nil && r.Errors["total"] > 0 {
			err = fmt.Errorf("%d of %d requests that should sleep failed", r.Errors["total"], r.Requests)
		}
		slept <- err
	}()
	r, err := c.drive(ctx, server, what, load.Plan{
		Conns: otherConns, Rate: otherRate, Arrivals: load.Poisson, Content: []byte{}, Expect: []byte{},
		MaxLag:   slowSleep / 10,        // a tenth of the effect to detect
		MaxStall: slowConns * slowSleep, // one after the other on one loop
	})
	wake()
	if err = errors.Join(err, <-slept); err != nil {
		return nil, err
	}
	// Each request is written at its scheduled time whether or not earlier ones were
	// answered: a connection has room for five seconds of them. So Latency exceeds
	// Service only by the generator's lateness.
	b := besideOf(c.engine, r)
	c.lapped(what, Lap{Rate: b.Rate, P50: b.P50, P99: b.P99})
	return b, nil
}
