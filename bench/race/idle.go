package race

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// warmConns are served before memory is read for the first time, so that what is there once is not counted.
const warmConns = 10

// idleRow has hone load, in this process, open connections, use each once and keep it, and reads the server's memory for
// each when all have been idle for a while.
func idleRow(name string, servers []fleet.Entry, scheme string, conns int) Row {
	measure := func(ctx context.Context, g *Ground, e fleet.Entry) ([]table.Sample, error) {
		server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 1, TLS: scheme == secure})
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		conns := conns
		if g.Small() {
			conns = 1000
		}
		before, err := memory(ctx, time.Second, server, e, scheme, warmConns)
		if err != nil {
			return nil, err
		}
		after, err := memory(ctx, g.Quiet, server, e, scheme, conns)
		if err != nil {
			return nil, err
		}
		return []table.Sample{{Case: fmt.Sprintf("%dk", conns/1000), Figures: map[string]float64{
			"per_conn_bytes": float64(after.Anonymous-before.Anonymous) / float64(conns),
		}}}, nil
	}
	return Row{
		Name: name, Client: "hone load", Servers: servers, Rounds: idleRounds, Round: each(measure),
		Title: func([]int) string {
			return fmt.Sprintf("memory of %d idle connections (%s) that were used once, for each", conns, scheme)
		},
	}
}

// The schemes of what servers are asked.
const (
	overTCP = "tcp"
	plain   = "http"
	secure  = "https"
	socket  = "ws"
	lent    = "http with a Trailer, which http1 leaves to net/http"
)

// target is what the tool calls a server at an address, asked for path.
func target(scheme, addr, path string) codec.Target {
	switch scheme {
	case socket:
		return codec.WebSocket{URL: socket + "://" + addr + web.EchoPath}
	case overTCP:
		return codec.Frames{Address: addr}
	case lent:
		return codec.HTTP{URL: plain + "://" + addr + path, Header: map[string][]string{"Trailer": {"X-Sum"}}}
	default:
		return codec.HTTP{URL: scheme + "://" + addr + path, TLS: &tls.Config{InsecureSkipVerify: true}} // the certificate is of today
	}
}

// memory is the server's with so many connections that have been idle for so long, when it has given back what it can.
func memory(ctx context.Context, idle time.Duration, server *fleet.Server, e fleet.Entry, scheme string, conns int) (m fleet.Memory, err error) {
	plan := load.Plan{Target: target(scheme, server.Addr, web.HelloPath), Idle: conns, Warmup: -1, For: idle}
	var errRead error
	plan.WindowCloses = func() { m, errRead = server.Collect(ctx, e) }
	r, err := load.Run(ctx, plan)
	switch {
	case err != nil:
		return m, err
	case errRead != nil:
		return m, errRead
	case r.Idle == nil || r.Idle.Open != int64(conns):
		return m, fmt.Errorf("not all of %d connections stay open: %+v", conns, r.Idle)
	}
	return m, nil
}
