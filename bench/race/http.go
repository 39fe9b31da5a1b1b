package race

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
)

// steadyRounds are enough for figures other than CPU.
const steadyRounds = 3

// HTTPScenarios compare servers of HTTP/1.1. The last four measure something other than
// CPU: wrk checks the client, calls counts system calls, idle and lent read memory. The
// request of lent is one that http1 leaves to net/http.
func HTTPScenarios() []Scenario {
	return []Scenario{
		{Name: "hello", Ask: "hello", Conns: 64, Depth: 1, Pinned: true, Loops: 1},
		{Name: "hello-256", Ask: "hello", Conns: 256, Depth: 1, Pinned: true, Loops: 1},
		{Name: "2KiB", Ask: "page", Conns: 64, Depth: 1, Pinned: true, Loops: 1},
		{Name: "pipelined", Ask: "hello", Conns: 64, Depth: 16, Pinned: true, Loops: 1},
		{Name: "browser", Ask: "browser", Conns: 64, Depth: 1, Pinned: true, Loops: 1},
		{Name: "rate", Ask: "hello", Conns: 64, Depth: 4, Rate: 20_000, Pinned: true, Loops: 1},
		{Name: "TLS", Ask: "tls", Conns: 64, Depth: 1, Pinned: true, Loops: 1},
		{Name: "picture", Ask: "picture", Conns: 64, Depth: 1, Pinned: true, Loops: 1},
		{Name: "wrk", Ask: "hello", Conns: 64, Depth: 1, Pinned: true, Loops: 1, Wrk: true, Rounds: steadyRounds},
		{Name: "calls", Ask: "hello", Conns: 64, Depth: 1, Pinned: true, Loops: 1, Calls: true, Rounds: steadyRounds},
		{Name: "idle", Ask: "hello", Levels: []int{15_000}, Rounds: steadyRounds},
		{Name: "lent", Ask: "chunked", Levels: []int{15_000}, Rounds: steadyRounds},
	}
}

// asked says what is asked, where that is HTTP.
func (s Scenario) asked() string {
	if s.Ask == "" {
		return ""
	}
	return ", asking for " + s.Ask
}

func (s Scenario) secure() bool {
	q, err := web.Named(s.Ask)
	return err == nil && q.TLS
}

// fits reports whether a server can take part: beside who is deaf only one that does not
// wait for everybody.
func (s Scenario) fits(e fleet.Entry) bool {
	switch {
	case e.Extra:
		return s.Sleepers > 0
	case e.ParsesNothing:
		return s.Ask != "chunked" && !s.secure()
	case s.Deaf > 0:
		return e.Ours()
	}
	return true
}

// counter is a client whose server's events are counted while it lives. perf counts them in
// the kernel, so that the server is not slowed down.
func (r *Race) counter(ctx context.Context, server *fleet.Server, cpu int, file, events string) (*child.Child, error) {
	name, err := exec.LookPath("perf")
	if err != nil {
		return nil, errors.New("perf is not here, which counts them; install linux-perf, or leave the scenarios calls and instructions out")
	}
	args := append([]string{"stat", "-x", ",", "-o", file, "-e", events, "-p", strconv.Itoa(server.PID), "--"}, r.Client...)
	return fleet.Spawn(ctx, cpu, clientEnv(1), name, args...)
}

// calls counts the system calls of a load's requests, the warm-up included.
func (r *Race) calls(ctx context.Context, server *fleet.Server, cpu int, order drive.Order, s *report.Sample) error {
	file := filepath.Join(r.Dir, "calls")
	client, err := r.counter(ctx, server, cpu, file, "raw_syscalls:sys_enter")
	if err != nil {
		return err
	}
	answer, err := ask(ctx, client, order, r.Warmup+r.Window+slack)
	client.Stop()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	counts, err := perfCounts(text)
	if err != nil {
		return err
	}
	if answer.Load.Answered == 0 {
		return errors.New("no request was answered")
	}
	each := counts[0] / float64(answer.Load.Answered)
	s.Requests, s.Answered, s.Calls = answer.Load.Requests, answer.Load.Answered, &each
	return nil
}

// perfCounts are the numbers in the table that perf stat -x , writes.
func perfCounts(text []byte) (counts []float64, err error) {
	for line := range bytes.Lines(text) {
		field, _, found := strings.Cut(string(line), ",")
		if n, err := strconv.ParseFloat(field, 64); err == nil && found {
			counts = append(counts, n)
		}
	}
	if counts == nil {
		return nil, fmt.Errorf("perf has counted nothing: %.200s", bytes.TrimSpace(text))
	}
	return counts, nil
}

// wrk loads a server with wrk, whose durations are whole seconds.
func (r *Race) wrk(ctx context.Context, sc Scenario, server *fleet.Server, cpu int, s *report.Sample) error {
	name, err := exec.LookPath("wrk")
	if err != nil {
		return errors.New("wrk is not here; install it, or leave the scenario wrk out")
	}
	seconds := max(1, int(r.Window.Round(time.Second)/time.Second))
	args := []string{"-t", "1", "-c", strconv.Itoa(sc.Conns), "-d", strconv.Itoa(seconds) + "s", "http://" + server.Addr + web.HelloPath}
	if cpu != fleet.AnyCPU {
		args = append([]string{"-c", strconv.Itoa(cpu), name}, args...)
		name = "taskset"
	}
	began, err := fleet.ProcessCPU(server.PID)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %.200s", err, out)
	}
	ended, err := fleet.ProcessCPU(server.PID)
	if err != nil {
		return err
	}
	requests, took, err := wrkCount(out)
	if err != nil {
		return err
	}
	each, rate := float64((ended-began).Microseconds())/float64(requests), float64(requests)/took.Seconds()
	s.Requests, s.CPU, s.Rate = requests, &each, &rate
	return nil
}

// wrkVersion is what wrk calls itself; empty if it is not here.
func wrkVersion(ctx context.Context) string {
	said, _ := exec.CommandContext(ctx, "wrk", "-v").CombinedOutput() // it prints its usage, too, and fails
	if found := regexp.MustCompile(`^wrk (\S+)`).FindSubmatch(said); found != nil {
		return string(found[1])
	}
	return ""
}

// wrkCount reads what wrk prints at its end.
func wrkCount(out []byte) (requests int64, took time.Duration, err error) {
	found := regexp.MustCompile(`(\d+) requests in ([0-9.]+m?s),`).FindSubmatch(out)
	if found == nil || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		return 0, 0, fmt.Errorf("wrk says %.300q", out)
	}
	if requests, err = strconv.ParseInt(string(found[1]), 10, 64); err == nil {
		took, err = time.ParseDuration(string(found[2]))
	}
	if err == nil && (requests == 0 || took == 0) {
		err = errors.New("wrk has had no answer")
	}
	return requests, took, err
}

// taking are the servers that can take part in sc.
func (r *Race) taking(sc Scenario) []fleet.Entry {
	return slices.DeleteFunc(slices.Clone(r.Servers), func(e fleet.Entry) bool { return !sc.fits(e) })
}
