package torture

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// attackWith runs a scenario by its name.
func attackWith(t *testing.T, name string, a *Arena) Finding {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name != name {
			continue
		}
		if s.Kinds&a.target.kind == 0 {
			t.Fatalf("%s does not apply to this kind", name)
		}
		limit := a.Within
		if s.Waits {
			limit += a.Wait
		}
		f := s.Attack(within(t, limit), a)
		a.close()
		t.Logf("%s: %s: %s", name, f.Verdict, f.Words)
		for _, note := range a.notes {
			t.Log(note)
		}
		return f
	}
	t.Fatalf("there is no scenario %s", name)
	return Finding{}
}

// events answers with an event at once and another one much later.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Write([]byte("data: first\n\n"))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// eager has limits long enough for a busy machine, and short enough for a test.
var eager = Limits{Conns: 100, Few: 8, Within: time.Minute, Wait: time.Minute, Answer: 10 * time.Second}

func TestHTTPScenariosOnHTTP1(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/", web)
	mux.HandleFunc("/events", events)
	for _, s := range httpScenarios {
		if s.Access != Outside {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			path := "/page"
			if s.Name == "event-streams" {
				path = "/events"
			}
			limits := engine.Limits{FrameTime: 2 * time.Second, IdleTime: 3 * time.Second}
			if s.Name == "event-streams" {
				limits = engine.Limits{} // its crowd is silent until all have connected
			}
			at := serveHTTP1(t, mux, limits)
			a := arena(t, codec.HTTP{URL: at + path}, eager)
			if f := attackWith(t, s.Name, a); f.Verdict != Survived {
				t.Errorf("%s: %s", f.Verdict, f.Words)
			}
			if s.Name == "event-streams" {
				a = arena(t, codec.HTTP{URL: at + "/page"}, eager)
			}
			if err := a.Healthy(within(t, a.Within)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// A server that tells how many goroutines it has is found to keep one of each connection that is reset. A
// server that keeps none survives.
func TestGoroutinesThatStay(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	for _, leaks := range []bool{true, false} {
		t.Run(fmt.Sprint("leaks ", leaks), func(t *testing.T) {
			t.Parallel()
			var kept atomic.Int64
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				web(w, r)
				kept.Add(1)
				if leaks {
					go func() { <-ended }()
				}
			})
			mux.HandleFunc("/debug/pprof/goroutine", func(w http.ResponseWriter, _ *http.Request) { // the process has the tester's, too
				n := int64(10)
				if leaks {
					n += kept.Load()
				}
				fmt.Fprintf(w, "goroutine profile: total %d\n", n)
			})
			a := arena(t, codec.HTTP{URL: serveNetHTTP(t, &http.Server{Handler: mux}) + "/page"}, eager)
			a.target.learnProfiles(t.Context(), "")
			if f := attackWith(t, "reset-with-answers-due", a); (f.Verdict == Fell) != leaks || leaks && !strings.Contains(f.Words, "goroutines stay of") {
				t.Errorf("leaks: %v: %s: %s", leaks, f.Verdict, f.Words)
			}
		})
	}
}

// A server that refuses the request of the bystanders is not attacked: nothing would be known of it.
func TestRefusalIsNoGoodAnswer(t *testing.T) {
	t.Parallel()
	at := serveNetHTTP(t, &http.Server{Handler: http.NotFoundHandler()}) + "/"
	for _, c := range []struct {
		good []int
		want bool
	}{{nil, false}, {[]int{404}, true}} {
		p := Plan{Load: load.Plan{Target: codec.HTTP{URL: at, Statuses: c.good}}, Scenarios: []Scenario{}, Limits: quick, Baseline: time.Second / 2}
		_, err := Run(t.Context(), p)
		if (err == nil) != c.want || err != nil && !errors.Is(err, errNoBaseline) {
			t.Errorf("statuses %v: %v", c.good, err)
		}
	}
}

// A target that is not a stream of events is not asked for one.
func TestEventStreamsDoNotApply(t *testing.T) {
	t.Parallel()
	a := arena(t, codec.HTTP{URL: serveHTTP1(t, http.HandlerFunc(web), engine.Limits{}) + "/page"}, eager)
	if f := attackWith(t, "event-streams", a); f.Verdict != NotApplicable || !strings.Contains(f.Words, "text/plain") {
		t.Errorf("%s: %s", f.Verdict, f.Words)
	}
}

// The answers to all requests that a server takes may be more than fits into the scenario's time: they are as
// much as the scenario may send, and answers that are late only by the scenario's end say nothing.
func TestHalfCloseBesideLargeAnswers(t *testing.T) {
	t.Parallel()
	page := make([]byte, 256<<10)
	large := func(w http.ResponseWriter, _ *http.Request) { w.Write(page) }
	a := arena(t, codec.HTTP{URL: serveHTTP1(t, http.HandlerFunc(large), engine.Limits{}) + "/"}, eager)
	if f := attackWith(t, "half-close", a); f.Verdict != Survived {
		t.Errorf("%s: %s", f.Verdict, f.Words)
	}
	slow := func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(300 * time.Millisecond)
		w.Write(page)
	}
	short := eager
	short.Within = 1200 * time.Millisecond
	a = arena(t, codec.HTTP{URL: serveHTTP1(t, http.HandlerFunc(slow), engine.Limits{}) + "/"}, short)
	if f := attackWith(t, "half-close", a); f.Verdict != NotFoundOut || !strings.Contains(f.Words, "took longer") {
		t.Errorf("%s: %s", f.Verdict, f.Words)
	}
}
