package fleet_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// TestHTTPServers asks the same of every server of HTTP.
func TestHTTPServers(t *testing.T) {
	dir, entries := built(t, fleet.HTTP())
	for _, e := range entries {
		for _, scheme := range []string{"http", "https"} {
			t.Run(e.Name+"/"+scheme, func(t *testing.T) {
				server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2, TLS: scheme == "https"})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Stop()
				if !e.Ours() && e.Version == "" {
					t.Error("its version is not known")
				}
				for _, path := range []string{web.HelloPath, web.PagePath, web.PicturePath} {
					body, _ := web.Body(path)
					isLoaded(t, load.Plan{Depth: 4, Target: codec.HTTP{URL: scheme + "://" + server.Addr + path, Length: int64(len(body)), TLS: &tls.Config{InsecureSkipVerify: true}}})
				}
			})
		}
	}
}

// isLoaded has hone load ask on some connections, keep others idle, and open and close more.
func isLoaded(t *testing.T, plan load.Plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	plan.Conns, plan.Idle, plan.Churn, plan.Warmup, plan.For = 3, 5, 30, -1, 200*time.Millisecond
	r, err := load.Run(ctx, plan)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 || r.Errors["total"] != 0 || r.Reconnects != 0 || r.Idle.Open != 5 || r.Churn.Conns == 0 || r.Churn.Errors["total"] != 0 {
		t.Errorf("%s: %d requests, errors %v, %d reconnects, idle %+v, churn %+v", r.Target, r.Requests, r.Errors, r.Reconnects, r.Idle, r.Churn)
	}
}

// TestSystemServers has nginx answer as the servers of HTTP do, and HAProxy and Redis start.
func TestSystemServers(t *testing.T) {
	dir, entries := built(t, append(fleet.HTTP2()[2:], fleet.Nginx().Alone(), fleet.RESP()[1], fleet.RESP()[2]))
	for _, e := range entries {
		server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 1})
		if err != nil {
			t.Error(err)
			continue
		}
		if !e.Ours() && e.Version == "" {
			t.Errorf("%s has no version", e.Name)
		}
		if !e.TLS && e.Program == "nginx" {
			isLoaded(t, load.Plan{Target: codec.HTTP{URL: "http://" + server.Addr + web.HelloPath, Length: 13}})
		}
		server.Stop()
	}
}
