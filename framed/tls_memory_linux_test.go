package framed_test

import (
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// An idle connection over TLS costs what it costs the engine: nearly all of it is crypto/tls's. The
// server is a process of its own.
func TestIdleTLSMemory(t *testing.T) {
	if !testrun.All() || testrun.Race {
		t.Skip("it measures memory for half a minute: run it with HONE_TEST_ALL=1 and without -race")
	}
	t.Parallel()
	const first, idle = 300, 2000 // the first ones bring one-time costs
	for _, c := range []struct {
		version uint16
		most    int64
	}{{tls.VersionTLS13, 8500}, {tls.VersionTLS12, 5500}} {
		name := tls.VersionName(c.version)
		t.Run(name, func(t *testing.T) {
			server, ready := startServer(t, "HONE_TEST_ENGINE=events", "HONE_TEST_TLS=1", "HONE_TEST_LIMITS="+strconv.Itoa(first+idle+16))
			var before, after serveMemory
			openTLS(t, ready.Addr, c.version, first)
			server.ask(t, "rss", childStart, &before)
			openTLS(t, ready.Addr, c.version, idle)
			server.ask(t, "rss", childStart, &after)
			each := (after.Anonymous - before.Anonymous) / idle
			t.Logf("%s: %d bytes of the process's memory for each of %d idle connections", name, each, idle)
			if each > c.most {
				t.Errorf("want at most %d", c.most)
			}
		})
	}
}

// openTLS opens n connections, each of which has made a request.
func openTLS(t *testing.T, addr string, version uint16, n int) {
	t.Helper()
	const side = 8
	var clients sync.WaitGroup
	for i := range side {
		clients.Go(func() {
			for range (n + side - 1 - i) / side {
				nc, err := net.DialTimeout("tcp", addr, patience)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { nc.Close() })
				nc.SetDeadline(time.Now().Add(patience))
				c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
				if _, err = c.Write(submit(1, "once")); err == nil {
					_, err = io.ReadFull(c, make([]byte, len(ack(1, ""))))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
}
