package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// startUpgrade starts a honed that may replace another one.
func startUpgrade(t *testing.T, dir string, flags ...string) *ran {
	t.Helper()
	return launch(t, exec.Command(os.Args[0], append([]string{
		"serve", "--json", "--until-eof", "--admin", "127.0.0.1:0", "--data", dir + "/log", "--upgrade", "unix:" + dir + "/upgrade",
		"--listen", "127.0.0.1:0", "--listen", "unix:" + dir + "/clients",
	}, flags...)...))
}

// TestUpgrades replaces honed again and again while clients submit and others connect: nobody is refused, every
// acknowledged record is stored once, and nobody waits for long.
func TestUpgrades(t *testing.T) {
	dir := testrun.SocketFolder(t)
	old := startUpgrade(t, dir)
	old.ready()
	addrs := old.listen
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acked, dialled atomic.Uint64
	var longest atomic.Int64
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			c := &gateway.Client{Addrs: []string{addrs[i%2]}, ID: fmt.Sprint("client", i)}
			for ctx.Err() == nil {
				began := time.Now()
				if _, err := c.Submit(t.Context(), []byte("record")); err != nil {
					t.Error(err)
					break
				}
				acked.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(began))))
			}
			must(t, c.Close(t.Context()))
		})
	}
	clients.Go(func() {
		for pace := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-pace.C {
			for _, network := range []string{"tcp", "unix"} {
				conn, err := net.Dial(network, map[string]string{"tcp": addrs[0], "unix": dir + "/clients"}[network])
				if err != nil {
					t.Error(err)
					return
				}
				dialled.Add(1)
				conn.Close()
			}
		}
	})
	for range testrun.Sized(3, 50) {
		for before := acked.Load(); acked.Load() < before+20 && !t.Failed(); {
			<-time.After(time.Millisecond)
		}
		next := startUpgrade(t, dir)
		next.ready()
		if fmt.Sprint(next.listen) != fmt.Sprint(addrs) {
			t.Fatalf("it listens on %v, want %v", next.listen, addrs)
		}
		if code := old.wait(); code != commandline.OK {
			t.Fatalf("the old one: %d %s", code, old.said.String())
		}
		old = next
	}
	before := acked.Load()
	if h := startUpgrade(t, dir, "--data", dir); h.wait() != commandline.Failed || !strings.Contains(h.said.String(), "has no segments of a log") {
		t.Errorf("one that cannot open the log: %s", h.said.String())
	}
	for acked.Load() < before+20 && !t.Failed() {
		<-time.After(time.Millisecond)
	}
	stop()
	clients.Wait()
	old.stdin.Close()
	if code := old.wait(); code != commandline.OK {
		t.Errorf("%d %s", code, old.said.String())
	}
	code, out, errs := honed(t, "verify", "--data", filepath.Join(dir, "log"))
	if code != commandline.OK || !strings.Contains(out, fmt.Sprintf(`"records":%d,`, acked.Load())) {
		t.Errorf("%d acknowledged; verify: %d %s%s", acked.Load(), code, out, errs)
	}
	t.Logf("%d records, the longest after %v; %d connections", acked.Load(), time.Duration(longest.Load()).Round(time.Millisecond), dialled.Load())
	if time.Duration(longest.Load()) > time.Minute {
		t.Error("a client has waited for too long")
	}
}
