package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// upgraded is a honed that is replaced.
type upgraded struct {
	*exec.Cmd
	listen []string
	errs   bytes.Buffer
	stdin  io.Closer
}

// startUpgrade starts a honed that may replace another one. Without an error it is ready.
func startUpgrade(t *testing.T, dir string, flags ...string) (*upgraded, error) {
	t.Helper()
	h := &upgraded{Cmd: exec.Command(os.Args[0], append([]string{
		"serve", "--json", "--until-eof", "--admin", "127.0.0.1:0", "--data", dir + "/log", "--upgrade", "unix:" + dir + "/upgrade",
		"--listen", "127.0.0.1:0", "--listen", "unix:" + dir + "/clients",
	}, flags...)...)}
	h.Stderr = &h.errs
	stdin, err := h.StdinPipe()
	must(t, err)
	h.stdin = stdin
	out, err := h.StdoutPipe()
	must(t, err)
	must(t, h.Start())
	t.Cleanup(func() {
		h.Process.Kill()
		h.Wait()
		h.stdin.Close()
	})
	var ready struct{ Listen []string }
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		return h, fmt.Errorf("%w: %s", h.Wait(), &h.errs)
	}
	h.listen = ready.Listen
	return h, nil
}

// TestUpgrades replaces honed again and again while clients submit and others connect: nobody is refused, every
// acknowledged record is stored once, and nobody waits for long.
func TestUpgrades(t *testing.T) {
	dir := testrun.SocketFolder(t)
	old, err := startUpgrade(t, dir)
	must(t, err)
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
		next, err := startUpgrade(t, dir)
		must(t, err)
		if fmt.Sprint(next.listen) != fmt.Sprint(addrs) {
			t.Fatalf("it listens on %v, want %v", next.listen, addrs)
		}
		if err := old.Wait(); err != nil {
			t.Fatalf("the old one: %v %s", err, &old.errs)
		}
		old = next
	}
	before := acked.Load()
	if h, err := startUpgrade(t, dir, "--data", dir); err == nil || !strings.Contains(h.errs.String(), "has no segments of a log") {
		t.Errorf("one that cannot open the log: %v", err)
	}
	for acked.Load() < before+20 && !t.Failed() {
		<-time.After(time.Millisecond)
	}
	stop()
	clients.Wait()
	old.stdin.Close()
	if err := old.Wait(); err != nil {
		t.Errorf("%v %s", err, &old.errs)
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
