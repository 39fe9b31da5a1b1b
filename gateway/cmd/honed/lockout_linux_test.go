package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestServesWithoutDevices serves with an empty /dev, as in a chroot jail.
func TestServesWithoutDevices(t *testing.T) {
	t.Parallel()
	if !testrun.InNamespace(t) {
		return
	}
	mount(t, "/dev", "size=1m")
	g := startGateway(t, filepath.Join(t.TempDir(), "log"), "127.0.0.1:0")
	if status := g.health(); status != http.StatusOK {
		t.Errorf("/healthz returns %d", status)
	}
	load := begin(t, g.addr)
	load.reach(100)
	load.end()
}

// withFiles returns a gateway's command with a limit of descriptors.
func withFiles(t *testing.T, files int) *exec.Cmd {
	args := gatewayArgs(filepath.Join(t.TempDir(), "log"), "127.0.0.1:0")
	return exec.Command("sh", append([]string{"-c", `ulimit -n "$0"; exec "$@"`, strconv.Itoa(files), os.Args[0]}, args...)...)
}

// TestStartNeedsDescriptors starts a gateway whose descriptors do not suffice for its log and one
// connection. It must not start, and say how many more it needs.
func TestStartNeedsDescriptors(t *testing.T) {
	t.Parallel()
	const few = 16
	cmd := withFiles(t, few)
	said, err := cmd.CombinedOutput()
	var limit, more int
	_, line, _ := strings.Cut(string(said), "the limit is ")
	fmt.Sscanf(line, "%d, and a server needs %d more; raise it (ulimit -n, LimitNOFILE)", &limit, &more)
	if cmd.ProcessState.ExitCode() != commandline.Failed || strings.Count(string(said), "\n") != 1 || limit != few || more < 1 {
		t.Fatalf("%v: %s", err, said)
	}
	g := startProcess(t, withFiles(t, few+more))
	load := begin(t, g.addr)
	load.reach(100)
	load.end()
}
