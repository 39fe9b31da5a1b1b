package observe_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/observe"
)

// isProfile reports whether b is a complete, non-empty gzip stream, as profiles are.
func isProfile(b string) bool {
	r, err := gzip.NewReader(strings.NewReader(b))
	if err != nil {
		return false
	}
	n, err := io.Copy(io.Discard, r)
	return err == nil && n > 0
}

func isTrace(b string) bool { return strings.HasPrefix(b, "go 1.") }

func TestProfiles(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	index := s.want(200, "/debug/pprof/").body
	for _, p := range pprof.Profiles() {
		if !strings.Contains(index, p.Name()) {
			t.Errorf("the list does not mention %s", p.Name())
		}
		if a := s.want(200, "/debug/pprof/"+p.Name()); !isProfile(a.body) {
			t.Errorf("%s is not a profile: %.40q", p.Name(), a.body)
		} else if got := a.header.Get("Content-Disposition"); got != `attachment; filename="`+p.Name()+`"` {
			t.Errorf("Content-Disposition %s", got)
		}
		if a := s.want(200, "/debug/pprof/"+p.Name()+"?debug=1&gc=1"); a.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.ContainsAny(a.body, ":=") {
			t.Errorf("%s as text: %.60q", p.Name(), a.body)
		}
	}
	if a := s.want(200, "/debug/pprof/goroutine?debug=2"); !strings.Contains(a.body, "goroutine 1 [") {
		t.Errorf("no stacks in %.60q", a.body)
	}
	if a := s.want(200, "/debug/pprof/profile?seconds=0.05"); !isProfile(a.body) {
		t.Errorf("not a CPU profile: %.40q", a.body)
	}
	if a := s.want(200, "/debug/pprof/trace?seconds=0.05"); !isTrace(a.body) {
		t.Errorf("not a trace: %.40q", a.body)
	}
	if a := s.want(200, "/debug/pprof/trace"); !isTrace(a.body) {
		t.Errorf("the trace of default length is not a trace: %.40q", a.body)
	}
}

func TestInvalidProfileRequests(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	for path, says := range map[string]string{
		"profile?seconds=61":          "at most 60",
		"profile?seconds=60.1":        "at most 60",
		"profile?seconds=0":           "at most 60",
		"profile?seconds=-1":          "at most 60",
		"profile?seconds=":            "at most 60",
		"profile?seconds=1e99":        "at most 60",
		"profile?seconds=NaN":         "at most 60",
		"trace?seconds=Inf":           "at most 60",
		"trace?seconds=3600":          "at most 60",
		"heap?seconds=5":              "-diff_base",
		"heap?debug=3":                "0, 1 or 2",
		"heap?debug=-1":               "0, 1 or 2",
		"goroutine?debug=2147483648x": "0, 1 or 2",
	} {
		if a := s.want(400, "/debug/pprof/"+path); !strings.Contains(a.body, says) {
			t.Errorf("%s: %q does not say %q", path, a.body, says)
		}
	}
}

// begin starts a long capture and returns once it is in progress.
func (s *site) begin(ctx context.Context, name string) <-chan answer {
	s.t.Helper()
	got := make(chan answer, 1)
	r := s.request("/debug/pprof/" + name + "?seconds=60").WithContext(ctx)
	go func() {
		a, _ := s.try(r)
		got <- a
	}()
	eventually(s.t, name+" is being taken", func() bool { return s.admin.Taking(name) })
	return got
}

func TestOneCaptureAtATime(t *testing.T) {
	for _, name := range []string{"profile", "trace"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &observe.Admin{Stats: nothing})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			got := s.begin(ctx, name)
			if a := s.want(409, "/debug/pprof/"+name+"?seconds=1"); !strings.Contains(a.body, "try again") {
				t.Errorf("%q", a.body)
			}
			s.want(200, "/debug/pprof/heap") // a different profile is allowed
			leave()
			receive(t, "the client has left", got)
			eventually(t, "a client that left ends its capture", func() bool { return !s.admin.Taking(name) })
			s.want(200, "/debug/pprof/"+name+"?seconds=0.01")
		})
	}
}

func TestCaptureByTheProgramItself(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Fatal(err)
	}
	s.want(409, "/debug/pprof/profile?seconds=1")
	pprof.StopCPUProfile()
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	s.want(409, "/debug/pprof/trace?seconds=1")
	trace.Stop()
	s.want(200, "/debug/pprof/profile?seconds=0.01")
}

func TestShutdownEndsCaptures(t *testing.T) {
	s := start(t, &observe.Admin{Stats: nothing})
	profile, events := s.begin(t.Context(), "profile"), s.begin(t.Context(), "trace")
	s.shutdown()
	if a := receive(t, "a CPU profile", profile); a.status != 200 || !isProfile(a.body) {
		t.Errorf("the CPU profile until Shutdown: %d %.40q", a.status, a.body)
	}
	if a := receive(t, "a trace", events); a.status != 200 || !isTrace(a.body) {
		t.Errorf("the trace until Shutdown: %d %.40q", a.status, a.body)
	}
	s.shutdown() // a second call has no effect
}

// TestCaptureOutlastsWriteTime takes a capture that is longer than the write timeout, which is
// extended by the capture's length.
func TestCaptureOutlastsWriteTime(t *testing.T) {
	a := &observe.Admin{Stats: nothing}
	a.SetWriteTime(50 * time.Millisecond)
	s := start(t, a)
	if a := s.want(200, "/debug/pprof/profile?seconds=0.3"); !isProfile(a.body) {
		t.Errorf("%.40q", a.body)
	}
}

func TestShutdownDeadline(t *testing.T) {
	countLeaks(t)
	block, entered := make(chan struct{}), make(chan struct{})
	a := &observe.Admin{Stats: nothing, Ready: func() bool {
		close(entered)
		<-block
		return true
	}}
	ln, err := a.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, asked := make(chan error, 1), make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	client := http.Client{Timeout: patience}
	go func() {
		_, err := client.Get("http://" + ln.Addr().String() + "/healthz")
		asked <- err
	}()
	receive(t, "the answer is under way", entered)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Shutdown(ctx); err == nil {
		t.Error("Shutdown returned nil with a response in progress and no time left")
	}
	if err := receive(t, "the connection closes", asked); err == nil {
		t.Error("the connection was not closed")
	}
	close(block)
	if err := receive(t, "Serve returns", served); err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
}
