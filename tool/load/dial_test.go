package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/source"
)

func sourcesOf(tb testing.TB, text string) (a source.Addresses) {
	tb.Helper()
	if err := a.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return a
}

// callers counts where connections come from.
type callers struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *callers) count(address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[host]++
}

// Every kind of connection, to every kind of target, uses the next source address.
func TestSources(t *testing.T) {
	sideBySide(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	echoing := answering(nil, echo)
	for name, make := range map[string]func(t *testing.T, seen *callers) codec.Target{
		"frames": func(t *testing.T, seen *callers) codec.Target {
			return serveWith(t, "tcp", func(nc net.Conn) {
				seen.count(nc.RemoteAddr().String())
				echoing(nc)
			})
		},
		"messages": func(t *testing.T, seen *callers) codec.Target {
			return codec.Messages{Address: serveWith(t, "tcp", func(nc net.Conn) {
				seen.count(nc.RemoteAddr().String())
				io.Copy(nc, nc)
			}).Address}
		},
		"http":  func(t *testing.T, seen *callers) codec.Target { return countingWeb(t, "tcp", seen) },
		"https": func(t *testing.T, seen *callers) codec.Target { return countingWeb(t, "tls", seen) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &callers{}
			target := make(t, seen)
			r := measured(t, Plan{
				Target: target, Sources: sourcesOf(t, "127.0.0.2-127.0.0.3,127.0.0.9"), Conns: 6, Rate: 300, Idle: 3, Churn: 30, Warmup: -1, For: 200 * time.Millisecond, MaxLag: time.Second,
			})
			if r.Errors["total"] != 0 || r.Churn.Errors["total"] != 0 || r.Churn.Conns != 6 || r.Idle.Open != 3 {
				t.Fatalf("errors %v, churn %+v, idle %+v", r.Errors, r.Churn, r.Idle)
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if len(seen.counts) != 3 || seen.counts["127.0.0.2"] != 5 || seen.counts["127.0.0.3"] != 5 || seen.counts["127.0.0.9"] != 5 {
				t.Errorf("connections came from %v", seen.counts)
			}
		})
	}
}

// countingWeb counts each connection at its first request.
func countingWeb(t *testing.T, over string, seen *callers) codec.HTTP {
	var known sync.Map
	return webServer(t, over, func(w http.ResponseWriter, req *http.Request) {
		if _, old := known.LoadOrStore(req.RemoteAddr, true); !old {
			seen.count(req.RemoteAddr)
		}
		io.WriteString(w, "hello")
	})
}

func TestSourceOfAnotherMachine(t *testing.T) {
	o := runPlan(t, context.Background(), Plan{Target: echoServer(t, "tcp"), Sources: sourcesOf(t, "192.0.2.1")})
	e := faultOf(t, o.err)
	if e.Kind != Unreachable || o.result != nil {
		t.Errorf("%v, %v", o.result, e)
	}
	if runtime.GOOS == "linux" {
		if text := e.Error(); !errors.Is(e, syscall.EADDRNOTAVAIL) || !strings.Contains(text, "192.0.2.1, which is not one of this machine's") {
			t.Error(text)
		}
		checkLine(t, e, "ip address")
	}
}

// Running out of ports is reported differently from an address that does not exist.
func TestNoAddress(t *testing.T) {
	taken := &net.OpError{Op: "dial", Err: &wrappedCall{"connect", syscall.EADDRNOTAVAIL}}
	e := dialError(taken, 28_232, time.Second)
	if text := e.Error(); e.Kind != Unreachable || !strings.Contains(text, "out of local ports after 28232 connections; ") || !strings.Contains(text, "--source") || !strings.Contains(text, "ip_local_port_range") {
		t.Error(text)
	}
}

type wrappedCall struct {
	call string
	err  error
}

func (w *wrappedCall) Error() string { return w.call + ": " + w.err.Error() }
func (w *wrappedCall) Unwrap() error { return w.err }

func TestPreflight(t *testing.T) {
	have := resources{descriptors: 20_000, ports: 28_232, held: time.Minute}
	away, here := codec.Frames{Address: "192.0.2.7:7000"}, codec.Frames{Address: "127.0.0.1:7000"}
	for _, c := range []struct {
		name string
		plan Plan
		have resources
		says string // empty: the plan fits
	}{
		{"few", Plan{Target: here, Conns: 10}, have, ""},
		{"as many as go", Plan{Target: here, Conns: 19_936}, have, ""},
		{"one more", Plan{Target: here, Conns: 10_000, Idle: 9_937}, have, "19937 connections need 20001 descriptors, and the limit is 20000; raise it with ulimit -n 20001"},
		{"descriptors not known", Plan{Target: here, Conns: 20_000}, resources{ports: 28_232}, ""},
		{"ports", Plan{Target: here, Idle: 60_000}, resources{ports: 28_232}, "the connections need 60000 local ports, and there are 28232 for each of 1 source address; use --source 127.0.0.1-127.0.0.3, or widen net.ipv4.ip_local_port_range"},
		{"ports of another machine", Plan{Target: away, Idle: 60_000}, resources{ports: 28_232}, "; use 3 source addresses (--source), or widen"},
		{"sources enough", Plan{Target: here, Idle: 60_000, Sources: sourcesOf(t, "127.0.0.1-127.0.0.3")}, resources{ports: 28_232}, ""},
		{"sources not enough", Plan{Target: here, Idle: 60_000, Sources: sourcesOf(t, "127.0.0.1-127.0.0.2")}, resources{ports: 28_232}, "for each of 2 source addresses; "},
		{"many sources", Plan{Target: here, Idle: 60_000}, resources{ports: 100}, "--source 127.0.0.1-127.0.2.88"},
		{"no ports", Plan{Target: codec.Frames{Network: "unix", Address: "x"}, Idle: 60_000}, resources{ports: 100}, ""},
		{"churn", Plan{Target: away, Churn: 1000, For: time.Hour}, have, "need 60000 local ports, and there are 28232 for each of 1 source address (a port is not free for 1m0s after its connection); "},
		{"short churn", Plan{Target: away, Churn: 1000, For: 10 * time.Second, Warmup: time.Second}, have, ""},
		{"churn at home", Plan{Target: here, Churn: 1000, For: time.Hour}, resources{descriptors: 20_000, ports: 28_232, held: time.Second}, ""},
	} {
		route, err := c.plan.Target.Prepare(codec.Load{})
		if c.plan.route = route; err == nil {
			err = c.plan.fitsInto(c.have)
		}
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		e := faultOf(t, err)
		if line := e.Error(); e.Kind != Unreachable || !strings.Contains(line, c.says) {
			t.Errorf("%s: %s, want %q in it", c.name, line, c.says)
		}
		checkLine(t, e, "")
	}
	if have := machineResources(true); runtime.GOOS == "linux" && (have.ports < 1 || have.descriptors < 1 || have.held < time.Second) {
		t.Errorf("this machine has %+v", have)
	}
}

// The plan is refused before the first connection.
func TestRunRefusesWhatDoesNotFit(t *testing.T) {
	limit := machineResources(true).descriptors
	if limit == 0 || limit > 1<<30 {
		t.Skip("there is no limit of descriptors here")
	}
	o := runPlan(t, context.Background(), Plan{Target: neverDials{}, Idle: int(limit) + manyConns})
	if e := faultOf(t, o.err); !errors.Is(e, syscall.EMFILE) || o.result != nil {
		t.Errorf("%v, %v", o.result, e)
	}
}
