package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// pacedServer answers a request every so often, whatever machine it is on: each has
// its moment, and waits for it.
func pacedServer(t *testing.T, every time.Duration) string {
	t.Helper()
	var mu sync.Mutex
	var next time.Time
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if now := time.Now(); next.Before(now) {
			next = now
		}
		next = next.Add(every)
		timer := time.NewTimer(time.Until(next))
		mu.Unlock()
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// kneeJSON runs hone knee, which may find the machine too busy to say anything, and
// returns the exit code and the result.
func kneeJSON(t *testing.T, args ...string) (code int, report kneeReport) {
	t.Helper()
	var out, said strings.Builder
	code = run(t.Context(), append([]string{"knee", "--json"}, args...), strings.NewReader(""), &out, &said)
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out.String(), said.String())
	}
	if report.Schema != "hone.knee/1" || report.Valid != (code == exit.OK || code == exit.Missed) || report.Valid != (len(report.InvalidReasons) == 0) || len(report.Trials) == 0 {
		t.Errorf("exit code %d: %+v", code, report)
	}
	return code, report
}

// A server that breaks off every request has given in, once it has met the goals; one that
// never has is not to be measured.
func TestKneeOfAServerThatBreaksOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	s := curveSearch(t)
	s.watcher = newKneeWatcher(io.Discard, s, server.URL)
	defer s.watcher.end()
	plan := load.Plan{Target: load.HTTP{URL: server.URL, Method: http.MethodPost}, Conns: 8, For: 100 * time.Millisecond, Warmup: -1}
	p, err := s.once(t.Context(), plan, knee.Step{Load: 20_000})
	if err != nil || p.Invalid || len(p.Met) != 1 || p.Met[0] || !strings.Contains(p.Why, "the server closed the connections of ") {
		t.Errorf("%v: %+v", err, p)
	}
	s.points = nil
	if _, err := s.once(t.Context(), plan, knee.Step{Load: 1}); err == nil {
		t.Error("there is no knee, and no error")
	}
}

// TestKnee searches for the capacity of a server that is known. How much of it is
// found on a busy machine is chance, but never more than there is. What a search
// finds when nothing is chance is in package knee's tests.
func TestKnee(t *testing.T) {
	t.Parallel() // it waits more than it works
	store := t.TempDir() + "/runs.db"
	code, report := kneeJSON(t, pacedServer(t, 5*time.Millisecond), "--goal", "p50<60ms", "--goal", "p50<80ms", "--from", "100", "--to", "1000",
		"--width", "30%", "--trial", "900ms", "--cool", "50ms", "--confirm", "1", "--save", "paced", "--store", store)
	if code != exit.OK && code != exit.Invalid && code != exit.Missed {
		t.Errorf("exit code %d: %+v", code, report)
	}
	if report.Knee.Met != nil && *report.Knee.Met > 230 {
		t.Errorf("200 answers a second are all there are, and it found %g", *report.Knee.Met)
	}
	if code == exit.OK && report.Knee.State != knee.Found.String() || report.Unit != "req/s" || len(report.Goals) != 2 || report.Goals[1].Goal != "p50<80ms" {
		t.Errorf("%+v", report)
	}
	if code == exit.OK && *report.Knee.Missed > 1.3001**report.Knee.Met {
		t.Errorf("the range is %g to %g", *report.Knee.Met, *report.Knee.Missed)
	}
	s, err := record.OpenRead(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept, err := s.Get(t.Context(), "paced")
	if err != nil {
		t.Fatal(err)
	}
	if kept.Made != "knee" || len(kept.Samples) != len(report.Trials) || !strings.Contains(kept.Scenario.Text, "axis=rate\ngoal=p50<60ms,p50<80ms\n") || kept.Environment.Strict["topology"] != "loopback" {
		t.Errorf("%s: %d samples of %d trials, %+v", kept.Made, len(kept.Samples), len(report.Trials), kept.Scenario)
	}
	for i, sample := range kept.Samples {
		if m := sample.Metrics[0]; m.Name != "load" || m.Unit != "req/s" || m.Value != report.Trials[i].Load || sample.Order != i+1 || sample.Valid != report.Trials[i].Valid {
			t.Errorf("sample %d is %+v, its trial %+v", i, sample, report.Trials[i])
		}
	}
}

// TestKneeOfConnections: each of them takes a place, and the tenth has none.
func TestKneeOfConnections(t *testing.T) {
	t.Parallel() // it waits more than it works
	places := make(chan struct{}, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		timer := time.NewTimer(20 * time.Millisecond) // so that all who can be here at a time are
		defer timer.Stop()
		<-timer.C
	}))
	defer server.Close()
	code, report := kneeJSON(t, server.URL, "--axis", "conns", "--goal", "p50<5s", "--trial", "600ms", "--cool", "50ms", "--confirm", "1", "--from", "7", "--to", "64")
	if code != exit.OK && code != exit.Invalid || report.Knee.Met != nil && *report.Knee.Met > 12 && code == exit.OK || report.Unit != "connections" {
		t.Errorf("exit code %d: %+v", code, report)
	}
	for _, trial := range report.Trials {
		if trial.Load <= 9 && trial.Errors > 0 || trial.Valid && trial.Errors == 0 && trial.Why != "" {
			t.Errorf("%+v", trial)
		}
	}
}

