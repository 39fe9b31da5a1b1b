package load

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// sound returns a valid measurement: 1,000 requests in a second, answered within a millisecond.
func sound() *Measured {
	m := &Measured{
		tally: *newTally(true), plan: must1(Plan{Target: codec.Frames{}, Rate: 1000, For: time.Second}.complete()),
		Span: time.Second, Lag: newHistogram(), Offered: 1000,
		CPU: 500 * time.Millisecond, CPUSpan: time.Second, CPUKnown: true, Procs: 2,
	}
	for i := range int64(1000) {
		m.Latency.record((i+1)*1000, 1)
		m.Service.record((i+1)*500, 1)
		m.Lag.record(10_000, 1)
	}
	m.Answered, m.During, m.Good = 1100, 1000, 1000
	return m
}

// closed makes a sound measurement that of a closed loop whose generator had these delays.
func closed(m *Measured, delay histogram) {
	m.Lag, m.Offered, m.Delay = histogram{}, 0, delay
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestGate(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Measured)
		says  string // of the only reason; empty: valid
	}{
		{"sound", func(*Measured) {}, ""},
		{"closed loop", func(m *Measured) { m.Lag, m.Offered, m.During = histogram{}, 0, 10 }, ""},
		{"a little behind", func(m *Measured) { m.During = 990 }, ""},
		{"behind", func(m *Measured) { m.During = 900 }, "only 900 of the 1000 requests offered were answered in time (90.0 %"},
		{"behind by a stall", func(m *Measured) { m.plan.MaxStall, m.During = 100*time.Millisecond, 900 }, ""},
		{"behind by more", func(m *Measured) { m.plan.MaxStall, m.During = 50*time.Millisecond, 900 }, "only 900 of the 1000"},
		{"lag at its limit", func(m *Measured) { m.plan.MaxLag, m.Lag = 11*time.Microsecond, spiked(3_000_000, 9) }, ""},
		{"lag", func(m *Measured) { m.Lag = spiked(3_000_000, 20) }, "the generator itself sent 1 % of the requests 3"},
		{"one stop", func(m *Measured) { m.plan.MaxLag, m.Lag = time.Second/20, spiked(101_000_000, 1) }, "the generator itself did not run for 101 ms (the limit is 100 ms)"},
		{"delays in a closed loop", func(m *Measured) { closed(m, spiked(3_000_000, 10)) }, ""},
		{"delays of one answer in a hundred", func(m *Measured) { closed(m, spiked(3_000_000, 11)) }, "the generator itself read 1 % of the answers 3"},
		{"delays of every second answer", func(m *Measured) { closed(m, spiked(3_000_000, 501)) }, "the generator itself read half of the answers 3"},
		{"delays of a quarter", func(m *Measured) { closed(m, spiked(2_400_000, 20)); m.Latency = spiked(10_000_000, 20) }, ""},
		{"delays above a quarter", func(m *Measured) { closed(m, spiked(2_600_000, 20)); m.Latency = spiked(10_000_000, 20) }, "(the limit for p99 is 2.5"},
		{"delays within a given limit", func(m *Measured) { closed(m, spiked(3_000_000, 501)); m.plan.MaxLag = 4 * time.Millisecond }, ""},
		{"one stop in a closed loop", func(m *Measured) { closed(m, spiked(1, 1)); m.Stop = 1500 * time.Millisecond }, "the generator itself did not run for 1.50 s"},
		{"stopped in pieces", func(m *Measured) { closed(m, spiked(1, 1)); m.Stopped = 21 * time.Millisecond }, "the generator itself did not run in 2.1 % of the time (the limit is 2 %); the rate is at least 1000/s; give it CPUs"},
		{"stopped for less", func(m *Measured) { closed(m, spiked(1, 1)); m.Stopped = 19 * time.Millisecond }, ""},
		{"stopped in a short run", func(m *Measured) {
			closed(m, spiked(1, 1))
			m.Stopped, m.Span = 9*time.Millisecond, 100*time.Millisecond
		}, ""},
		{"waits for the server", func(m *Measured) { closed(m, spiked(1, 1)); m.Waited, m.Rivals = time.Second/2, new(0.09) }, ""},
		{"waits for others", func(m *Measured) { closed(m, spiked(1, 1)); m.Waited, m.Rivals = time.Second/2, new(0.11) }, "other programs kept the server or the generator waiting for a CPU in 5.5 % of the time (the limit is 5 %); the rate is at least 1000/s; stop them"},
		{"the server waits for others", func(m *Measured) {
			closed(m, spiked(1, 1))
			m.plan.Conns, m.plan.Depth, m.ServerWaited, m.Rivals = 1, 1, time.Second/2, new(0.11)
		}, "the server or the generator waiting for a CPU in 5.5 %"},
		{"at a rate the server waits for others", func(m *Measured) { m.ServerWaited, m.Rivals = time.Second, new(0.9) }, ""},
		{"two threads of the server wait for others", func(m *Measured) {
			closed(m, spiked(1, 1))
			m.plan.Conns, m.plan.Depth, m.ServerWaited, m.Rivals = 1, 2, time.Second/2, new(0.11)
		}, ""},
		{"waits for others and is stopped", func(m *Measured) {
			closed(m, spiked(1, 1))
			m.Stopped, m.Waited, m.Rivals = 19*time.Millisecond, time.Second/2, new(0.07)
		}, "waiting for a CPU in 5.4 % of the time"},
		{"waits for somebody", func(m *Measured) { closed(m, spiked(1, 1)); m.Waited, m.ServerWaited = time.Second/2, time.Second }, ""},
		{"CPU", func(m *Measured) { m.CPU = 1700 * time.Millisecond }, "the generator used 85 % of the CPU it has"},
		{"CPU at its limit", func(m *Measured) { m.CPU = 1599 * time.Millisecond }, ""},
		{"CPU of a closed loop that may be busy", func(m *Measured) { closed(m, spiked(1, 1)); m.CPU, m.plan.AllowLate = 1900*time.Millisecond, true }, ""},
		{"CPU at a rate that may not", func(m *Measured) { m.CPU, m.plan.AllowLate = 1900*time.Millisecond, true }, "the generator used 95 % of the CPU it has"},
		{"churn alone waits for others", func(m *Measured) {
			closed(m, histogram{})
			m.plan.Conns, m.plan.Churn, m.Waited, m.Rivals = 0, 100, time.Second/2, new(0.5)
		}, ""},
		{"CPU in a moment", func(m *Measured) { m.CPU, m.CPUSpan = 19*time.Millisecond, 10*time.Millisecond }, ""},
		{"CPU unknown", func(m *Measured) { m.CPU, m.CPUKnown = time.Hour, false }, ""},
		{"errors", func(m *Measured) { m.Errors[Failed], m.Errors[Timeout], m.Example = 3, 2, exampleOf(wire.Overloaded) },
			`5 of 1000 requests failed (2 timeout, 3 failed; the first failure was "wire: overloaded")`},
		{"a status", func(m *Measured) { m.Errors[Failed], m.Example = 3, exampleOf(codec.Status(404)) },
			`(3 failed; the first failure was "HTTP 404 Not Found"); look into the target's log, accept that status (--status 404), or allow errors`},
		{"a step's status", func(m *Measured) {
			m.Errors[Failed], m.Example = 3, exampleOf(fmt.Errorf("step buy: %w", codec.Status(503)))
		}, "accept that status (status = 503 in the step), or allow"},
		{"allowed errors", func(m *Measured) { m.Errors[Failed], m.plan.AllowErrors = 3, true }, ""},
		{"few requests", func(m *Measured) { m.Latency = spiked(1000, 99); m.Offered, m.During = 99, 99 }, "only 99 requests were measured"},
		{"interrupted", func(m *Measured) { m.Interrupted, m.Span, m.During = true, 300*time.Millisecond, 100 }, "interrupted after 300 ms of 1.00 s"},
		{"failed", func(m *Measured) {
			m.Failure, m.Errors[codec.Silent], m.During = &Error{Kind: codec.Silent, What: "no answer", Try: "look"}, 1, 0
		}, "load: no answer; look"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := sound()
			c.spoil(m)
			r := m.result()
			t.Log(r.InvalidReasons)
			if c.says == "" {
				if !r.Valid || r.InvalidReasons == nil || len(r.InvalidReasons) > 0 {
					t.Errorf("valid %v, reasons %#v", r.Valid, r.InvalidReasons)
				}
				return
			}
			if r.Valid || len(r.InvalidReasons) != 1 || !strings.Contains(r.InvalidReasons[0], c.says) {
				t.Fatalf("valid %v, reasons %q, want %q", r.Valid, r.InvalidReasons, c.says)
			}
			if !strings.Contains(r.InvalidReasons[0], "; ") {
				t.Errorf("%q does not say what to try", r.InvalidReasons[0])
			}
		})
	}
}

