package main

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/natstest"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMigrateServing copies a stream of an earlier version while a honed serves on it: that one cannot
// acknowledge anything that is not copied, and its successor goes on with the same clients.
func TestMigrateServing(t *testing.T) {
	t.Parallel()
	l := newLone(t, natstest.Binary(t))
	l.configure("", "")
	l.start()
	if _, err := l.client().CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "OLD", Subjects: []string{"honed.log.OLD"}, Discard: jetstream.DiscardNew, AllowDirect: true, DenyDelete: true, DenyPurge: true,
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	g := l.gateway("--stream", "OLD", "--append-time", "2s", "--data", dir)
	g.ready()
	load := beginGently(t, g.addr)
	some := uint64(testrun.Sized(200, 500))
	load.reach(some)
	cluster := []string{"--log", "nats://" + l.addr, "--replicas", "1"}
	code, out, errs := honed(t, append([]string{"migrate", "--stream", "OLD", "--to-stream", "NEW"}, cluster...)...)
	if code != commandline.OK || !strings.Contains(out, "positions 1 to ") || !strings.Contains(out, "start each honed with --stream NEW") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	if code := g.wait(); code != commandline.Failed {
		t.Errorf("the old honed ends with %d: %s", code, g.lastLine())
	}
	acked := load.acked.Load()
	if g = l.gateway("--stream", "OLD", "--data", dir); g.wait() != commandline.Failed || !strings.Contains(g.lastLine(), "is sealed") {
		t.Errorf("a start on the old stream: %s", g.lastLine())
	}
	g = l.gateway("--stream", "NEW", "--data", dir, "--listen", load.client.Addrs[0])
	g.ready()
	load.reach(acked + some)
	load.end()
	export := func(stream string) string {
		code, out, errs := honed(t, append([]string{"export", "--stream", stream, "--data", dir}, cluster...)...)
		if code != commandline.OK {
			t.Errorf("export of %s: %d %s", stream, code, errs)
		}
		return out
	}
	if !strings.HasPrefix(export("NEW"), export("OLD")) {
		t.Error("the new stream does not begin with the old one")
	}
	log, err := journal.OpenCluster(t.Context(), "nats://"+l.addr, journal.ClusterOptions{Stream: "NEW", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	load.storedIn(log)
}

// TestMigrateUsage: what is to be copied has to be said.
func TestMigrateUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--to-stream", "NEW"},
		{"--log", "nats://127.0.0.1:1", "--stream", "OLD"},
		{"--log", "nats://127.0.0.1:1", "--to-stream", "NEW"},
	} {
		if code, _, errs := honed(t, append([]string{"migrate"}, args...)...); code != commandline.Usage || !strings.Contains(errs, "--to-stream") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}

// meter is a proxy that counts what a server sends.
type meter struct {
	addr string
	sent atomic.Int64
}

func newMeter(t *testing.T, to string) *meter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{addr: ln.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { ln.Close(); running.Wait() })
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				return
			}
			running.Go(func() { defer server.Close(); io.Copy(server, client) })
			running.Go(func() { defer client.Close(); io.Copy(io.MultiWriter(client, m), server) })
		}
	})
	return m
}

func (m *meter) Write(b []byte) (int, error) {
	m.sent.Add(int64(len(b)))
	return len(b), nil
}

// TestClusterStart: a start on a stream reads what follows its newest checkpoint, not the stream.
func TestClusterStart(t *testing.T) {
	t.Parallel()
	l := newLone(t, natstest.Binary(t))
	l.configure("", "")
	l.start()
	g := l.gateway("--checkpoint-bytes", "1048576")
	g.ready()
	load := begin(t, g.addr)
	size := testrun.Sized(8<<20, 100<<20)
	load.reach(uint64(size / loadSize))
	load.end()
	g.kill() // no checkpoint at the end
	m := newMeter(t, l.addr)
	g = l.gateway("--verify-rate", "0", "--log", "nats://"+m.addr)
	g.ready()
	got := m.sent.Load()
	if t.Logf("a start on a stream of %d bytes receives %d", size, got); got > 4<<20 {
		t.Errorf("the start has received %d bytes", got)
	}
	g.kill()
}
