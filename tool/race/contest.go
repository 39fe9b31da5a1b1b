package race

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

const (
	warmConns  = 100 // used before the first memory reading, so that code and tables are loaded
	settleTime = 10 * time.Second
)

// contest is one engine's part in a race.
type contest struct {
	engine string
	plan   Plan
	say    func(what string)
	doubts []string // why figures are not reliable

	// retries is how many more invalid laps the race may repeat. A lap with failed
	// requests is never repeated.
	retries *int
}

// alone runs the engine's part in the race for speed.
func (c *contest) alone(ctx context.Context) (*Entry, error) {
	entry := &Entry{Engine: c.engine}
	server, err := startServer(ctx, c.plan.command(c.engine, "submit"))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	c.say(fmt.Sprintf("memory of %s active connections", figure.Grouped(idleConns)))
	if entry.IdleBytes, err = idleMemory(ctx, server); err != nil {
		c.say(fmt.Sprintf("no figure for memory: %v", err))
	}
	for _, l := range []struct {
		depth int
		lap   *Lap
	}{{1, &entry.PingPong}, {64, &entry.Pipelined}} {
		plan := load.Plan{Conns: 100, Depth: l.depth, Expect: []byte{}, AllowLate: true} // it shares the processors with the server
		what := fmt.Sprintf("100 × %d", l.depth)
		r, err := c.drive(ctx, server, what, plan)
		if err != nil {
			return nil, err
		}
		*l.lap = lapOf(r, server.stats.Used())
		c.lapped(what, *l.lap)
	}
	return entry, nil
}

// drive loads the server for one lap, and again if the first lap was not valid. The figures of one
// that is not valid do not count.
func (c *contest) drive(ctx context.Context, server *ownServer, what string, plan load.Plan) (*load.Result, error) {
	target, err := codec.ParseTarget("tcp://" + server.addr)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	plan.Target, plan.For = target, c.plan.Lap
	plan.WindowOpens, plan.WindowCloses = server.stats.WindowOpens, server.stats.WindowCloses
	if watch := c.plan.Watch; watch != nil {
		plan.Progress = func(now load.Progress) { watch(what, c.engine, now) }
	}
	if serving := c.plan.Serving; serving != nil {
		serving(server.stats)
		defer serving(nil)
	}
	c.say(what)
	r, err := load.Run(ctx, plan)
	if err == nil && !r.Valid && r.Errors["total"] == 0 && ctx.Err() == nil && *c.retries > 0 {
		*c.retries--
		c.say(what + ", again: " + r.InvalidReasons[0])
		r, err = load.Run(ctx, plan)
	}
	if err != nil {
		return nil, err
	}
	for _, reason := range r.InvalidReasons {
		c.doubt(what, reason)
	}
	return r, nil
}

// lapped tells what counts of the load that has ended: what the report has of it.
func (c *contest) lapped(what string, lap Lap) {
	if c.plan.Lapped != nil {
		c.plan.Lapped(what, c.engine, lap)
	}
}

// doubt records why a figure is not reliable.
func (c *contest) doubt(what, reason string) {
	c.doubts = append(c.doubts, fmt.Sprintf("%s, %s: %s", c.engine, what, reason))
}

// idleMemory measures the server's memory per idle connection after use.
func idleMemory(ctx context.Context, server *ownServer) (*float64, error) {
	target, err := codec.ParseTarget("tcp://" + server.addr)
	if err != nil {
		return nil, err
	}
	plan := load.Plan{Target: target, Conns: warmConns, Requests: warmConns, For: settleTime, Content: []byte{}, Expect: []byte{}}
	if _, err := load.Run(ctx, plan); err != nil {
		return nil, err
	}
	plan.Idle = idleConns
	fill := server.stats.WatchIdle(&plan)
	r, err := load.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	if fill(r); r.Idle.ServerBytes == nil {
		err = errors.New("this system does not report the memory of a process")
	}
	return r.Idle.ServerBytes, err
}
