package race

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
)

// The sizes of the row over HTTP/2.
const (
	http2Conns    = 100
	http2Requests = 5000
	http2Idle     = 1000
)

// http2Row has 100 connections of net/http's client, in this process, with one and with ten streams, and then 1,000 that
// are idle.
func http2Row() Row {
	servers := fleet.HTTP2()
	for i := range servers {
		servers[i] = servers[i].Alone()
	}
	return Row{
		Name: "http/HTTP2", Client: "net/http", Servers: servers, Rounds: steadyRounds,
		Title: func([]int) string {
			return fmt.Sprintf("%d connections over TLS with 1 and with 10 streams, and %d idle ones, asking for hello, not pinned", http2Conns, http2Idle)
		},
		Round: each(speakHTTP2),
	}
}

func speakHTTP2(ctx context.Context, g *Ground, e fleet.Entry) (samples []table.Sample, err error) {
	requests, idle := http2Requests, http2Idle
	if g.Small() {
		requests, idle = http2Conns*10, http2Conns
	}
	server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var conns []*http.ClientConn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	open := func(n int) error {
		for len(conns) < n {
			c, err := dialHTTP2(ctx, server.Addr)
			if err != nil {
				return err
			}
			if conns = append(conns, c); err == nil {
				err = askHTTP2(ctx, c, 1)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := open(http2Conns); err != nil {
		return nil, err
	}
	for _, streams := range []int{1, 10} {
		cpu, others, err := watch(server.PID, func() error {
			var all errgroup.Group
			for _, c := range conns {
				for range streams {
					all.Go(func() error { return askHTTP2(ctx, c, requests/http2Conns/streams) })
				}
			}
			return all.Wait()
		})
		if err != nil {
			return nil, err
		}
		samples = append(samples, table.Sample{Case: fmt.Sprintf("%d streams", streams), Figures: map[string]float64{"cpu_us": float64(cpu) / 1e3 / float64(requests), "others": others}})
	}
	before, err := server.Collect(ctx, e)
	if err == nil {
		err = open(http2Conns + idle)
	}
	if err == nil {
		err = fleet.Wait(ctx, g.Quiet)
	}
	if err != nil {
		return nil, err
	}
	after, err := server.Collect(ctx, e)
	return append(samples, table.Sample{Case: "idle", Figures: map[string]float64{"per_conn_bytes": float64(after.Anonymous-before.Anonymous) / float64(idle)}}), err
}

func dialHTTP2(ctx context.Context, addr string) (*http.ClientConn, error) {
	t := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}} // the certificate is of today
		return d.DialContext(ctx, network, addr)
	}}
	t.Protocols.SetHTTP2(true)
	return t.NewClientConn(ctx, "https", addr)
}

// askHTTP2 makes n requests, one after the other.
func askHTTP2(ctx context.Context, c *http.ClientConn, n int) error {
	for range n {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://localhost"+web.HelloPath, nil)
		if err != nil {
			return err
		}
		answer, err := c.RoundTrip(r)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if want, _ := web.Body(web.HelloPath); err != nil || string(body) != want {
			return fmt.Errorf("the server answers %.40q, %w", body, err)
		}
	}
	return nil
}