// A generator that may be late leaves a valid result without the rate that is not the server's.
func TestRateIsWithheld(t *testing.T) {
	m := sound()
	closed(m, spiked(1, 1))
	m.plan.MaxLag, m.Stopped = 100*time.Millisecond, 60*time.Millisecond
	r := m.result()
	var b strings.Builder
	WriteText(&b, "a server", m.plan, r, nil)
	if !r.Valid || r.Rate != nil || r.RateAtLeast == nil || *r.RateAtLeast != 1000 || !strings.Contains(strings.Join(r.Warnings, ""), "did not run in 6.0 %") || !strings.Contains(b.String(), "at least 1,000/s\n") {
		t.Errorf("valid %v, rate %v, at least %v, warnings %q:\n%s", r.Valid, r.Rate, r.RateAtLeast, r.Warnings, b.String())
	}
	for text, met := range map[string]bool{"rate>=900": true, "rate>1001": false, "rate<2000": false} {
		if o := Check(r, []Goal{must[Goal](t)(ParseGoal(text))})[0]; o.Met != met || (o.Got != nil) != met {
			t.Errorf("%v", o)
		}
	}
	if m.Stopped = 15 * time.Millisecond; m.result().Rate == nil {
		t.Error("no rate, and nothing was lost")
	}
}

