package observe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/wire"
)

// serve serves s on a loopback port until the test ends.
func serve(t *testing.T, s *framed.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := receive(t, "Serve returns", served); err != framed.ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
	})
	return ln.Addr().String()
}

// does serves requests that say what to do with them.
type does struct{ late sync.WaitGroup }

func (d *does) Handle(c framed.Call, dst, req []byte) ([]byte, error) {
	switch string(req) {
	case "late":
		reply := c.Later()
		d.late.Go(func() { reply.Send([]byte("late")) })
		return nil, nil
	case "taken back":
		c.Later()
		return nil, wire.Unauthorised
	case "push":
		c.Conn().Push(7, []byte("pushed"))
	case "fail":
		return nil, wire.Overloaded
	case "panic":
		panic("as asked")
	}
	return append(dst, req...), nil
}

// wires counts what all clients together have written and read.
type wires struct{ out, in atomic.Int64 }

// counted is a connection that counts its bytes.
type counted struct {
	net.Conn
	bytes *wires
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.out.Add(int64(n))
	return n, err
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.in.Add(int64(n))
	return n, err
}

func (w *wires) dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return counted{nc, w}
}

const (
	clients = 8
	rounds  = 150 // of each kind, per client
	broken  = 3   // connections for each kind of misuse
)

// TestCountersAddUp drives every engine with clients that keep counters of their own, scrapes at the
// same time, and compares at the end: everything to the last byte.
func TestCountersAddUp(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			d := &does{}
			srv := &framed.Server{Handler: d, Engine: e, Logger: slog.New(slog.DiscardHandler)}
			site := start(t, &observe.Admin{Stats: srv.Stats})
			addr := serve(t, srv)
			var bytes wires
			stop, watched := make(chan struct{}), make(chan int, 1)
			go func() { watched <- watch(t, site, stop) }()
			drive(t, addr, &bytes)
			misuse(t, addr, &bytes)
			d.late.Wait()
			eventually(t, "every connection has ended", func() bool { return site.admin.Snapshot().Connections == 0 })
			close(stop)
			t.Logf("%d scrapes under load", receive(t, "the scraper ends", watched))
			checkCounters(t, site, e.Name(), &bytes)
		})
	}
}

// drive sends every kind of request that leaves a connection open.
func drive(t *testing.T, addr string, bytes *wires) {
	t.Helper()
	failed := make(chan error, clients)
	for range clients {
		nc := bytes.dial(t, addr)
		go func() { failed <- ask(nc) }()
	}
	for range clients {
		if err := receive(t, "a client is done", failed); err != nil {
			t.Fatal(err)
		}
	}
}

