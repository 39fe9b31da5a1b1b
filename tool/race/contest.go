package race

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

const (
	warmConns  = 100 // opened before memory is measured, so that code and tables are there
	settleTime = 10 * time.Second
)

// contest is what one engine goes through in a race.
type contest struct {
	engine string
	plan   Plan
	say    func(what string)
	doubts []string // why figures are not to be believed

	// retries is how many more laps the race may run again because the first
	// was not valid. One in which requests failed is never run again.
	retries *int
}

// alone is the engine's part in the race for speed.
func (c *contest) alone(ctx context.Context) (*Entry, error) {
	entry := &Entry{Engine: c.engine}
	server, err := startServer(ctx, c.plan.Serve, c.engine, "submit")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	c.say(fmt.Sprintf("memory of %s connections just used", figure.Grouped(idleConns)))
	if entry.IdleBytes, err = idleMemory(ctx, server); err != nil {
		c.say(fmt.Sprintf("no figure for memory: %v", err))
	}
	for _, l := range []struct {
		depth int
		lap   *Lap
	}{{1, &entry.PingPong}, {64, &entry.Pipelined}} {
		plan := load.Plan{Conns: 100, Depth: l.depth, Expect: []byte{}}
		r, err := c.drive(ctx, server, fmt.Sprintf("100 × %d", l.depth), plan)
		if err != nil {
			return nil, err
		}
		*l.lap = Lap{Rate: r.Rate, P50: r.Latency.P50, P99: r.Latency.P99}
		if used := server.stats.Used(); used != nil {
			l.lap.ServerCPU = used.CPUPerRequest
		}
	}
	return entry, nil
}

// drive loads the server for one lap, and for a second when the first was not
// valid.
func (c *contest) drive(ctx context.Context, server *ownServer, what string, plan load.Plan) (*load.Result, error) {
	target, err := load.ParseTarget("tcp://"+server.addr, wire.Standard)
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
		c.say(what + ", once more: " + r.InvalidReasons[0])
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

// doubt notes why a figure is not to be believed.
func (c *contest) doubt(what, reason string) {
	c.doubts = append(c.doubts, fmt.Sprintf("%s, %s: %s", c.engine, what, reason))
}

// idleMemory is what each of idleConns connections costs the server once it has
// been used and waits for more; nil where the system does not tell.
func idleMemory(ctx context.Context, server *ownServer) (*float64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	target, err := load.ParseTarget("tcp://"+server.addr, wire.Standard)
	if err != nil {
		return nil, err
	}
	var held load.Guests
	defer held.Leave()
	var resident [2]*int64
	for i, n := range []int{warmConns, warmConns + idleConns} {
		if err := held.UpTo(ctx, load.Plan{Target: target, Content: []byte{}, Expect: []byte{}}, n); err != nil {
			return nil, err
		}
		now, err := server.stats.Read(ctx)
		if err != nil {
			return nil, err
		}
		resident[i] = now.RSSBytes
	}
	if resident[0] == nil || resident[1] == nil {
		return nil, errors.New("this system does not tell how much memory a process has")
	}
	return new(float64(*resident[1]-*resident[0]) / idleConns), nil
}
