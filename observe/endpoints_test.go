package observe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/observe"
)

// everything has one path for each endpoint.
var everything = []string{"/", "/healthz", "/metrics", "/stats", "/debug/pprof/", "/debug/pprof/heap"}

// TestIndex follows every link of the index page, mounted at the root and below a path, as a
// browser would resolve it.
func TestIndex(t *testing.T) {
	for _, base := range []string{"/", "/admin/"} {
		a := &observe.Admin{Stats: nothing, Token: secret, Info: observe.Info{Service: "<up>&per", Version: "v1.2.3"}}
		h := http.StripPrefix(strings.TrimSuffix(base, "/"), a.Handler())
		get := func(path string) *httptest.ResponseRecorder {
			r := at(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, path)
			r.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w := get(base)
		body := w.Body.String()
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/html; charset=utf-8" {
			t.Fatalf("%d %q", w.Code, got)
		}
		var followed []string
		for _, m := range regexp.MustCompile(`<dt><a href="([^"]+)">[^<]+</a></dt>\n<dd>([^<]{10,})</dd>`).FindAllStringSubmatch(body, -1) {
			to, err := (&url.URL{Path: base}).Parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if code := get(to.Path).Code; code != 200 {
				t.Errorf("the index at %s links to %s, which answers %d", base, to, code)
			}
			followed = append(followed, m[1])
		}
		if want := []string{"healthz", "metrics", "stats", "debug/pprof/"}; !slices.Equal(followed, want) {
			t.Errorf("the index at %s links to %q, want %q", base, followed, want)
		}
		for _, want := range []string{"&lt;up&gt;&amp;per", "v1.2.3", "engine buffered"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is missing in\n%s", want, body)
			}
		}
		for _, bad := range []string{secret, "src=", "http:", "https:", "//", "<script", "<link", "<style", "<up>"} {
			if strings.Contains(body, bad) {
				t.Errorf("%q is in\n%s", bad, body)
			}
		}
	}
}

func TestHealthFollowsDrain(t *testing.T) {
	var ready atomic.Bool
	ready.Store(true)
	s := start(t, &observe.Admin{Stats: nothing, Ready: ready.Load})
	if a := s.want(200, "/healthz"); a.body != "ok\n" {
		t.Errorf("body %q", a.body)
	}
	ready.Store(false)
	if a := s.want(503, "/healthz"); a.body != "draining\n" {
		t.Errorf("body %q", a.body)
	}
	full := start(t, &observe.Admin{Stats: nothing, Ready: ready.Load, Cause: func() string { return "full" }})
	if a := full.want(503, "/healthz"); a.body != "full\n" {
		t.Errorf("body %q", a.body)
	}
	s.want(200, "/metrics") // the last scrape of a draining server is useful
}

// A panic of a callback is logged even without a Logger.
func TestPanicsAreLogged(t *testing.T) {
	for _, own := range []bool{false, true} {
		var text bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&text, nil))
		a := &observe.Admin{Stats: nothing, Ready: func() bool { panic("not ready for this") }}
		if own {
			a.Logger = logger
		} else {
			was := slog.Default()
			defer slog.SetDefault(was)
			slog.SetDefault(logger)
		}
		s := start(t, a)
		if response, err := s.http.Get("http://" + s.addr + "/healthz"); err == nil {
			response.Body.Close()
			t.Errorf("status %d", response.StatusCode)
		}
		a.Shutdown(t.Context())
		if got := text.String(); !strings.Contains(got, "not ready for this") || !strings.Contains(got, "endpoints_test.go") {
			t.Errorf("own logger %v: logged %q", own, got)
		}
	}
}

func TestHealthWithoutReady(t *testing.T) {
	start(t, &observe.Admin{Stats: nothing}).want(200, "/healthz")
}

// stableNames are the keys of /stats: renaming one breaks its readers.
const stableNames = "schema engine service version pid uptime_seconds cpu_seconds rss_bytes goroutines " +
	"connections connections_accepted requests_received responses_sent late_responses_sent pushes_sent pushes_dropped " +
	"received_bytes sent_bytes panics tls_handshakes tls_resumed tls_handshakes_failed hand_offs helpers loop_sleeps loop_turns loop_events connection_buffers connection_buffer_bytes output_waiting_bytes output_memory_bytes input_memory_bytes connections_in_line connections_paused replies_owed rejected connections_ended"