// ask is one client: it sends five kinds of requests at once, and receives all of its pushes.
func ask(nc net.Conn) error {
	pushes := make(chan struct{}, rounds)
	c := framed.NewClient(nc, framed.ClientOptions{OnDeliver: func(uint64, []byte) { pushes <- struct{}{} }})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kinds := map[string]error{"echo": nil, "late": nil, "push": nil, "fail": wire.Overloaded, "taken back": wire.Unauthorised}
	done := make(chan error, len(kinds))
	for kind, want := range kinds {
		go func() {
			for range rounds {
				reply, err := c.Call(ctx, nil, []byte(kind))
				if !errors.Is(err, want) || want == nil && string(reply) != kind {
					done <- fmt.Errorf("%s: %q, %v", kind, reply, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range kinds {
		if err := <-done; err != nil {
			return err
		}
	}
	for range rounds {
		select {
		case <-pushes:
		case <-ctx.Done():
			return errors.New("a push is missing")
		}
	}
	return nil
}

// misuse opens connections that end badly: with a panic, and with a frame whose length is the first
// letters of HTTP. Nothing is sent after such a frame, because only some engines would have read
// part of it.
func misuse(t *testing.T, addr string, bytes *wires) {
	t.Helper()
	panics := wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("panic")})
	for range broken {
		for _, send := range []string{string(panics), "GET "} {
			if answer := refused(t, bytes.dial(t, addr), send); len(answer) == 0 {
				t.Errorf("%q was not answered", send)
			}
		}
	}
}

// refused sends something and reads until the end.
func refused(t *testing.T, nc net.Conn, send string) []byte {
	t.Helper()
	defer nc.Close()
	io.WriteString(nc, send)
	answer, err := io.ReadAll(nc)
	if err != nil {
		t.Errorf("%q was answered %q, %v", send, answer, err)
	}
	return answer
}

// TestPublicPort requests the admin side's paths on the service's port.
func TestPublicPort(t *testing.T) {
	srv := &framed.Server{Handler: &does{}}
	site := start(t, &observe.Admin{Stats: srv.Stats})
	addr := serve(t, srv)
	for _, path := range everything {
		answer := refused(t, (&wires{}).dial(t, addr), "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		want := wire.Append(nil, wire.Packet{Command: wire.ConnAck, Result: wire.TooLarge})
		if string(answer) != string(want) {
			t.Errorf("GET %s on the public port: %q", path, answer)
		}
	}
	eventually(t, "the refusals are counted", func() bool {
		return site.scrape()[sample("hone_rejected_total", "too_large")] == float64(len(everything))
	})
}

// watch scrapes until stop, and checks that no counter decreases.
func watch(t *testing.T, s *site, stop <-chan struct{}) (scrapes int) {
	before := series{}
	for {
		select {
		case <-stop:
			return scrapes
		default:
		}
		a, err := s.try(s.request("/metrics"))
		if err != nil || a.status != http.StatusOK {
			t.Errorf("scrape %d: %d, %v", scrapes, a.status, err)
			return scrapes
		}
		now := parse(t, a.body)
		for name, v := range before {
			if base, _, _ := strings.Cut(name, "{"); strings.HasSuffix(base, "_total") && !strings.HasPrefix(base, "hone_host_") && now[name] < v {
				t.Errorf("%s fell from %v to %v", name, v, now[name])
			}
		}
		if now["hone_responses_sent_total"] > now["hone_requests_received_total"] {
			t.Errorf("%v responses to %v requests", now["hone_responses_sent_total"], now["hone_requests_received_total"])
		}
		before = now
		scrapes++
	}
}

// checkCounters checks all of our counters, except those of the host.
func checkCounters(t *testing.T, s *site, on string, bytes *wires) {
	t.Helper()
	want := series{
		"hone_connections":                 0,
		"hone_connections_accepted_total":  clients + 2*broken,
		"hone_requests_received_total":     5*clients*rounds + broken,
		"hone_responses_sent_total":        5*clients*rounds + broken,
		"hone_late_responses_sent_total":   clients * rounds,
		"hone_pushes_sent_total":           clients * rounds,
		"hone_pushes_dropped_total":        0,
		"hone_received_bytes_total":        float64(bytes.out.Load()),
		"hone_sent_bytes_total":            float64(bytes.in.Load()),
		"hone_panics_total":                broken,
		"hone_tls_handshakes_total":        0,
		"hone_tls_resumed_total":           0,
		"hone_tls_handshakes_failed_total": 0,
		"hone_hand_offs_total":             float64(s.admin.Stats().HandOffs), // their number depends on timing
		"hone_output_waiting_bytes":        0,
		"hone_output_memory_bytes":         0,
		"hone_input_memory_bytes":          0,
		"hone_connections_in_line":         0,
		"hone_connections_paused":          0,
		"hone_replies_owed":                0,
		"hone_connections_limit":           float64(engine.Limits{}.OrDefaults().Conns),
		"hone_output_memory_limit_bytes":   128 << 20,
		"hone_input_memory_limit_bytes":    128 << 20,
		"hone_replies_owed_limit":          64 << 10,
		"hone_helpers_limit":               10_000,
		fmt.Sprintf("hone_info{engine=%q,service=%q,version=%q}", on, "", ""): 1,
	}
	for reason, set := range sets {
		want[sample(set, reason)] = 0
	}
	want[sample("hone_connections_ended_total", "peer_closed")] = clients
	want[sample("hone_connections_ended_total", "panicked")] = broken
	want[sample("hone_rejected_total", "too_large")] = broken
	want[sample("hone_rejected_total", "authentication_failed")] = 0
	got := s.scrape()
	for name, v := range got {
		switch { // these depend on timing
		case strings.HasPrefix(name, "hone_host_"), strings.HasPrefix(name, "hone_connection_buffer"):
			continue
		case name == "hone_helpers":
			continue
		case strings.HasPrefix(name, "hone_loop_"):
			if loops := strings.HasPrefix(on, "events"); loops != (v > 0) {
				t.Errorf("%s is %v on %s", name, v, on)
			}
			continue
		}
		if w, ok := want[name]; strings.HasPrefix(name, "hone_") && (!ok || v != w) {
			t.Errorf("%s is %v, want %v", name, v, w)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}
