package observe_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/wire"
)

// sets assigns each reason to a group: decide here for a new one.
var sets = map[string]string{
	"peer_closed":          "hone_connections_ended_total",
	"peer_reset":           "hone_connections_ended_total",
	"closed_here":          "hone_connections_ended_total",
	"panicked":             "hone_connections_ended_total",
	"shutting_down":        "hone_connections_ended_total",
	"forced":               "hone_connections_ended_total",
	"idle_timeout":         "hone_rejected_total",
	"frame_timeout":        "hone_rejected_total",
	"write_stall":          "hone_rejected_total",
	"slow_reader":          "hone_rejected_total",
	"output_budget":        "hone_rejected_total",
	"input_budget":         "hone_rejected_total",
	"displaced":            "hone_rejected_total",
	"auth_timeout":         "hone_rejected_total",
	"too_large":            "hone_rejected_total",
	"malformed":            "hone_rejected_total",
	"unknown_command":      "hone_rejected_total",
	"bad_proxy_header":     "hone_rejected_total",
	"too_many_conns":       "hone_rejected_total",
	"too_many_per_address": "hone_rejected_total",
	"too_many_at_once":     "hone_rejected_total",
	"no_descriptors":       "hone_rejected_total",
}

func sample(name, reason string) string { return fmt.Sprintf("%s{reason=%q}", name, reason) }

func TestReasons(t *testing.T) {
	if got := len(engine.Stats{}.Ended) - 1; got != len(sets) {
		t.Errorf("engine has %d reasons and sets %d", got, len(sets))
	}
	st := engine.Stats{}
	s := start(t, &observe.Admin{Stats: func() engine.Stats { return st }})
	fresh := s.scrape()
	for reason, set := range sets {
		if v, ok := fresh[sample(set, reason)]; !ok || v != 0 {
			t.Errorf("%s is %v (%v) at the start, want 0", sample(set, reason), v, ok)
		}
	}
	for name := range fresh {
		if strings.Contains(name, "{reason=") {
			reason := strings.Split(name, `"`)[1]
			if sample(sets[reason], reason) != name {
				t.Errorf("%s is not in the closed set", name)
			}
		}
	}
	for i := range st.Ended {
		st.Ended[i] = uint64(100 + i)
	}
	later, snapshot := s.scrape(), s.admin.Snapshot()
	for i := 1; i < len(st.Ended); i++ {
		reason := engine.Reason(i).String()
		if got := later[sample(sets[reason], reason)]; got != float64(100+i) {
			t.Errorf("%s is %v, want %d", sample(sets[reason], reason), got, 100+i)
		}
		set := snapshot.Rejected
		if sets[reason] == "hone_connections_ended_total" {
			set = snapshot.ConnectionsEnded
		}
		if set[reason] != uint64(100+i) {
			t.Errorf("/stats has %s %d, want %d", reason, set[reason], 100+i)
		}
	}
	if got := len(snapshot.Rejected) + len(snapshot.ConnectionsEnded); got != len(sets) {
		t.Errorf("/stats has %d reasons, want %d", got, len(sets))
	}
}

// TestReasonsOfAProtocolsOwn checks that a protocol's own reasons are rejections under their names.
func TestReasonsOfAProtocolsOwn(t *testing.T) {
	st := engine.Stats{}
	st.Own[0], st.Own[1] = engine.OwnEnded{Name: "banned", Count: 7}, engine.OwnEnded{Name: "out_of_credit"}
	s := start(t, &observe.Admin{Stats: func() engine.Stats { return st }})
	got, snapshot := s.scrape(), s.admin.Snapshot()
	for name, want := range map[string]uint64{"banned": 7, "out_of_credit": 0} {
		if n, ok := got[sample("hone_rejected_total", name)]; !ok || n != float64(want) {
			t.Errorf("%s is %v (%v) in the metrics, want %d", name, n, ok, want)
		}
		if n, ok := snapshot.Rejected[name]; !ok || n != want {
			t.Errorf("%s is %v (%v) in /stats, want %d", name, n, ok, want)
		}
	}
	if n := len(snapshot.Rejected) + len(snapshot.ConnectionsEnded); n != len(sets)+2 {
		t.Errorf("/stats has %d reasons, want %d", n, len(sets)+2)
	}
}

