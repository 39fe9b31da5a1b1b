package generators

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/report"
)

// TestMain serves when it is run as the server: the contests below start this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "stalls" {
		period, errPeriod := time.ParseDuration(os.Args[2])
		stall, errStall := time.ParseDuration(os.Args[3])
		if errors.Join(errPeriod, errStall, Serve(os.Stdin, os.Stdout, period, stall)) != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// A request that comes in a stall is not answered before its end, and all are answered.
func TestServerKeepsItsSchedule(t *testing.T) {
	const period, stall = time.Second, 500 * time.Millisecond
	in, orders := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- Serve(in, out, period, stall); out.Close() }()
	lines := json.NewDecoder(bufio.NewReader(said))
	var s status
	if err := lines.Decode(&s); err != nil {
		t.Fatal(err)
	}
	edge := time.Since(begun) // within which the server's epoch lies
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	var asking sync.WaitGroup
	var within, early, answered atomic.Int64
	const requests = 60
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range requests {
		<-tick.C
		asking.Go(func() {
			asked := time.Since(begun)
			response, err := client.Get("http://" + s.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err == nil && string(body) == "hello" {
				answered.Add(1)
			}
			// A busy machine closes the gate late, so nothing is claimed of a stall's first half.
			if phase := asked % period; phase > stall/2+edge && phase < stall-edge {
				within.Add(1)
				if time.Since(begun) < asked-phase+stall {
					early.Add(1)
				}
			}
		})
	}
	asking.Wait()
	transport.CloseIdleConnections()
	if _, err := io.WriteString(orders, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := lines.Decode(&s); err != nil || s.Requests != requests || answered.Load() != requests {
		t.Errorf("%d requests counted and %d answered, not %d, %v", s.Requests, answered.Load(), requests, err)
	}
	orders.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if within.Load() == 0 || early.Load() > 0 {
		t.Errorf("%d of %d requests that came in a stall were answered within it", early.Load(), within.Load())
	}
	if err := Serve(strings.NewReader(""), io.Discard, stall, period); err == nil {
		t.Error("a stall longer than its period")
	}
}

// A contest of hone alone: its figures come back, and so does what the server has counted.
func TestContest(t *testing.T) {
	dir := t.TempDir()
	hone := filepath.Join(dir, "hone")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", hone, "../../tool/cmd/hone")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stalls := report.Stalls{PeriodMS: 200, StallMS: 40}
	c := &Contest{
		Tools:     []Tool{honeTool(hone)},
		Schedules: []report.Stalls{stalls}, Rate: 300, Settle: 300 * time.Millisecond, Window: time.Second, Rounds: 1,
		Server: []string{exe, "stalls"}, Dir: dir, Say: func(line string) { t.Log(line) },
	}
	g := c.Run(t.Context())
	if len(g.Samples) != 1 {
		t.Fatalf("%+v", g)
	}
	s := g.Samples[0]
	if s.Error != "" || s.P50 == nil || s.P99 == nil || s.CPU == nil || *s.CPU <= 0 || s.Rate < 100 || s.Generator != "hone" || s.Schedule != "40 ms in 200" {
		t.Errorf("%+v", s)
	}
	// Other work on the machine only adds to the figures.
	if s.P99 != nil && *s.P99 < 0.9*stalls.Quantile(0.99) {
		t.Errorf("p99 %.0f µs, computed %.0f", *s.P99, stalls.Quantile(0.99))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if g := c.Run(ctx); len(g.Samples) != 0 {
		t.Errorf("samples after the end: %+v", g.Samples)
	}
}

// The others' commands and results, with the programs themselves where they are installed.
func TestOthers(t *testing.T) {
	if os.Getenv("HONE_TEST_GENERATORS") == "" {
		t.Skip("runs k6 and vegeta; make bench-generators installs them, HONE_TEST_GENERATORS=1 runs it")
	}
	dir := t.TempDir()
	hone := filepath.Join(dir, "hone")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", hone, "../../tool/cmd/hone").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	tools, err := Find(t.Context(), hone, "")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &Contest{
		Tools: tools[1:], Schedules: []report.Stalls{{PeriodMS: 200, StallMS: 40}}, Rate: 600, Settle: time.Second, Window: time.Second, Rounds: 1, // p99.9 needs 1,000 requests
		Server: []string{exe, "stalls"}, Dir: dir, Say: func(line string) { t.Log(line) },
	}
	for _, s := range c.Run(t.Context()).Samples {
		if s.Error != "" || s.P50 == nil || s.P99 == nil || s.P999 == nil || s.CPU == nil || s.Rate < 100 {
			t.Errorf("%+v", s)
		}
	}
}
