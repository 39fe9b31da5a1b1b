package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestDeadLogFull: a full disk stops the relay, and nothing is passed over. Letters can be dropped and retried there, and
// one that is delivered does not come again. When there is space, the relay goes on.
func TestDeadLogFull(t *testing.T) {
	if !testrun.InNamespace(t) {
		return
	}
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=72m"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	ballast := filepath.Join(disk, "ballast")
	writeFile(t, ballast, strings.Repeat("x", 6<<20))
	addr := newGateway(t)
	submit(t, addr, "a", 200, func(i int) string {
		if i%2 == 0 {
			return "poison" + strings.Repeat(strconv.Itoa(i), 10_000)
		}
		return numbered(i)
	})
	var cured atomic.Value // number of a message that is not refused any more
	cured.Store("")
	hook := &receiver{t: t, answer: func(n int, all []line) (int, string) {
		if len(all) == 1 && all[0].Number == cured.Load() {
			return http.StatusOK, ""
		}
		return poison(n, all)
	}}
	hook.start()
	defer hook.die()
	data := filepath.Join(disk, "dead")
	r := startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on", "--batch-messages", "20")
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "no space left") {
		t.Fatalf("%d %s", code, r.text())
	}
	dead := deadLines(t, data)
	if len(dead) < 2 || len(dead) == 100 {
		t.Fatalf("%d dead letters fit", len(dead))
	}
	writeFile(t, ballast+"2", strings.Repeat("x", 1<<20)) // not even a decision fits in front of the reserve
	verb(t, data, "drop", dead[0].Number)
	verb(t, data, "retry", dead[1].Number)
	cured.Store(dead[1].Number)
	for range 2 {
		r = startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on", "--batch-messages", "20")
		if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "no space left") {
			t.Fatalf("%d %s", code, r.text())
		}
	}
	times := 0
	for _, l := range hook.lines() {
		if l.Number == dead[1].Number {
			times++
		}
	}
	if left := len(deadLines(t, data)); times != 1 || left != len(dead)-2 {
		t.Errorf("the retried letter came %d times, and %d of %d letters are left", times, left, len(dead))
	}
	os.Remove(ballast)
	os.Remove(ballast + "2")
	r = startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on", "--batch-messages", "20")
	eventually(t, "everything", func() bool { return hook.unique() == 101 && r.stats().Dead == 98 })
	if got := len(deadLines(t, data)); got != 98 {
		t.Errorf("%d dead letters; want 98", got)
	}
}