// plain maps the counters of /stats to their metrics.
var plain = map[string]string{
	"connections":             "hone_connections",
	"connections_accepted":    "hone_connections_accepted_total",
	"requests_received":       "hone_requests_received_total",
	"responses_sent":          "hone_responses_sent_total",
	"late_responses_sent":     "hone_late_responses_sent_total",
	"pushes_sent":             "hone_pushes_sent_total",
	"pushes_dropped":          "hone_pushes_dropped_total",
	"received_bytes":          "hone_received_bytes_total",
	"sent_bytes":              "hone_sent_bytes_total",
	"panics":                  "hone_panics_total",
	"tls_handshakes":          "hone_tls_handshakes_total",
	"tls_resumed":             "hone_tls_resumed_total",
	"tls_handshakes_failed":   "hone_tls_handshakes_failed_total",
	"hand_offs":               "hone_hand_offs_total",
	"helpers":                 "hone_helpers",
	"loop_sleeps":             "hone_loop_sleeps_total",
	"loop_turns":              "hone_loop_turns_total",
	"loop_events":             "hone_loop_events_total",
	"connection_buffers":      "hone_connection_buffers",
	"connection_buffer_bytes": "hone_connection_buffer_bytes",
	"output_waiting_bytes":    "hone_output_waiting_bytes",
	"output_memory_bytes":     "hone_output_memory_bytes",
	"input_memory_bytes":      "hone_input_memory_bytes",
	"connections_in_line":     "hone_connections_in_line",
	"connections_paused":      "hone_connections_paused",
	"replies_owed":            "hone_replies_owed",
}

func TestEveryCounter(t *testing.T) {
	s := start(t, &observe.Admin{
		Stats: func() engine.Stats {
			return engine.Stats{
				Engine: "events", Open: 1, Accepted: 2, Requests: 30, Late: 4, Pushes: 5,
				BytesIn: 6, BytesOut: 7, Panics: 8, Owed: 9, Waiting: 10, HandOffs: 11,
				Sleeps: 12, Turns: 13, Events: 14, Buffers: 15, Lent: 16, Helpers: 17,
				OutputMemory: 18, InputMemory: 19, InLine: 20, Paused: 21, Dropped: 22,
				Handshakes: 23, Resumed: 24, HandshakesFailed: 25,
			}
		},
		Info: observe.Info{Service: "sub\"mit\n", Version: "v1.2.3"},
	})
	want := map[string]float64{
		"connections": 1, "connections_accepted": 2, "requests_received": 30, "responses_sent": 21, "late_responses_sent": 4, "pushes_sent": 5, "pushes_dropped": 22,
		"received_bytes": 6, "sent_bytes": 7, "panics": 8, "output_waiting_bytes": 10, "replies_owed": 9, "hand_offs": 11,
		"tls_handshakes": 23, "tls_resumed": 24, "tls_handshakes_failed": 25,
		"loop_sleeps": 12, "loop_turns": 13, "loop_events": 14, "connection_buffers": 15, "connection_buffer_bytes": 16, "helpers": 17,
		"output_memory_bytes": 18, "input_memory_bytes": 19, "connections_in_line": 20, "connections_paused": 21,
	}
	got := s.scrape()
	var stats map[string]any
	if err := json.Unmarshal([]byte(s.want(200, "/stats").body), &stats); err != nil {
		t.Fatal(err)
	}
	for name, metric := range plain {
		if got[metric] != want[name] || stats[name] != want[name] {
			t.Errorf("%s is %v, %s is %v, want %v", metric, got[metric], name, stats[name], want[name])
		}
	}
	if info := `hone_info{engine="events",service="sub\"mit\n",version="v1.2.3"}`; got[info] != 1 {
		t.Errorf("no %s in %v", info, slices.Sorted(maps.Keys(got)))
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if _, ok := got[name]; !ok && (name == "go_goroutines" || openFiles() > 0) {
			t.Errorf("no %s", name)
		}
	}
}

func TestStatsReadOncePerScrape(t *testing.T) {
	reads := 0
	s := start(t, &observe.Admin{Stats: func() engine.Stats { reads++; return engine.Stats{} }})
	if reads != 0 {
		t.Errorf("read %d times before the first scrape", reads)
	}
	for i, path := range []string{"/metrics", "/metrics", "/stats"} {
		s.want(200, path)
		if reads != i+1 {
			t.Errorf("read %d times in %d scrapes", reads, i+1)
		}
	}
	s.want(200, "/healthz")
	s.want(200, "/debug/pprof/")
	if reads != 3 {
		t.Error("read by an endpoint that does not need it")
	}
}

