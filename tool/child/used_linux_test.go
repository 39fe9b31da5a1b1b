package child

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What a shell starts is counted with it and is found as the busiest.
func TestUsedCountsTheGroup(t *testing.T) {
	c := start(t, `sh -c 'while :; do :; done' & echo $!; wait`, Options{Signal: true})
	worker := answer[int](t, c)
	for begun := time.Now(); ; {
		u, err := c.Used()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU > 20*time.Millisecond && u.Busiest == worker && len(u.PIDs) == 2 && u.Resident > 100<<10 {
			if exe, err := os.Readlink(u.Program()); err != nil || !strings.HasPrefix(exe, "/") {
				t.Errorf("its program is %q, %v", exe, err)
			}
			if also, err := UsedBy(c.PID); err != nil || also.Busiest != worker || len(also.PIDs) != 2 || also.CPU < u.CPU || also.Descriptors() < 6 {
				t.Errorf("the same by its process id is %+v, %v", also, err)
			}
			if alone, err := UsedBy(worker); err != nil || len(alone.PIDs) != 1 {
				t.Errorf("the worker alone is %+v, %v", alone, err)
			}
			break
		}
		if time.Since(begun) > patience {
			t.Fatalf("uses %+v, the worker is %d", u, worker)
		}
	}
	c.Stop()
	if _, err := UsedBy(c.PID); err == nil {
		t.Error("the use of a process that has ended is known")
	}
	if _, err := c.Used(); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("after its end: %v", err)
	}
}

// More programs than there are processors wait for one.
func TestUsedCountsWaits(t *testing.T) {
	if text, err := os.ReadFile("/proc/self/schedstat"); err != nil || strings.HasPrefix(string(text), "0 0 ") {
		t.Skip("this kernel does not count")
	}
	c := start(t, fmt.Sprintf(`for i in $(seq %d); do sh -c 'while :; do :; done' & done; echo 1; wait`, 2*runtime.NumCPU()), Options{Signal: true})
	answer[int](t, c)
	for begun := time.Now(); ; {
		u, err := c.Used()
		if err != nil {
			t.Fatal(err)
		}
		if u.Waited > 20*time.Millisecond {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("uses %+v", u)
		}
	}
}

func TestKinIn(t *testing.T) {
	for stat, want := range map[string]int{"12 (a) S 1 12 12 0": 12, "13 (a ) (b) R 1 7 12 0": 7, "12 (a) Z 1 12 12 0": 0, "": 0, "13 (a": 0, "13 (a) S 1": 0} {
		if got := kinIn([]byte(stat)).group; got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}
