package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/internal/namespacetest"
)

// TestDeadLogFull: a full disk stops the relay, and nothing is passed over; when there is space, it goes on.
func TestDeadLogFull(t *testing.T) {
	if !namespacetest.Inside(t) {
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
	hook := &receiver{t: t, answer: poison}
	hook.start()
	defer hook.die()
	data := filepath.Join(disk, "dead")
	r := startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on", "--batch-messages", "20")
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "no space left") {
		t.Fatalf("%d %s", code, r.text())
	}
	some := len(deadLines(t, data))
	if some == 0 || some == 100 {
		t.Errorf("%d dead letters fit", some)
	}
	os.Remove(ballast)
	r = startRelay(t, nil, addr, data, "http://"+hook.addr, "--pass-on", "--batch-messages", "20")
	eventually(t, "everything", func() bool { return hook.unique() == 100 && r.stats().Dead == 100 })
	if got := len(deadLines(t, data)); got != 100 {
		t.Errorf("%d dead letters; want 100", got)
	}
}
