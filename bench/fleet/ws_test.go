package fleet_test

import (
	"testing"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
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
			isLoaded(t, load.Plan{Target: codec.WebSocket{URL: "ws://" + server.Addr + web.EchoPath}, Depth: 4, Echo: true, Size: 300})
		})
	}
}

// TestPushes has every server push to a crowd, some of which leave.
func TestPushes(t *testing.T) {
	sockets := fleet.WebSocket()
	dir, entries := built(t, append(sockets, fleet.Streams()...))
	for i, e := range entries {
		t.Run(e.Name, func(t *testing.T) {
			server, err := fleet.Start(t.Context(), dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			crowd := &race.Crowd{Streams: i >= len(sockets)}
			defer crowd.Close()
			if err := crowd.Grow(t.Context(), server.Addr, 20); err != nil {
				t.Fatal(err)
			}
			if err := crowd.Await(t.Context(), server); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := server.Push(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := crowd.Gather(service.Message()); err != nil {
					t.Error(err)
				}
			}
			crowd.Close()
			if e.Program != "fasthttp" { // which finds out that a stream's client has gone some writes later
				if err := crowd.Await(t.Context(), server); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
