package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
)

// meter is a proxy that counts what a server sends.
type meter struct {
	addr string
	sent atomic.Int64
}

func newMeter(t *testing.T, to string) *meter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
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
