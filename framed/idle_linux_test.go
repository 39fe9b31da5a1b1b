package framed_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A server with idle clients does not run at all, measured by the kernel's count of
// context switches. The Go runtime may wake up now and then (its monitor runs once a
// minute); an idle process without a server is the baseline.
func TestServerWithIdleConnectionsDoesNotWake(t *testing.T) {
	t.Parallel() // it only watches other processes
	const most = 2
	conns := testrun.Sized(100, 1000)
	watched := 4 * time.Second // enough to detect periodic work of a second
	switch {
	case testrun.All():
		watched = 10 * time.Second
	case testing.Short():
		t.Skipf("watches idle servers for %v; run without -short", watched)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if need := uint64(len(engine.All())*conns + 200); limit.Cur < need {
		t.Skipf("needs %d descriptors and may have %d: raise RLIMIT_NOFILE", need, limit.Cur)
	}
	names := []string{"none"}
	for _, e := range engine.All() {
		names = append(names, e.Name())
	}
	pids := map[string]int{}
	for _, name := range names {
		_, ready := startListening(t, name)
		pids[name] = ready.PID
		if name == "none" {
			continue
		}
		for id := range uint64(conns) {
			nc, err := net.DialTimeout("tcp", ready.Addr, patience)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			nc.SetDeadline(time.Now().Add(patience))
			want := ack(id, "once")
			got := make([]byte, len(want))
			if _, err = nc.Write(submit(id, "once")); err == nil {
				_, err = io.ReadFull(nc, got)
			}
			if err != nil || string(got) != string(want) {
				t.Fatalf("%s answered %q (%v)", name, got, err)
			}
		}
	}
	var wait sync.WaitGroup
	switches := make([]int, len(names))
	for i, name := range names {
		wait.Go(func() {
			awaitRest(pids[name])
			before := contextSwitches(pids[name])
			<-time.After(watched)
			switches[i] = contextSwitches(pids[name]) - before
		})
	}
	wait.Wait()
	for i, name := range names {
		t.Logf("%-8s %d context switches in %v", name, switches[i], watched)
		if switches[i] > most && name != "none" {
			t.Errorf("%s with %d idle connections ran %d times in %v, want %d at most", name, conns, switches[i], watched, most)
		}
	}
}

// awaitRest waits until a process has not run for three seconds, but at most ten.
func awaitRest(pid int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, quiet := -1, 0
	for range 200 {
		<-tick.C
		if now := contextSwitches(pid); now != last {
			last, quiet = now, 0
		} else if quiet++; quiet == 60 {
			return
		}
	}
}

// contextSwitches returns how often the threads of a process were descheduled.
func contextSwitches(pid int) (sum int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has just ended
		}
		for line := range strings.Lines(string(status)) {
			var n int
			if _, rest, ok := strings.Cut(line, "voluntary_ctxt_switches:"); ok {
				fmt.Sscan(rest, &n)
				sum += n
			}
		}
	}
	return sum
}