func TestKneeOfWhatIsNeverMet(t *testing.T) {
	t.Parallel() // it waits more than it works
	code, report := kneeJSON(t, pacedServer(t, time.Millisecond), "--goal", "p50<1ns", "--trial", "300ms", "--from", "200", "--cool", "0s")
	switch code {
	case exit.Missed:
		if report.Knee.State != knee.Below.String() || report.Knee.Met != nil || *report.Knee.Missed != 200 || !strings.HasPrefix(report.whyMissed(200), "p50<1ns missed: p50 is ") {
			t.Errorf("%+v", report)
		}
	case exit.Invalid: // a machine that is too busy even for 200 requests a second
	default:
		t.Errorf("exit code %d: %+v", code, report)
	}
}

// result makes the result of a run.
func result(offered, rate, p50, p99 float64) *load.Result {
	r := &load.Result{Valid: true, Requests: int64(rate), Window: time.Second, Offered: &offered, Rate: &rate, Errors: map[string]int64{"total": 0}}
	r.Latency.P50, r.Latency.P99 = &p50, &p99
	return r
}

func TestBehind(t *testing.T) {
	for _, c := range []struct {
		offered, answered float64
		p50               float64 // µs
		behind            bool
	}{
		{10_000, 10_000, 100, false},
		{10_000, 9_950, 100, false},
		{10_000, 9_850, 100, true},
		{10_000, 9_850, 2_000_000, false}, // so many are under way at any time
		{10_000, 5_000, 2_000_000, true},
		{10, 9, 100_000, false},
	} {
		if got := behind(result(c.offered, c.answered, c.p50, 0)); (got != "") != c.behind {
			t.Errorf("%+v: %q", c, got)
		}
	}
	r := result(1000, 500, 100, 200)
	r.Errors = map[string]int64{"total": 500, "failed": 500}
	if got := behind(r); got != "" {
		t.Errorf("answers that say no are answers: %q", got)
	}
	if got := failures(r); got != "500 of 500 requests failed" {
		t.Errorf("%q", got)
	}
	if got := behind(&load.Result{}); got != "" {
		t.Errorf("a closed loop has no rate to keep: %q", got)
	}
}

