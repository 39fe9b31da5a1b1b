package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
)

// service is the program in testdata, built once for all tests.
var service string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		// Nobody debugs what the tests build; without DWARF a link costs a quarter less.
		if err := os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -ldflags=-w")); err != nil {
			panic(err)
		}
		dir, err := os.MkdirTemp("", "trial-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		service = filepath.Join(dir, "service")
		build := exec.Command("go", "run", "-exec", "cp", "./testdata/service", service) // keeps what it has linked, unlike go build
		if runtime.GOOS == "windows" {
			build = exec.Command("go", "build", "-o", service, "./testdata/service")
		}
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// planFor returns a short load of the service that tolerates a busy machine.
func planFor(t *testing.T, flags string) Plan {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for sh")
	}
	addr := testrun.FreeAddr(t)
	return Plan{
		Servers: []Server{{Command: "exec " + service + " -addr " + addr + " " + flags}},
		Load:    load.Plan{Target: codec.HTTP{URL: "http://" + addr + "/"}, Conns: 1, Requests: 300, For: time.Minute},
		Samples: 2, MaxOthers: 1, Scenario: record.Scenario{Name: "test", Settings: map[string]string{"x": "y"}},
	}
}

func TestRunTakesSamplesOfFreshProcesses(t *testing.T) {
	p := planFor(t, "")
	p.Servers[0].Build = "true"
	var steps []string
	p.Progress = func(now Progress) {
		if now.Load == nil {
			steps = append(steps, now.String())
		}
	}
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || len(runs[0].Samples) < 2 {
		t.Fatalf("%d runs: %+v", len(runs), runs)
	}
	r := runs[0]
	if r.Environment.Strict["topology"] != "loopback" || r.Environment.Strict["goos"] != runtime.GOOS || r.Environment.Soft["command"] == "" {
		t.Errorf("environment %v", r.Environment)
	}
	if runtime.GOOS == "linux" && (r.Environment.Strict["go"] == "" || r.Environment.Soft["sha256"] == "") {
		t.Errorf("nothing is known of the program: %v", r.Environment)
	}
	for i, s := range r.Samples {
		if s.Order != i+1 || s.Pair != 0 || len(s.Histograms) < 1 || len(s.Artefacts) != 1 {
			t.Errorf("sample %d: %+v", i, s)
		}
		names := map[string]float64{}
		for _, m := range s.Metrics {
			names[m.Name] = m.Value
		}
		for _, want := range []string{"rate", "p50", "p99"} {
			if !(names[want] > 0) {
				t.Errorf("sample %d has no %s: %v, valid %v %v", i, want, names, s.Valid, s.Reasons)
			}
		}
		if runtime.GOOS == "linux" && !(names["server CPU"] > 0 && names["server memory"] > 1e6) {
			t.Errorf("sample %d: %v", i, names)
		}
	}
	if first := steps[0] + "; " + steps[1]; first != "building the server; sample 1 of 2: the server, starting" {
		t.Errorf("steps: %s", first)
	}
}

// TestChurnAlone: what a connection costs the server, which has one request.
func TestChurnAlone(t *testing.T) {
	p := planFor(t, "")
	p.Load.Conns, p.Load.Requests, p.Load.Churn, p.Load.For, p.Load.Warmup = 0, 0, 1000, 300*time.Millisecond, -1
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range runs[0].Samples {
		cpu := 0.0
		for _, m := range s.Metrics {
			if m.Name == "server CPU" {
				cpu = m.Value
			}
		}
		if runtime.GOOS == "linux" && (cpu < 1 || cpu > 10_000) {
			t.Errorf("%+v", s)
		}
	}
}

// A and B alternate, each first equally often, and know their partners.
func TestRunTakesPairsInBalancedOrder(t *testing.T) {
	p := planFor(t, "-work 1")
	slow := p.Servers[0]
	slow.Command = strings.Replace(slow.Command, "-work 1", "-work 200", 1)
	p.Servers = append(p.Servers, slow)
	p.Servers[0].Name, p.Servers[1].Name = "fast", "slow"
	p.Samples, p.Seed = 4, 3
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Name != "fast" || runs[1].Name != "slow" || len(runs[0].Samples) != len(runs[1].Samples) {
		t.Fatalf("runs %+v", runs)
	}
	valid, first := 0, 0 // pairs, and those with A first
	for i, a := range runs[0].Samples {
		b := runs[1].Samples[i]
		if a.Pair != i+1 || b.Pair != i+1 || a.Order+b.Order != 4*i+3 {
			t.Errorf("pair %d: %d and %d, order %d and %d", i, a.Pair, b.Pair, a.Order, b.Order)
		}
		if a.Valid && b.Valid {
			valid++
			if a.Order < b.Order {
				first++
			}
		}
		if a.Valid && b.Valid && a.Metrics[0].Value <= b.Metrics[0].Value {
			t.Errorf("pair %d: A makes %v, B %v", i, a.Metrics[0], b.Metrics[0])
		}
	}
	if valid == 4 && first != 2 {
		t.Errorf("A was first in %d pairs of 4", first)
	}
}