// The first line of a valid result says by what it was judged.
func TestValidSaysTheBound(t *testing.T) {
	for want, spoil := range map[string]func(*Measured){
		"(10.0 µs of p99 at most, limit 1.00 ms)": func(*Measured) {},
		"(0.00 µs of p99 at most, limit 2.50 ms; it did not run in 1.5 % of the time, limit 2 %; other programs kept it or the server waiting in 3.0 %, limit 5 %)": func(m *Measured) {
			closed(m, spiked(1, 1000))
			m.Latency, m.Stopped, m.Waited, m.Rivals = spiked(10_000_000, 20), 15*time.Millisecond, time.Second, new(0.03)
		},
		"(0.00 µs of p99 at most, limit 1.00 s; it did not run in 30.0 % of the time: the rate is a lower bound)": func(m *Measured) {
			closed(m, spiked(1, 1000))
			m.plan.MaxLag, m.Latency, m.Stopped = time.Second, spiked(10_000_000, 20), 300*time.Millisecond
		},
		"(0.00 µs of p99 at most, limit 1.00 s; other programs kept it or the server waiting in 30.0 % of the time: the rate is a lower bound)": func(m *Measured) {
			closed(m, spiked(1, 1000))
			m.plan.MaxLag, m.Latency, m.Waited, m.Rivals = time.Second, spiked(10_000_000, 20), time.Second/2, new(0.6)
		},
	} {
		m := sound()
		spoil(m)
		var b strings.Builder
		WriteText(&b, "a server", m.plan, m.result(), nil)
		if first, _, _ := strings.Cut(b.String(), "\n"); first != "VALID: the figures are the server's, not the generator's "+want {
			t.Errorf("%q, want %q", first, want)
		}
	}
}

// One line of doubt stands before the figures.
func TestDoubtsStandBehindTheFigures(t *testing.T) {
	m := sound()
	closed(m, spiked(3_000_000, 501))
	m.Stop, m.Retries = time.Second, 500
	var b strings.Builder
	WriteText(&b, "a server", m.plan, m.result(), nil)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	figures := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "latency") })
	if !strings.HasPrefix(lines[1], "target") {
		t.Errorf("the second line is %q", lines[1])
	}
	for i, line := range lines {
		if doubt := strings.HasPrefix(line, "INVALID") || strings.HasPrefix(line, "WARNING"); doubt != (i == 0 || i >= len(lines)-3) || doubt && i > 0 && i < figures {
			t.Errorf("line %d of %d: %q", i, len(lines), line)
		}
	}
}