// TestResponsesNeverFall reads the counters between the moment when a promise is counted and the
// moment when its request is.
func TestResponsesNeverFall(t *testing.T) {
	var now engine.Stats
	a := &observe.Admin{Stats: func() engine.Stats { return now }}
	for _, step := range []struct {
		requests uint64
		owed     int
		want     uint64
	}{{0, 3, 0}, {10, 0, 10}, {10, 4, 10}, {14, 4, 10}, {14, 1, 13}, {20, 0, 20}} {
		now.Requests, now.Owed = step.requests, step.owed
		if got := a.Snapshot().ResponsesSent; got != step.want {
			t.Errorf("%d requests, %d owed: %d responses, want %d", step.requests, step.owed, got, step.want)
		}
	}
}

func TestLint(t *testing.T) {
	src := newSources(t)
	s := start(t, src.admin())
	src.close(t)
	problems, err := promlint.New(strings.NewReader(s.want(200, "/metrics").body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		testrun.Lacks(t, "promtool is not installed: make deps installs what it can of the tools that tests need")
	}
	src := newSources(t)
	a := src.admin()
	a.Info = observe.Info{Service: "upper", Version: "v1"}
	s := start(t, a)
	src.close(t)
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(s.want(200, "/metrics").body)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestOddClients sends a hundred thousand requests to the admin side, each from a different
// address, under some host name, for a path that does not exist; and as many to the service, from
// client addresses that a proxy invents. No new series may appear.
func TestOddClients(t *testing.T) {
	countLeaks(t)
	latency := &observe.Latency{Every: 1}
	srv := &framed.Server{Handler: latency.Wrap(echo{}), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	h := (&observe.Admin{Stats: srv.Stats, Latency: latency, Hosts: []string{"admin.example"}}).Handler()
	scrape := func() series {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, at(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, "/metrics"))
		return parse(t, w.Body.String())
	}
	before := scrape()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	askForOddPaths(t, h, random)
	addr := serve(t, srv)
	for range 200 {
		askFromOddAddress(t, addr, random, 500)
	}
	after := scrape()
	if got := after["hone_requests_received_total"]; got != 200*500 {
		t.Errorf("%v requests were received, want %d", got, 200*500)
	}
	if len(before) != len(after) {
		t.Errorf("%d series before, %d after", len(before), len(after))
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

// askForOddPaths sends requests to an admin side.
func askForOddPaths(t *testing.T, h http.Handler, random *rand.Rand) {
	t.Helper()
	template := at(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, "/")
	hosts := []string{"127.0.0.1", "localhost", "admin.example", "rebind.example"}
	for range 100_000 {
		r := template.WithContext(template.Context())
		r.URL = &url.URL{Path: oddPath(random), RawQuery: oddPath(random)}
		r.Header = http.Header{"User-Agent": {oddPath(random)}, "X-Forwarded-For": {oddPath(random)}}
		r.RemoteAddr = oddAddress(random).String()
		if r.Host = hosts[random.IntN(len(hosts))]; r.Host == "rebind.example" {
			r.Host = fmt.Sprintf("name-%d.example", random.Uint64())
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 300 || w.Code >= 500 {
			t.Fatalf("GET %q: %d", r.URL.Path, w.Code)
		}
	}
}

func oddAddress(random *rand.Rand) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], random.Uint32())
	return netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(1+random.IntN(65535)))
}

// askFromOddAddress sends requests to a service behind a proxy: requests with random ids and
// contents, and then, for some clients, bytes that are not a request.
func askFromOddAddress(t *testing.T, addr string, random *rand.Rand, requests int) {
	t.Helper()
	nc := (&wires{}).dial(t, addr)
	defer nc.Close()
	from := oddAddress(random)
	send := fmt.Appendf(nil, "PROXY TCP4 %v 127.0.0.1 %d 7000\r\n", from.Addr(), from.Port())
	for range requests {
		send = wire.Append(send, wire.Packet{Command: wire.Submit, ID: random.Uint64(), Content: []byte(oddPath(random))})
	}
	if random.IntN(2) == 0 {
		send = append(send, 0, 0, 0, 6, byte(0x40+random.IntN(64)), byte(random.Uint32()))
	}
	go func() {
		nc.Write(send)
		nc.(counted).Conn.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, nc); err != nil {
		t.Errorf("from %v: %v", from, err)
	}
}

// oddPath returns a path that does not exist, made of valid and invalid parts.
func oddPath(random *rand.Rand) string {
	parts := []string{"metrics", "stats", "debug", "pprof", "..", ".", "/", "%2e", "%00", "\x00", "\\", "\xff", "é", "\u202e", "\r\n", "=", "&", "{", `"`, "0", "x"}
	var b strings.Builder
	b.WriteString("/odd")
	for range 1 + random.IntN(8) {
		b.WriteString(parts[random.IntN(len(parts))])
	}
	return b.String() + "/end"
}
