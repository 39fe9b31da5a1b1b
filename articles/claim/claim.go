// Package claim measures what an article claims: one of its servers against the next, in pairs of fresh
// processes, judged as hone bench judges two revisions.
package claim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// Verdict is the judgement of a claim.
type Verdict string

// The verdicts.
const (
	Holds        Verdict = "holds"
	HoldsLess    Verdict = "holds less"   // the effect is certain, and less than 0.8 of the article's
	Contradicted Verdict = "contradicted" // the opposite is certain
	Inconclusive Verdict = "inconclusive"
)

// enough is the share of a claimed effect at which the claim holds.
const enough = 0.8

// pairs is how many pairs a comparison takes.
const pairs = 6

// Whole reports whether claims are measured (HONE_CLAIMS=1), which takes minutes and a machine to itself,
// or, with HONE_CLAIMS=busy, one where other programs run too; else their tests only show that every part
// works.
func Whole() bool { return os.Getenv("HONE_CLAIMS") != "" }

// Slow skips a test of a claim unless claims are measured or all tests run.
func Slow(t *testing.T) {
	t.Helper()
	if !Whole() && !testrun.All() {
		t.Skip("takes seconds; HONE_CLAIMS=1 measures it, HONE_TEST_ALL=1 shows that it works")
	}
}

// pick returns the first value for a measurement, else the second.
func pick[T any](whole, quick T) T {
	if Whole() {
		return whole
	}
	return quick
}

// Frames and Web return the target at an address, for Servers.
func Frames(addr string) (codec.Target, error) { return codec.ParseTarget("tcp://" + addr) }

// Web returns the same for a path over HTTP.
func Web(path string) func(string) (codec.Target, error) {
	return func(addr string) (codec.Target, error) { return codec.HTTP{URL: "http://" + addr + path}, nil }
}

// Servers measures two stages, folders beside the test, under one load.
func Servers(t *testing.T, a, b string, target func(addr string) (codec.Target, error), plan load.Plan) *compare.Report {
	t.Helper()
	addr := testrun.FreeAddr(t)
	to, err := target(addr)
	if err != nil {
		t.Fatal(err)
	}
	plan.Target, plan.AllowLate = to, true // it shares the processors with the server
	if plan.Warmup = 300 * time.Millisecond; !Whole() {
		plan.For, plan.Warmup = 100*time.Millisecond, 20*time.Millisecond
	} else if plan.For == 0 {
		plan.For = time.Second
	}
	design := trial.Plan{Load: plan, Scenario: record.Scenario{Primary: "server CPU"}, Samples: pick(pairs, 1), Retakes: pairs, MaxOthers: pick(0.3, 1.0)}
	if os.Getenv("HONE_CLAIMS") == "busy" {
		design.MaxOthers, design.Load.MaxLag = 1, time.Second
	}
	for _, name := range []string{a, b} {
		design.Servers = append(design.Servers, trial.Server{Name: name, Build: "go build -o {out}/server ./" + name, Command: "exec {out}/server --admin off --addr " + addr})
	}
	runs, err := trial.Run(t.Context(), design)
	if err != nil {
		t.Fatal(err)
	}
	if Whole() {
		for _, reason := range compare.Short(runs, design.Samples) {
			t.Error("INVALID: ", reason)
		}
	}
	runs[0].ID, runs[1].ID, runs[0].PairedWith, runs[1].PairedWith = "a", "b", "b", "a"
	report, err := compare.Judge{Primary: "server CPU", Look: 1}.Stored(nil, runs[0], runs[1])
	if err != nil && Whole() {
		t.Fatal(err)
	}
	if report != nil {
		logTable(t, a+" → "+b, report)
	}
	return report
}

// Timed measures two functions of a benchmark, b against a, in turns.
func Timed(t *testing.T, name string, a, b func(*testing.B)) *compare.Report {
	t.Helper()
	timed := func(f func(*testing.B)) func() float64 {
		return func() float64 {
			result := testing.Benchmark(f)
			return float64(result.T.Nanoseconds()) / float64(result.N)
		}
	}
	return InTurns(t, name, timed(a), timed(b))
}

// InTurns compares two figures in nanoseconds, of b with those of a, measured in turns. It returns nil
// unless claims are measured.
func InTurns(t *testing.T, name string, a, b func() float64) *compare.Report {
	t.Helper()
	var sides [2][]float64
	for pair := range pick(pairs, 1) {
		for i := range sides {
			side := (i + pair) % 2
			sides[side] = append(sides[side], []func() float64{a, b}[side]())
		}
	}
	if !Whole() {
		return nil
	}
	var runs [2]*compare.Runs
	for i := range sides {
		runs[i] = &compare.Runs{Series: []compare.Series{{Name: name, Unit: "ns/op", Values: sides[i]}}}
	}
	report, err := compare.Judge{Look: 1}.Compare(runs[0], runs[1], true, nil)
	if err != nil {
		t.Fatal(err)
	}
	logTable(t, name, report)
	return report
}