func TestGeneratorsLag(t *testing.T) {
	for want, goals := range map[time.Duration][]string{
		time.Millisecond:     {"p99<5ms", "p50<100ms"},
		4 * time.Millisecond: {"errors==0", "service.max<40ms", "p99<1s", "rate>5"},
	} {
		s := &kneeSearch{flags: new(kneeFlags)}
		for _, goal := range goals {
			if err := s.flags.goals.Set(goal); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.mostLag(); got != want {
			t.Errorf("%v: %v, want %v", goals, got, want)
		}
	}
}

// curveSearch is a search whose trials have been made: a server of 8,000 a second.
func curveSearch(t *testing.T, states ...string) *kneeSearch {
	t.Helper()
	f := new(kneeFlags)
	f.axis = &choice{value: axisRate}
	if err := f.goals.Set("p99<5ms"); err != nil {
		t.Fatal(err)
	}
	s := &kneeSearch{flags: f, plan: knee.Plan{From: 1000, Confirm: 1}}
	for len(s.points) < 50 {
		step, more := s.plan.Next(s.made())
		if !more {
			break
		}
		p := kneePoint{Trial: knee.Trial{Step: step, Met: []bool{step.Load <= 8000}}}
		p.result = result(step.Load, min(step.Load, 8000), 100, 200+max(0, step.Load-8000)*1000)
		switch {
		case len(states) > 0 && step.Load > 3000:
			p.Invalid, p.Why = true, states[0]
		case !p.Met[0]:
			p.Why = "p99<5ms missed: p99 is 8ms"
		}
		s.points = append(s.points, p)
	}
	return s
}

func TestKneeText(t *testing.T) {
	var b strings.Builder
	s := curveSearch(t)
	s.report("127.0.0.1:7000", false).write(&b)
	text := b.String()
	if first, _, _ := strings.Cut(text, "\n"); first != "VALID: the knee of p99<5ms is at 8,000/s; at 8,087/s: p99<5ms missed: p99 is 8ms" {
		t.Errorf("it begins with %q", first)
	}
	for _, want := range []string{
		"   1,000/s       1      1,000  100 µs   200 µs      –  met\n",
		"   8,087/s       2      8,000  100 µs  87.2 ms      –  missed\n",
		"p99 against answers a second: ● met, × missed, ┈ the goal\n",
		"│●                     ●                    ●                     ●\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && !strings.HasPrefix(line, "VALID") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("it has colours, and nobody looks")
	}
	b.Reset()
	s.report("127.0.0.1:7000", true).write(&b)
	if !strings.Contains(b.String(), colourGreen+"●"+colourNone) || !strings.Contains(b.String(), colourRed+"×"+colourNone) {
		t.Errorf("it has no colours:\n%s", b.String())
	}
}

// TestKneeExitCodes has one for each end of a search.
func TestKneeExitCodes(t *testing.T) {
	codeOf := func(s *kneeSearch, interrupted bool) string {
		end := new(exit.Error)
		if err := s.report("x", false).failure(interrupted, true); err != nil {
			end = err.(*exit.Error)
		}
		return fmt.Sprintf("%d %v", end.Code, end.Err)
	}
	whole := curveSearch(t)
	if got := codeOf(whole, true); got != "0 <nil>" {
		t.Errorf("interrupted when it had been found: %s", got)
	}
	half := curveSearch(t)
	half.points = half.points[:4]
	if got := codeOf(half, true); !strings.HasPrefix(got, "130 knee: interrupted; all that is known is that p99<5ms is met at 8,000/s: the search is not finished after 4 trials") {
		t.Errorf("interrupted: %s", got)
	}
	if got := codeOf(curveSearch(t, "the generator was busy"), false); !strings.HasPrefix(got, "4 knee: all that is known is that p99<5ms is met at 2,") || !strings.HasSuffix(got, "could not be offered: the generator was busy") {
		t.Errorf("hidden: %s", got)
	}
	below := curveSearch(t)
	below.plan.From, below.points = 9000, nil
	for range 2 {
		step, _ := below.plan.Next(below.made())
		below.points = append(below.points, kneePoint{Trial: knee.Trial{Step: step, Met: []bool{false}}, Why: "too slow"})
	}
	if got := codeOf(below, false); got != "3 knee: p99<5ms is missed under 9,000/s already, the lowest load: too slow; lower --from, or the goal" {
		t.Errorf("below: %s", got)
	}
	whole.plan.To = whole.points[3].Load
	whole.points = append(whole.points[:4], whole.points[3])
	whole.points[4].Full = true
	if got := codeOf(whole, false); got != "0 <nil>" || whole.report("x", false).head() != "p99<5ms is met up to 8,000/s, the highest load; raise --to" {
		t.Errorf("above: %s, %s", got, whole.report("x", false).head())
	}
}