func TestHalfOf(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		chosen := halfOf(6, rand.New(rand.NewPCG(seed, 1)))
		n := 0
		for _, c := range chosen {
			if c {
				n++
			}
		}
		if n != 3 {
			t.Fatalf("%v: %d of 6", chosen, n)
		}
		seen[fmt.Sprint(chosen)] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d of the 20 ways to choose 3 of 6", len(seen))
	}
}

func TestRunSaysWhyItCannotGoOn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for _, test := range []struct {
		name   string
		change func(*Plan)
		say    string
	}{
		{"build", func(p *Plan) { p.Servers[0].Build = "echo no such luck >&2; exit 4" }, "no such luck; run it by hand"},
		{"start", func(p *Plan) { p.Servers[0].Command = "exec /nowhere/at/all" }, "before it was ready, with exit status 127; its output: "},
		{"not built", func(p *Plan) { p.Servers[0].Command = "./server" }, "build it in each folder that is measured: --build "},
		{"occupied", func(p *Plan) { p.Load.Target = codec.HTTP{URL: "http://" + taken.Addr().String() + "/"} }, "stop it, or use another port"},
		{"never ready", func(p *Plan) { p.Servers[0].Command += "-mute"; p.Servers[0].ReadyWithin = 300 * time.Millisecond }, "its output: thinking; give it more time"},
		{"never says so", func(p *Plan) {
			p.Servers[0].Ready, _ = ParseReady("line:^listening$")
			p.Servers[0].ReadyWithin = 300 * time.Millisecond
		}, "the line has not appeared"},
		{"wrong page", func(p *Plan) {
			p.Servers[0].Ready, _ = ParseReady("http://" + taken.Addr().String() + "/healthz")
			p.Servers[0].ReadyWithin = 300 * time.Millisecond
		}, "was not ready within 300ms: the check has had no answer; "},
		{"dies", func(p *Plan) { p.Servers[0].Command += "-dies 5" }, "during a run, with exit status 3; its output: "},
		{"revision", nil, "name a commit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := planFor(t, "")
			var err error
			if test.change == nil {
				_, err = Checkout(t.Context(), ".", "no-such-revision")
			} else {
				test.change(&p)
				_, err = Run(t.Context(), p)
			}
			if said := fmt.Sprint(err); err == nil || !strings.Contains(said, test.say) {
				t.Error(said)
			}
		})
	}
}

func TestRunRefusesPlans(t *testing.T) {
	for _, p := range []Plan{{}, {Servers: make([]Server, 9)}, {Servers: make([]Server, 1)}} {
		_, err := Run(t.Context(), p)
		if said := fmt.Sprint(err); !strings.HasPrefix(said, "trial: ") {
			t.Errorf("%+v: %s", p, said)
		}
	}
}

// A program that changes between samples gets no figures.
func TestRunNoticesAnotherProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing tells which program it is")
	}
	p := planFor(t, "")
	p.Servers[0].Command = "cat " + service + " > {out}/s; date +%N >> {out}/s; chmod +x {out}/s; exec {out}/s " + strings.SplitN(p.Servers[0].Command, " ", 3)[2]
	_, err := Run(t.Context(), p)
	if said := fmt.Sprint(err); !strings.Contains(said, "has changed since the first sample") {
		t.Error(said)
	}
}

// Invalid samples are retaken up to the limit, and stored.
func TestRunTakesAgain(t *testing.T) {
	p := planFor(t, "")
	p.Samples, p.Retakes = 1, 2
	p.Load.Target = codec.HTTP{URL: p.Load.Target.String(), Statuses: []int{404}} // makes all requests fail
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(runs[0].Samples); n != 3 {
		t.Errorf("%d samples", n)
	}
	for _, s := range runs[0].Samples {
		if s.Valid || len(s.Reasons) == 0 {
			t.Errorf("valid %v: %q", s.Valid, s.Reasons)
		}
	}
}

// A run interrupted midway returns its complete pairs.
func TestRunInterrupted(t *testing.T) {
	p := planFor(t, "")
	p.Servers = append(p.Servers, p.Servers[0])
	p.Samples = 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.Progress = func(now Progress) {
		if now.Taken == 3 && now.Load == nil {
			cancel()
		}
	}
	runs, err := Run(ctx, p)
	if !errors.Is(err, context.Canceled) || len(runs) != 2 || len(runs[0].Samples) != 1 || len(runs[1].Samples) != 1 {
		t.Errorf("%v; %d runs", err, len(runs))
	}
}

