//go:build linux

// Package streams measures handlers of package http1 that flush and wait, as those of event streams do, and compares
// the figures with what they are to be. Every server is a process of its own:
//
//	go test -count=1 ./streams -timeout 90m -v -args -all
//
// A figure that misses its goal fails with -all only: a short run is too noisy for a verdict. That all are answered must
// hold in any case.
package streams

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/tool/child"
)

var (
	all  = flag.Bool("all", false, "measure every engine at full size, and fail where a goal is missed")
	only = flag.String("engine", "", "measure the engine `name` only")
)

const (
	spinning = "HONE_SPIN"      // set in a process that is to do nothing else
	spinTime = 20 * time.Minute // how long it does at most
)

// TestMain spins where it is told to.
func TestMain(m *testing.M) {
	if os.Getenv(spinning) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Println(`"spinning"`)
	for began := time.Now(); time.Since(began) < spinTime; {
	}
}

// spin keeps that many processes busy until the test ends.
func spin(t *testing.T, n int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(cmd.Environ(), spinning+"=1", "GOMAXPROCS=1")
		c, err := child.Start(cmd, child.Options{Signal: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		if err := c.Answer(t.Context(), 20*time.Second, new(string)); err != nil {
			t.Fatalf("a busy program: %v", err)
		}
	}
}

// size is small, or full with -all.
func size[N any](small, full N) N {
	if *all {
		return full
	}
	return small
}

// judge prints a figure with what is asked of it.
func judge(t *testing.T, what string, got float64, format, sign string, limit float64) {
	t.Helper()
	ok := sign == "<=" && got <= limit || sign == ">=" && got >= limit
	text := fmt.Sprintf("%s: "+format+", asked for %s "+format, what, got, sign, limit)
	switch {
	case ok:
		t.Log("ok      ", text)
	case *all:
		t.Error("MISSED  ", text)
	default:
		t.Log("MISSED  ", text)
	}
}

// cpuOf is a process's user and system time.
func cpuOf(t *testing.T, pid int) time.Duration {
	cpu, err := fleet.ProcessCPU(pid)
	if err != nil {
		t.Errorf("the CPU of process %d: %v", pid, err)
	}
	return cpu
}
