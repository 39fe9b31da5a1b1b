package race

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
)

// scenario is one way of using servers, which hone bench measures.
type scenario struct {
	name   string
	scheme string
	path   string
	conns  int     // connections that ask
	depth  int     // requests under way on each
	rate   float64 // requests a second of all; 0: the next as soon as an answer is there
	churn  float64 // instead of all that: connections a second, for one request each
	loops  int     // the servers', which are pinned if it is one
	more   string  // lines of the scenario file
}

// Rounds of CPU are compared in pairs, of which a signed-rank test needs many. The p99 at a rate varies more than CPU does;
// memory hardly varies, and other programs do not change it.
const (
	cpuRounds    = 8
	rateRounds   = 16
	steadyRounds = 5
	idleRounds   = 3
)

// Rows are all but those of packages generators and routes. They are told apart by what they make dear: frames/A waking
// up, A2 the same unpinned and on two loops, B the code itself, C the memory that a crowd is spread over, O sleeping and
// waking at a rate, once accepting and closing.
func Rows() []Row {
	const twice, hello = 2, "expect-length = 13"
	var all []Row
	add := func(group string, servers []fleet.Entry, scenarios ...scenario) {
		for _, s := range scenarios {
			s.loops = max(1, s.loops)
			all = append(all, s.row(group, servers))
		}
	}
	add("frames", fleet.Frames(),
		scenario{name: "A", scheme: overTCP, conns: 100, depth: 1},
		scenario{name: "A2", scheme: overTCP, conns: 100, depth: 1, loops: twice},
		scenario{name: "B", scheme: overTCP, conns: 100, depth: 64},
		scenario{name: "C", scheme: overTCP, conns: 2000, depth: 1},
		scenario{name: "O", scheme: overTCP, conns: 100, depth: 64, rate: 40_000},
		scenario{name: "once", scheme: overTCP, churn: 5000})
	add("http", append(fleet.HTTP(), fleet.Nginx().Alone()),
		scenario{name: "hello", scheme: plain, path: web.HelloPath, conns: 64, depth: 1, more: hello},
		scenario{name: "hello-256", scheme: plain, path: web.HelloPath, conns: 256, depth: 1, more: hello},
		scenario{name: "pipelined", scheme: plain, path: web.HelloPath, conns: 64, depth: 16, more: hello},
		scenario{name: "rate", scheme: plain, path: web.HelloPath, conns: 64, depth: 4, rate: 20_000, more: hello},
		scenario{name: "once", scheme: plain, path: web.HelloPath, churn: 5000, more: hello})
	add("http", fleet.HTTP(),
		scenario{name: "page", scheme: plain, path: web.PagePath, conns: 64, depth: 1, more: "expect-length = 2048"},
		scenario{name: "picture", scheme: plain, path: web.PicturePath, conns: 64, depth: 1, more: "expect-length = 700"},
		scenario{name: "TLS", scheme: secure, path: web.HelloPath, conns: 64, depth: 1, more: hello + "\ninsecure = true # the certificate is of the server's start"})
	add("ws", fleet.WebSocket(),
		scenario{name: "100x1", scheme: socket, path: web.EchoPath, conns: 100, depth: 1, more: "size = 64"},
		scenario{name: "2000x1", scheme: socket, path: web.EchoPath, conns: 2000, depth: 1, more: "size = 64"},
		scenario{name: "100x16", scheme: socket, path: web.EchoPath, conns: 100, depth: 16, more: "size = 64"},
		scenario{name: "rate", scheme: socket, path: web.EchoPath, conns: 1000, depth: 4, rate: 20_000, more: "size = 64"})
	return append(all,
		idleRow("frames/idle", fleet.Frames(), overTCP, 15_000),
		idleRow("http/idle", fleet.HTTP(), plain, 15_000), idleRow("http/idle-TLS", fleet.HTTP(), secure, 2000),
		idleRow("http/lent", fleet.HTTP(), lent, 15_000),
		idleRow("ws/idle", fleet.WebSocket(), socket, 15_000),
		crowdRow("http/streams", fleet.Streams(), 5000, 1, true), crowdRow("ws/push", fleet.WebSocket(), 15_000, twice, false),
		http2Row(), respRow(), gatewayRow())
}

func (s scenario) row(group string, servers []fleet.Entry) Row {
	r := Row{Name: group + "/" + s.name, Title: s.title, Client: "hone bench", Servers: servers, Rounds: cpuRounds, scenario: &s}
	if s.rate > 0 {
		r.Rounds = rateRounds
	}
	return r
}

// title says what the scenario is.
func (s scenario) title(cpus []int) string {
	load := fmt.Sprintf("%d connections × %d outstanding", s.conns, s.depth)
	switch {
	case s.rate > 0:
		load = fmt.Sprintf("%d connections, %.0f requests/s", s.conns, s.rate)
	case s.churn > 0:
		load = fmt.Sprintf("%.0f connections a second for a request each", s.churn)
	}
	if s.path != "" {
		load += fmt.Sprintf(", %s %s", s.scheme, s.path)
	}
	if !s.pinned(cpus) {
		return fmt.Sprintf("%s, not pinned, event loops: %d", load, s.loops)
	}
	return fmt.Sprintf("%s, server on CPU %d, generator on CPU %d, one loop", load, cpus[0], cpus[1])
}