func TestRunKillsTheDeaf(t *testing.T) {
	p := planFor(t, "-deaf")
	p.Samples, p.Servers[0].StopWithin = 1, 10*time.Millisecond
	if _, err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c, err := p.Load.Target.Dial(t.Context()); err == nil {
		c.Close()
		t.Error("it still serves")
	}
}

// A server is ready when its own check succeeds, whether or not it accepts connections at the target.
func TestEveryReadinessCheckSucceeds(t *testing.T) {
	for check, flags := range map[string]string{"line:^thinking$": "-mute", "http://ADDR/": "", "tcp:ADDR": "", "tcp": ""} {
		t.Run(check, func(t *testing.T) {
			p := planFor(t, flags)
			s, addr := p.Servers[0], strings.TrimSuffix(strings.TrimPrefix(p.Load.Target.(codec.HTTP).URL, "http://"), "/")
			s.Command = "echo thinking; " + s.Command // the mute service says the line again
			var err error
			if s.Ready, err = ParseReady(strings.Replace(check, "ADDR", addr, 1)); err != nil {
				t.Fatal(err)
			}
			process, err := s.Start(t.Context(), p.Load.Target)
			if err != nil {
				t.Fatal(err)
			}
			process.Stop()
		})
	}
}

func TestParseReady(t *testing.T) {
	for _, good := range []string{"tcp", "tcp:127.0.0.1:80", "http://localhost/healthz", "https://x/", "line:ready|go"} {
		if r, err := ParseReady(good); err != nil || r.String() != good {
			t.Errorf("%q: %v, %v", good, r, err)
		}
	}
	for _, bad := range []string{"", "soon", "tcp:nowhere", "line:(", "http://[", "ftp://x"} {
		if _, err := ParseReady(bad); err == nil {
			t.Errorf("%q is a sign", bad)
		}
	}
}

func TestTopology(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:80/x": "loopback", "https://[::1]:443/": "loopback",
		"http://10.0.0.1/": "network", "http://example.com": "network",
	} {
		if got := Topology(codec.HTTP{URL: text}); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := Topology(codec.Frames{Network: "unix", Address: "/run/x"}); got != "unix" {
		t.Errorf("a socket: %s", got)
	}
}

// Only after lost connections is the end of the process waited for.
func TestHasDied(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the service has no such name there")
	}
	lost := &load.Result{Errors: map[string]int64{load.Closed.String(): 1}}
	for name, c := range map[string]struct {
		result *load.Result
		err    error
		waits  bool
	}{
		"all is well":      {&load.Result{Errors: map[string]int64{load.Timeout.String(): 1}}, nil, false},
		"a plan":           {nil, &load.Error{Kind: load.BadPlan}, false},
		"another error":    {nil, context.Canceled, false},
		"lost connections": {lost, nil, true},
		"refused":          {nil, fmt.Errorf("run: %w", &load.Error{Kind: load.Refused}), true},
	} {
		process, err := child.Start(exec.CommandContext(t.Context(), service, "-deaf"), child.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !c.waits && hasDied(process, c.result, c.err) {
			t.Errorf("%s: it has not", name)
		}
		if c.waits {
			go process.Kill()
			if !hasDied(process, c.result, c.err) {
				t.Errorf("%s: it has", name)
			}
		}
		process.Kill()
		process.Stop()
	}
}

func TestSampleOf(t *testing.T) {
	r := &load.Result{Valid: true, Rate: new(500.0)}
	r.Latency.P50, r.Latency.P99 = new(100.0), new(200.0)
	s := SampleOf(r, time.Now())
	want := []record.Metric{
		{Name: "rate", Unit: "req/s", Better: record.Higher, Value: 500},
		{Name: "p50", Unit: "µs", Better: record.Lower, Value: 100}, {Name: "p99", Unit: "µs", Better: record.Lower, Value: 200},
	}
	if !s.Valid || !slices.Equal(s.Metrics, want) {
		t.Errorf("%+v", s)
	}
}

// Of several programs, each turn has one sample of every one, in this order or the reverse.
func TestRunTakesTurnsOfSeveral(t *testing.T) {
	p := printing(t, "BenchmarkX 1 1 ns/op\n", "BenchmarkX 1 2 ns/op\n", "BenchmarkX 1 3 ns/op\n")
	runs, err := Run(t.Context(), p)
	if err != nil || len(runs) != 3 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	reversed := 0
	for i := range 4 {
		a, b, c := runs[0].Samples[i], runs[1].Samples[i], runs[2].Samples[i]
		if a.Pair != i+1 || b.Pair != i+1 || c.Pair != i+1 || b.Order != 3*i+2 || a.Order+c.Order != 6*i+4 {
			t.Errorf("turn %d: pairs %d, %d, %d, orders %d, %d, %d", i+1, a.Pair, b.Pair, c.Pair, a.Order, b.Order, c.Order)
		}
		if c.Order < a.Order {
			reversed++
		}
	}
	if reversed != 2 {
		t.Errorf("%d of 4 turns are reversed", reversed)
	}
}
