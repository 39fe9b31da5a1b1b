package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/web"
)

// TestHTTPServers asks the same of every server of HTTP.
func TestHTTPServers(t *testing.T) {
	dir, entries := built(t, fleet.HTTP())
	for _, e := range entries {
		for _, secure := range []bool{false, true} {
			t.Run(e.Name+map[bool]string{true: "/TLS"}[secure], func(t *testing.T) {
				server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2, TLS: secure})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Stop()
				if !e.Ours() && e.Version == "" {
					t.Error("its version is not known")
				}
				for _, q := range web.Questions() {
					if q.TLS != secure {
						continue
					}
					if !secure {
						asksTwice(t, dial(t, server.Addr), q)
						isAsked(t, server, q, true)
					}
					isAsked(t, server, q, false)
				}
			})
		}
	}
}

// asksTwice on one connection.
func asksTwice(t *testing.T, conn net.Conn, q web.Question) {
	for i := range 2 {
		if err := drive.ExchangeHTTP(conn, q); err != nil {
			t.Errorf("%s, request %d: %v", q.Name, i+1, err)
		}
	}
}

// isAsked has a client do what the comparisons have it do, in little.
func isAsked(t *testing.T, server *fleet.Server, q web.Question, once bool) {
	depth := 4
	if q.Name == "chunked" || once {
		depth = 1 // nobody pipelines uploads
	}
	isLoadedWith(t, drive.Order{Addr: server.Addr, Ask: q.Name, Open: 5,
		Load: &drive.Load{PID: server.PID, Conns: 3, Depth: depth, Once: once, Window: 50 * time.Millisecond, Warmup: 10 * time.Millisecond}})
}

// isLoadedWith has a client carry an order out.
func isLoadedWith(t *testing.T, o drive.Order) {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var answer bytes.Buffer
	if err := drive.Obey(ctx, strings.NewReader(string(order)), &answer); err != nil {
		t.Fatal(err)
	}
	var r drive.Report
	if err := json.Unmarshal(answer.Bytes(), &r); err != nil || r.Error != "" {
		t.Fatalf("%s: %v %s", o.Ask, err, r.Error)
	}
	if r.Open != o.Open || r.Load == nil || r.Load.Requests == 0 || r.Load.Figures["cpu_us"] <= 0 {
		t.Errorf("%s: %d open, %+v", o.Ask, r.Open, r.Load)
	}
}

// TestSystemServers has nginx answer as the servers of HTTP do, and HAProxy and Redis start.
func TestSystemServers(t *testing.T) {
	dir, entries := built(t, append(fleet.HTTP2()[2:], fleet.Nginx().Alone(), fleet.RESP()[1], fleet.RESP()[2]))
	hello, err := web.Named("hello")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 1})
		if err != nil {
			t.Error(err)
			continue
		}
		if !e.Ours() && e.Version == "" || !e.TLS && e.Program == "nginx" && drive.ExchangeHTTP(dial(t, server.Addr), hello) != nil {
			t.Errorf("%s has the version %q, or does not answer", e.Name, e.Version)
		}
		server.Stop()
	}
}