// Whether a target keeps up depends on the rate, and on how many requests are in flight at any time.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		offered, answered, lost int64
		median                  time.Duration
		behind, allowed         bool // of the rate; and where the caller judges that
	}{
		{10_000, 10_000, 0, 100 * time.Microsecond, false, false},
		{10_000, 9_950, 0, 100 * time.Microsecond, false, false},
		{10_000, 9_850, 0, 100 * time.Microsecond, true, true},
		{10_000, 9_850, 0, 2 * time.Second, false, false},
		{10_000, 5_000, 0, 2 * time.Second, true, true},
		{10, 9, 0, 100 * time.Millisecond, false, false},
		{10_000, 9_000, 1_000, 100 * time.Microsecond, false, true},
	} {
		m := sound()
		m.Latency = newHistogram()
		m.Latency.record(int64(c.median), c.offered)
		m.plan.Rate, m.Offered, m.During, m.Good, m.Lost, m.Errors[Timeout] = float64(c.offered), c.offered, c.answered, 0, c.lost, c.lost
		if got := m.kept(); (got != nil) != c.behind {
			t.Errorf("%+v: kept %v", c, got)
		}
		m.plan.AllowBehind, m.plan.AllowErrors = true, true
		if r := m.result(); (r.Kept != nil) != c.allowed || strings.Contains(strings.Join(r.InvalidReasons, ""), "in time") || r.Kept != nil && *r.Kept != float64(c.answered)/float64(c.offered) {
			t.Errorf("%+v, allowed: kept %v, %q", c, r.Kept, r.InvalidReasons)
		}
	}
	m := sound()
	closed(m, spiked(1, 1))
	if got := m.kept(); got != nil {
		t.Errorf("a closed loop has no rate to keep: %v", *got)
	}
}

// spiked returns a thousand values of 10 µs and n of ns; just n if there are few.
func spiked(ns int64, n int64) histogram {
	h := newHistogram()
	h.record(ns, n)
	if n < 99 || n > 500 {
		h.record(10_000, 1000-n)
	}
	return h
}

