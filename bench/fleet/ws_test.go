package fleet_test

import (
	"testing"
	"time"

	"github.com/hone-go/hone/bench/client"
	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// TestWebSocketServers asks the same of every server of WebSocket.
func TestWebSocketServers(t *testing.T) {
	dir, entries := built(t, fleet.WebSocket())
	for _, e := range entries {
		t.Run(e.Name, func(t *testing.T) {
			server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			if !e.Ours() && e.Version == "" {
				t.Error("its version is not known")
			}
			if err := drive.ExchangeWS(dial(t, server.Addr)); err != nil {
				t.Error(err)
			}
			isLoadedWith(t, drive.Order{Addr: server.Addr, Ask: web.Socket, Open: 5,
				Load: &drive.Load{PID: server.PID, Conns: 3, Depth: 4, Window: 50 * time.Millisecond, Warmup: 10 * time.Millisecond}})
			isLoadedByTool(t, server)
		})
	}
}

// isLoadedByTool has hone load ask, whose frames are written in another package.
func isLoadedByTool(t *testing.T, server *fleet.Server) {
	r, err := load.Run(t.Context(), load.Plan{
		Target: codec.WebSocket{URL: "ws://" + server.Addr + web.EchoPath}, Conns: 3, Depth: 4, Echo: true, Idle: 5, Churn: 20,
		Size: 300, Warmup: -1, For: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 || r.Errors["total"] != 0 || r.Reconnects != 0 || r.Idle.Open != 5 || r.Churn.Conns == 0 || r.Churn.Errors["total"] != 0 {
		t.Errorf("%d requests, errors %v, %d reconnects, idle %+v, churn %+v", r.Requests, r.Errors, r.Reconnects, r.Idle, r.Churn)
	}
}

// TestPushes has every server push to a crowd, some of which leave.
func TestPushes(t *testing.T) {
	sockets := fleet.WebSocket()
	dir, entries := built(t, append(sockets, fleet.Streams()...))
	for i, e := range entries {
		begin, pushed := client.Upgraded(web.CrowdPath), client.ServerFrame(service.Message())
		if i >= len(sockets) {
			begin, pushed = client.Streamed(web.CrowdPath, web.Event([]byte(web.Welcome))), client.Chunk(web.Event(service.Message()))
		}
		t.Run(e.Name, func(t *testing.T) {
			server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			crowd := new(client.Crowd)
			defer crowd.Close()
			if err := crowd.Grow(t.Context(), server.Addr, 20, begin); err != nil {
				t.Fatal(err)
			}
			awaitCount(t, server, 20)
			for range 2 {
				if err := server.Push(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := crowd.Gather(pushed, 10*time.Second); err != nil {
					t.Error(err)
				}
			}
			crowd.Close()
			if e.Program != "fasthttp" { // which finds out that a stream's client has gone some writes later
				awaitCount(t, server, 0)
			}
		})
	}
}

// awaitCount waits until the server's crowd has n connections.
func awaitCount(t *testing.T, server *fleet.Server, n int) {
	t.Helper()
	for range 10_000 {
		switch got, err := server.Count(t.Context()); {
		case err != nil:
			t.Fatal(err)
		case got == n:
			return
		}
	}
	t.Fatalf("the crowd has not come to %d connections", n)
}