func TestStatsNames(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing, Info: observe.Info{Service: "upper", Version: "v1"}})
	a := s.want(200, "/stats")
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(stableNames) {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is new: add it to stableNames, and keep it", name)
	}
	for _, part := range []string{`"engine": "buffered"`, `"service": "upper"`, `"version": "v1"`, fmt.Sprintf(`"pid": %d`, os.Getpid())} {
		if !strings.Contains(a.body, part) {
			t.Errorf("%s is missing in\n%s", part, a.body)
		}
	}
}

func TestStatsOfTheProcess(t *testing.T) {
	a := &observe.Admin{Stats: nothing}
	before := a.Snapshot()
	if runtime.GOOS != "linux" {
		t.Skip("CPU and memory of a process are guaranteed on Linux only")
	}
	if before.CPUSeconds == nil || before.RSSBytes == nil || *before.RSSBytes < 1<<20 {
		t.Fatalf("%+v", before)
	}
	eventually(t, "the processor time that this takes is counted", func() bool {
		now := a.Snapshot()
		return *now.CPUSeconds > *before.CPUSeconds && now.UptimeSeconds > before.UptimeSeconds
	})
}

func TestUnknownPaths(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for _, path := range []string{
		"/nope", "/debug", "/debug/vars", "/metrics/", "/stats/all", "/healthz/live", "/favicon.ico",
		"/debug/pprof/nope", "/debug/pprof/heap/more", "/debug/pprof/cmdline", "/debug/pprof/symbol",
		"/%2e%2e%2fetc%2fpasswd", "/metrics%00", "/METRICS", `/debug\pprof`,
	} {
		s.want(404, path)
	}
	for _, path := range []string{"//metrics", "/x/../stats", "/debug/pprof"} {
		if a := s.get(path); a.status/100 != 3 || !strings.HasPrefix(a.header.Get("Location"), "/") || strings.HasPrefix(a.header.Get("Location"), "//") {
			t.Errorf("GET %s: %d to %q, want a redirect on this host", path, a.status, a.header.Get("Location"))
		}
	}
}

func TestHead(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for _, path := range slices.Concat(everything, []string{"/debug/pprof/profile", "/debug/pprof/trace?seconds=60"}) {
		r := s.request(path)
		r.Method = "HEAD"
		if a := s.do(r); a.status != 200 || a.body != "" || a.header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %d %q %v", path, a.status, a.body, a.header)
		}
	}
}

func TestMethods(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
		for _, path := range everything {
			r := s.request(path)
			r.Method = method
			if a := s.do(r); a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, a.status, a.header.Get("Allow"))
			}
		}
	}
	r := s.request("/stats")
	r.Method = "POST"
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if a := s.do(r); a.status != 403 {
		t.Errorf("POST from another origin: %d, want 403", a.status)
	}
	if got := s.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 405 ") {
		t.Errorf("OPTIONS *: %s", got)
	}
}

func TestSecurityHeaders(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for _, path := range append(slices.Clone(everything), "/nope", "/?token=x", "//metrics") {
		a := s.get(path)
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy":              "no-referrer",
			"Cache-Control":                "no-store",
		} {
			if got := a.header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("GET %s (%d): %s %q, want %q", path, a.status, name, got, want)
			}
		}
	}
}

// TestDefaultMux checks what http.DefaultServeMux would serve: nothing of ours, and no profiles of
// net/http/pprof.
func TestDefaultMux(t *testing.T) {
	start(t, &observe.Admin{Stats: nothing}).want(200, "/debug/pprof/")
	process := httptest.NewServer(nil)
	defer process.Close()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for _, path := range append(slices.Clone(everything), "/debug/pprof/profile") {
		response, err := client.Get(process.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 404 {
			t.Errorf("http.DefaultServeMux answers %s with %d, want 404", path, response.StatusCode)
		}
	}
}

func TestStatsIsRequired(t *testing.T) {
	defer func() {
		if v := recover(); v != "observe: Admin.Stats is nil" {
			t.Errorf("panicked with %v", v)
		}
	}()
	(&observe.Admin{}).Handler()
}