func logTable(t *testing.T, what string, report *compare.Report) {
	t.Helper()
	var text bytes.Buffer
	report.WriteTable(&text)
	t.Logf("%s\n%s", what, &text)
}

// Gain judges a figure of a report, "" for the first: how many times better b is than a. An article's figure below 1 is a
// claimed loss, and 0 is any gain.
func Gain(t *testing.T, report *compare.Report, name string, article float64, why string) {
	t.Helper()
	if report == nil {
		return
	}
	i := slices.IndexFunc(report.Changes, func(c compare.Change) bool { return c.Name == name || name == "" })
	if i < 0 || report.Changes[i].Ratio == nil || report.Changes[i].Low == nil {
		if Whole() {
			t.Errorf("no figure %q", name)
		}
		return
	}
	c := report.Changes[i]
	gain, low, high := *c.Ratio, *c.Low, *c.High
	if c.Better != "higher" {
		gain, low, high = 1/gain, 1/high, 1/low
	}
	said := "any gain"
	if article != 0 {
		said = fmt.Sprintf("%.3g ×", article)
	}
	t.Logf("%s: %.3g × better (%.3g to %.3g), article: %s: %s\n%s", c.Name, gain, low, high, said, Judge(gain, low, high, article), why)
}

// Judge returns the verdict on a gain with its interval.
func Judge(gain, low, high, article float64) Verdict {
	switch {
	case article != 0 && article < 1:
		return Judge(1/gain, 1/high, 1/low, 1/article)
	case math.IsNaN(gain) || low <= 1 && high >= 1:
		return Inconclusive
	case high < 1:
		return Contradicted
	case gain-1 >= enough*(article-1):
		return Holds
	}
	return HoldsLess
}

// Stage is a stage that runs.
type Stage struct {
	Addr, Admin string
	*child.Child
}

// Start builds and runs a stage until the test ends.
func Start(t *testing.T, name string, env ...string) *Stage {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stage")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	command := exec.CommandContext(t.Context(), program, "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	command.Env = append(os.Environ(), env...)
	s := new(Stage)
	var err error
	if s.Child, err = child.Start(command, child.Options{Signal: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	var ready json.RawMessage
	if err = s.Answer(t.Context(), 20*time.Second, &ready); err == nil {
		err = json.Unmarshal(ready, s)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, s.Said())
	}
	return s
}

// Shares profiles a stage under a load, and returns the shares, in percent, of functions with what they
// call (cum) or alone.
func (s *Stage) Shares(t *testing.T, kind probe.Kind, cum bool, plan load.Plan, ends ...string) float64 {
	t.Helper()
	plan.For, plan.Warmup, plan.AllowLate = pick(4*time.Second, 1300*time.Millisecond), -1, true
	loaded := make(chan error, 1)
	go func() {
		_, err := load.Run(t.Context(), plan)
		loaded <- err
	}()
	path := map[probe.Kind]string{probe.CPU: fmt.Sprintf("profile?seconds=%d", pick(3, 1)), probe.Allocs: "allocs?gc=1"}[kind]
	if kind != probe.CPU {
		if err := <-loaded; err != nil {
			t.Fatal(err)
		}
		loaded <- nil
	}
	resp, err := http.Get("http://" + s.Admin + "/debug/pprof/" + path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err := errors.Join(err, <-loaded); err != nil {
		t.Fatal(err)
	}
	parsed, err := probe.Parse(data, kind)
	if err != nil {
		t.Fatal(err)
	}
	view, err := probe.NewView(parsed, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, line := range view.Top() {
		if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(line.Function, end) }) {
			if cum {
				sum += line.Cum
			} else {
				sum += line.Flat
			}
		}
	}
	return 100 * sum / max(view.Total, 1e-9)
}

// Log reports a single figure.
func Log(t *testing.T, what string, here float64, unit string, article float64, v Verdict, why string) {
	t.Helper()
	t.Logf("%s: %s %s, article: %s: %s\n%s", what, figure.Digits(here), unit, figure.Digits(article), v, why)
}

// If returns Holds or, if the condition is not met, Contradicted.
func If(holds bool) Verdict {
	if holds {
		return Holds
	}
	return Contradicted
}
