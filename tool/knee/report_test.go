package knee

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// A server that aborts every request has failed under load if it met the goals before; a
// server that never met them cannot be measured.
func TestKneeOfAServerThatBreaksOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	s := searched(t)
	s.Load = load.Plan{Target: codec.HTTP{URL: server.URL, Method: http.MethodPost}, Conns: 8, For: 100 * time.Millisecond, Warmup: -1}
	p, err := s.once(t.Context(), s.Load, Step{Load: 20_000})
	if err != nil || p.Invalid || p.Met || !strings.Contains(p.Why, "the server closed the connections of ") {
		t.Errorf("%v: %+v", err, p)
	}
	s.points = nil
	if _, err := s.once(t.Context(), s.Load, Step{Load: 1}); err == nil {
		t.Error("there is no knee, and no error")
	}
}

// result builds a run's result.
func result(offered, rate, p50, p99 float64) *load.Result {
	r := &load.Result{Valid: true, Requests: int64(rate), Window: time.Second, Offered: &offered, Rate: &rate, Errors: map[string]int64{"total": 0}}
	r.Latency.P50, r.Latency.P99 = &p50, &p99
	return r
}

func TestFailuresInWords(t *testing.T) {
	r := result(1000, 500, 100, 200)
	r.Errors = map[string]int64{"total": 500, "failed": 500}
	if got := failures(r); got != "500 of 500 requests failed" {
		t.Errorf("%q", got)
	}
}

func TestGeneratorsLag(t *testing.T) {
	for want, goals := range map[time.Duration][]string{
		time.Millisecond:     {"p99<5ms", "p50<100ms"},
		4 * time.Millisecond: {"errors==0", "service.max<40ms", "p99<1s", "rate>5"},
	} {
		s := &Search{Goals: goalsOf(t, goals...)}
		if got := s.mostLag(); got != want {
			t.Errorf("%v: %v, want %v", goals, got, want)
		}
	}
}

func goalsOf(t *testing.T, texts ...string) (goals []load.Goal) {
	t.Helper()
	for _, text := range texts {
		g, err := load.ParseGoal(text)
		if err != nil {
			t.Fatal(err)
		}
		goals = append(goals, g)
	}
	return goals
}

// searched returns a search whose trials are done: a server with a capacity of 8,000
// req/s.
func searched(t *testing.T, states ...string) *Search {
	t.Helper()
	s := &Search{Goals: goalsOf(t, "p99<5ms"), Plan: Plan{From: 1000, Confirm: 1}}
	for len(s.points) < 50 {
		step, more := s.Plan.Next(s.made())
		if !more {
			break
		}
		p := measured{Trial: Trial{Step: step, Met: step.Load <= 8000}}
		p.result = result(step.Load, min(step.Load, 8000), 100, 200+max(0, step.Load-8000)*1000)
		switch {
		case len(states) > 0 && step.Load > 3000:
			p.Invalid, p.Why = true, states[0]
		case !p.Met:
			p.Why = "p99<5ms missed: p99 is 8ms"
		}
		s.points = append(s.points, p)
	}
	return s
}

func TestKneeText(t *testing.T) {
	var b strings.Builder
	s := searched(t)
	s.Report("127.0.0.1:7000").Write(&b)
	text := b.String()
	if first, _, _ := strings.Cut(text, "\n"); first != "VALID: the knee of p99<5ms is at 8,000/s; at 8,087/s: p99<5ms missed: p99 is 8ms" {
		t.Errorf("it begins with %q", first)
	}
	for _, want := range []string{
		"   1,000/s       1      1,000  100 µs   200 µs      –  met\n",
		"   8,087/s       2      8,000  100 µs  87.2 ms      –  missed\n",
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
}

// TestKneeExitCodes has one case for each outcome of a search.
func TestKneeExitCodes(t *testing.T) {
	codeOf := func(s *Search, interrupted bool) string {
		end := new(exit.Error)
		if err := s.Report("x").Failure(interrupted, true); err != nil {
			end = err.(*exit.Error)
		}
		return fmt.Sprintf("%d %v", end.Code, end.Err)
	}
	whole := searched(t)
	if got := codeOf(whole, true); got != "0 <nil>" {
		t.Errorf("interrupted when it had been found: %s", got)
	}
	half := searched(t)
	half.points = half.points[:4]
	if got := codeOf(half, true); !strings.HasPrefix(got, "130 knee: interrupted; it is only known that p99<5ms is met at 8,000/s (in 1 trial): the search did not finish after 4 trials") {
		t.Errorf("interrupted: %s", got)
	}
	if got := codeOf(searched(t, "the generator was busy"), false); !strings.HasPrefix(got, "4 knee: it is only known that p99<5ms is met at 2,") || !strings.HasSuffix(got, "could not be offered: the generator was busy") {
		t.Errorf("hidden: %s", got)
	}
	below := searched(t)
	below.Plan.From, below.points = 9000, nil
	for range 2 {
		step, _ := below.Plan.Next(below.made())
		below.points = append(below.points, measured{Trial: Trial{Step: step, Met: false}, Why: "too slow"})
	}
	if got := codeOf(below, false); got != "3 knee: p99<5ms is missed even at 9,000/s, the lowest load: too slow; use a lower --from or a weaker goal" {
		t.Errorf("below: %s", got)
	}
	whole.Plan.To = whole.points[3].Load
	whole.points = append(whole.points[:4], whole.points[3])
	whole.points[4].Full = true
	if got := codeOf(whole, false); got != "0 <nil>" || whole.Report("x").Summary != "p99<5ms is met up to 8,000/s, the highest load; raise --to" {
		t.Errorf("above: %s, %s", got, whole.Report("x").Summary)
	}
}