func (s scenario) pinned(cpus []int) bool { return s.loops == 1 && len(cpus) > 1 }

// leastPairs is what hone bench needs for a verdict.
const leastPairs = 5

// File returns the row as a scenario file of hone bench, for the root of the repository. It is empty for a row that
// hone bench does not measure.
func (r Row) File(g *Ground) string {
	s := r.scenario
	if s == nil {
		return ""
	}
	var f strings.Builder
	fmt.Fprintf(&f, "# %s: %s. From the root of the repository:\n#\n#\t%sgo run ./tool/cmd/hone bench -f bench/results/%s.toml\n",
		r.Name, s.title(g.CPUs), strings.Join(append(s.pin(g.CPUs, 1), ""), " "), r.Name)
	fmt.Fprintf(&f, "target = %q\nsamples = %d\nfor = %q\nwarmup = %q\nmax-others = \"%.0f%%\"\nmax-lag = \"100ms\"\n",
		strings.TrimPrefix(s.scheme+"://"+g.Addr+s.path, overTCP+"://"), max(leastPairs, r.Rounds), g.Window, g.Warmup, 100*g.mostOthers())
	if s.churn > 0 {
		fmt.Fprintf(&f, "conns = 0\nchurn = %.0f\n", s.churn)
	} else {
		fmt.Fprintf(&f, "conns = %d\ndepth = %d\n", s.conns, s.depth)
	}
	if s.rate > 0 {
		fmt.Fprintf(&f, "rate = %.0f\n", s.rate)
	} else if s.churn == 0 {
		f.WriteString("allow-late = true # what a request costs the server does not depend on how busy the generator is\n")
	}
	if s.more != "" {
		f.WriteString(s.more + "\n")
	}
	servers := r.Servers
	if i := slices.IndexFunc(servers, func(e fleet.Entry) bool { return e.Default() }); i > 0 { // verdicts are against the first
		servers = slices.Concat(servers[i:i+1], servers[:i], servers[i+1:])
	}
	for _, e := range servers {
		build, run := e.Recipe(g.Addr, fleet.How{Loops: s.loops, TLS: s.scheme == secure})
		run = strings.Join(append([]string{"exec"}, append(s.pin(g.CPUs, 0), run)...), " ")
		fmt.Fprintf(&f, "\n[[program]]\nname = %q\nbuild = %q\ncmd = %q\n", e.Name, build, run)
	}
	return f.String()
}

// pin is the command that keeps another on one of the CPUs, or nothing.
func (s scenario) pin(cpus []int, of int) []string {
	if !s.pinned(cpus) {
		return nil
	}
	return []string{"taskset", "-c", fmt.Sprint(cpus[of])}
}

// report is what is read of hone bench's report.
type report struct {
	Valid   bool     `json:"valid"`
	Reasons []string `json:"invalid_reasons"`
	Runs    []struct {
		Name    string `json:"name"`
		Samples []struct {
			Pair    int  `json:"pair"`
			Valid   bool `json:"valid"`
			Metrics []struct {
				Name  string  `json:"name"`
				Value float64 `json:"value"`
			} `json:"metrics"`
		} `json:"samples"`
	} `json:"runs"`
}

// bench has hone bench measure the row, and fills r in.
func (g *Ground) bench(ctx context.Context, row Row, r *table.Row) error {
	if err := fleet.Whole(ctx, g.Module, g.Dir, "tool/cmd/hone"); err != nil {
		return err
	}
	file, out := filepath.Join(g.Dir, "scenario.toml"), filepath.Join(g.Dir, "report.json")
	if err := errors.Join(os.RemoveAll(out), os.WriteFile(file, []byte(row.File(g)), 0o600)); err != nil {
		return err
	}
	args := append(row.scenario.pin(g.CPUs, 1), filepath.Join(g.Dir, "whole", "hone"), "bench", "-f", file, "--json", "-o", out, "--discard", "--progress")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = filepath.Dir(g.Module), g.Log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // so that it stops its server
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if code := new(exec.ExitError); errors.As(err, &code) && code.ExitCode() > 2 { // a verdict
		err = nil
	}
	if err != nil {
		return fmt.Errorf("hone bench: %w", err)
	}
	made, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	return fill(r, made, row.scenario.rate > 0)
}

// fill adds the samples of a report of hone bench, and why it is not valid; of response times only those at a rate, since
// in a closed loop they say how fast the generator is.
func fill(r *table.Row, text []byte, timed bool) error {
	var made report
	if err := json.Unmarshal(text, &made); err != nil {
		return fmt.Errorf("the report of hone bench: %w", err)
	}
	if !made.Valid {
		r.Doubt("%s", strings.Join(made.Reasons, "; "))
	}
	names := map[string]string{"rate": "rate", "server CPU": "cpu_us"}
	if timed {
		names = map[string]string{"server CPU": "cpu_us", "p50": "p50_us", "p99": "p99_us", "p999": "p999_us"}
	}
	for _, run := range made.Runs {
		for _, one := range run.Samples {
			if !one.Valid {
				r.Retaken++
				continue
			}
			sample := table.Sample{Server: run.Name, Round: one.Pair - 1, Figures: map[string]float64{}}
			for _, m := range one.Metrics {
				if name := names[m.Name]; name != "" {
					sample.Figures[name] = m.Value
				}
			}
			r.Samples = append(r.Samples, sample)
		}
	}
	return nil
}