func TestQuantilesNeedEnoughRequests(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want string // the quantiles that are not nil
	}{
		{0, ""}, {1, "max"}, {2, "p50 max"}, {10, "p50 p90 max"}, {99, "p50 p90 max"}, {100, "p50 p90 p99 max"}, {1000, "p50 p90 p99 p999 max"},
	} {
		h := newHistogram()
		h.record(5_000, c.n)
		if c.n == 0 {
			h = newHistogram()
		}
		q := QuantilesOf(h.Histogram)
		var have []string
		for _, f := range []struct {
			name   string
			figure *float64
		}{{"p50", q.P50}, {"p90", q.P90}, {"p99", q.P99}, {"p999", q.P999}, {"max", q.Max}} {
			if f.figure != nil {
				have = append(have, f.name)
				if math.Abs(*f.figure-5) > 0.01 {
					t.Errorf("%s of %d times 5 µs is %v", f.name, c.n, *f.figure)
				}
			}
		}
		if got := strings.Join(have, " "); got != c.want {
			t.Errorf("%d requests have %q, want %q", c.n, got, c.want)
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	full := sound()
	full.Errors[Failed], full.Errors[codec.WrongContent] = 2, 1
	full.Good = 997
	withServer := full.result()
	withServer.Server = &Server{CPUPerRequest: new(1.5), RSS: new(int64), Engine: new(string)}
	*withServer.Server.RSS, *withServer.Server.Engine = 4096, "buffered"
	nothing := &Measured{tally: *newTally(false), plan: full.plan, Interrupted: true, Procs: 2}
	got, err := json.MarshalIndent([]*Result{withServer, nothing.result()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/result.json"
	if os.Getenv("HONE_TEST_UPDATE") == "1" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := must[[]byte](t)(os.ReadFile(golden))
	if strings.TrimSpace(string(got)) != strings.TrimSpace(string(want)) {
		t.Errorf("the JSON differs from %s (HONE_TEST_UPDATE=1 rewrites it):\n%s", golden, got)
	}
	var back []*Result
	if err := json.Unmarshal(got, &back); err != nil || *back[0].Latency.P99 != *withServer.Latency.P99 || back[1].Rate != nil {
		t.Errorf("read back: %v, %+v", err, back)
	}
}

func TestParseGoal(t *testing.T) {
	for _, c := range []struct {
		text, metric, than string
		value              float64
		part               bool
	}{
		{"p99<5ms", "p99", "<", 5000, false},
		{"p50<=250us", "p50", "<=", 250, false},
		{"p50<=250µs", "p50", "<=", 250, false},
		{" p99.9 < 1.5 s ", "p999", "<", 1.5e6, false},
		{"max<1m", "max", "<", 6e7, false},
		{"service.p99>=10ns", "service.p99", ">=", 0.01, false},
		{"rate>=10000", "rate", ">=", 10000, false},
		{"rate>1e6", "rate", ">", 1e6, false},
		{"errors==0", "errors", "==", 0, false},
		{"errors<0.1%", "errors", "<", 0.001, true},
		{"requests>=5", "requests", ">=", 5, false},
	} {
		g, err := ParseGoal(c.text)
		if err != nil || g.Metric != c.metric || g.Than != c.than || math.Abs(g.Value-c.value) > 1e-12*c.value || g.Part != c.part {
			t.Errorf("%q: %+v, %v", c.text, g, err)
		}
		if g.String() != c.text {
			t.Errorf("%q prints as %q", c.text, g)
		}
	}
	for _, text := range []string{
		"", "p99", "<5ms", "p98<5ms", "p99<5", "p99<ms", "p99<-5ms", "p99=5ms", "p99!=5ms", "p99<<5ms", "rate>=fast",
		"rate>=5ms", "rate>=10%", "requests>5%", "errors==-1", "errors==NaN", "errors<Inf", "latency<5ms", "p99<", "service.rate>1",
	} {
		if g, err := ParseGoal(text); err == nil {
			t.Errorf("%q was taken as %+v", text, g)
		} else if line := err.Error(); strings.Contains(line, "\n") || !strings.HasPrefix(line, "load: goal ") {
			t.Errorf("%q: %q", text, line)
		}
	}
}

func TestCheckGoals(t *testing.T) {
	m := sound()
	m.Errors[Failed], m.plan.AllowErrors = 5, true
	r := m.result()
	for _, c := range []struct {
		goal string
		met  bool
		line string
	}{
		{"p99<5ms", true, "p99<5ms met: p99 is 990 µs"},
		{"p99<500us", false, "p99<500us missed: p99 is 990 µs"},
		{"p99<990.2us", false, "p99<990.2us missed: p99 is 990.207µs"}, // rounded it would look met
		{"service.p99<500us", true, ""},
		{"max<=2ms", true, ""},
		{"rate>=1000", true, "rate>=1000 met: rate is 1000.0"},
		{"rate>1000", false, ""},
		{"rate<=1000", true, ""},
		{"requests==1000", true, ""},
		{"errors==0", false, "errors==0 missed: errors is 5"},
		{"errors<1%", true, "errors<1% met: errors is 0.5%"},
	} {
		o := Check(r, []Goal{must[Goal](t)(ParseGoal(c.goal))})[0]
		if o.Met != c.met || !o.Judged || o.Got == nil {
			t.Errorf("%v: %+v", c.goal, o)
		}
		if c.line != "" && o.String() != c.line {
			t.Errorf("%q, want %q", o, c.line)
		}
	}
}

func TestCheckWithoutFigures(t *testing.T) {
	m := sound()
	m.Latency = spiked(1000, 99)
	m.Offered, m.During = 99, 99
	r := m.result()
	r.Valid = true
	p999 := must[Goal](t)(ParseGoal("p999<1m"))
	if o := Check(r, []Goal{p999})[0]; o.Met || o.Got != nil || o.String() != "p999<1m missed: without a figure" {
		t.Errorf("a goal without a figure: %v", o)
	}
	r.Valid = false
	if o := Check(r, []Goal{must[Goal](t)(ParseGoal("p50<1m"))})[0]; o.Met || o.Judged || !strings.Contains(o.String(), "not judged") {
		t.Errorf("a goal of an invalid result: %v", o)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]codec.Frames{
		"tcp://127.0.0.1:7000": {Network: "tcp", Address: "127.0.0.1:7000"},
		"tcp://[::1]:7000":     {Network: "tcp", Address: "[::1]:7000"},
		"unix:///run/h.sock":   {Network: "unix", Address: "/run/h.sock"},
		"unix://h.sock":        {Network: "unix", Address: "h.sock"},
		"unix:h.sock":          {Network: "unix", Address: "h.sock"},
	} {
		if got, err := codec.ParseTarget(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"127.0.0.1:7000":     "tcp://127.0.0.1:7000",
		"http://127.0.0.1/":  `unknown scheme "http"`,
		"tcp://127.0.0.1":    "lacks its host or port",
		"tcp://:7000":        "lacks its host or port",
		"unix://":            "lacks its path",
		"":                   "lacks its scheme",
		"tcp:127.0.0.1:7000": "lacks its scheme",
	} {
		_, err := codec.ParseTarget(text)
		if err == nil {
			t.Errorf("%q was taken", text)
		} else if line := err.Error(); !strings.Contains(line, says) || strings.Contains(line, "%!") {
			t.Errorf("%q: %q", text, line)
		}
	}
}

// The text's line about the server's process has only what is known.
func TestServerText(t *testing.T) {
	for want, server := range map[string]*Server{
		"":                          nil,
		"server    – CPU a request": {},
		"server    2.50 µs CPU a request, uring":                       {CPUPerRequest: new(2.5), Engine: new("uring")},
		"server    2.50 µs CPU a request, 10.0 MiB, 1,234 descriptors": {CPUPerRequest: new(2.5), RSS: new(int64(10 << 20)), Descriptors: new(1234)},
	} {
		m := sound()
		r := m.result()
		r.Server = server
		var b strings.Builder
		WriteText(&b, "a server", m.plan, r, nil)
		got := ""
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "server ") {
				got = strings.TrimSuffix(line, "\n")
			}
		}
		if got != want {
			t.Errorf("%q, want %q, in\n%s", got, want, b.String())
		}
	}
}

// Lines and parts about what seldom happens appear only where it has happened.
func TestTextOfWhatSeldomHappens(t *testing.T) {
	for want, happens := range map[string]func(*Result){
		"answers 5,000/s (constant)":                                           func(r *Result) { r.Schedule = "constant" },
		"reconnects 3, 2 requests retried":                                     func(r *Result) { r.Reconnects, r.Retries = 3, 2 },
		"drains 1,234 connections closed by the server's shutdown":             func(r *Result) { r.Drains = 1234 },
		"outage 2.50 ms without any connection at the longest":                 func(r *Result) { r.Outage = new(2500.0) },
		"no answer 4 timeout, in the latencies with the time that they waited": func(r *Result) { r.Errors["timeout"] = 4 },
		"unsent 5 requests that the server has never seen":                     func(r *Result) { r.Unsent = 5 },
		"broken off 6 requests whose connection ended, in no latency":          func(r *Result) { r.Errors["closed"] = 6 },
	} {
		text := func(happens func(*Result)) (lines []string) {
			m := sound()
			r := m.result()
			r.Rate, r.Offered = new(5000.0), nil
			happens(r)
			var b strings.Builder
			WriteText(&b, "a server", m.plan, r, nil)
			for line := range strings.Lines(b.String()) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			return lines
		}
		usual, got := text(func(*Result) {}), text(happens)
		added := slices.DeleteFunc(got, func(line string) bool { return slices.Contains(usual, line) })
		if !slices.Equal(added, []string{want}) {
			t.Errorf("%q, want %q besides\n%s", added, want, strings.Join(usual, "\n"))
		}
		if slices.ContainsFunc(usual, func(line string) bool { return strings.Contains(line, "()") }) {
			t.Errorf("a schedule without a name in\n%s", strings.Join(usual, "\n"))
		}
	}
}

// An error is one line with what is known: where, what or why, and what to do.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"load: " + Refused.String():                    {Kind: Refused},
		"load: 127.0.0.1:1: " + Refused.String():       {Kind: Refused, Target: "127.0.0.1:1"},
		"load: 127.0.0.1:1: nothing listens; start it": {Target: "127.0.0.1:1", What: "nothing listens", Err: io.EOF, Try: "start it"},
		"load: EOF; start it":                          {Err: io.EOF, Try: "start it"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
