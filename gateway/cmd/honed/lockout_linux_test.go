package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
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

// TestAdminCrowdKeepsNobodyOut opens 700 silent connections to the admin side of a gateway that
// has 600 descriptors. New clients are served, and so is an operator.
func TestAdminCrowdKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	const silent, newcomers = 700, 100
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil || own.Cur < silent+newcomers+200 {
		testrun.Lacks(t, fmt.Sprintf("%d connections need more than the %d descriptors here", silent, own.Cur))
	}
	g := startProcess(t, withFiles(t, 600))
	for range silent {
		nc, err := net.Dial("tcp", g.admin)
		must(t, err)
		defer nc.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := 0
	for i := range newcomers {
		client := &gateway.Client{Addrs: []string{g.addr}, ID: fmt.Sprint("client-", i)}
		defer client.Close(ctx)
		brief, cancel := context.WithTimeout(ctx, 2*time.Second)
		if _, err := client.Submit(brief, []byte("hello")); err != nil {
			failed++
		}
		cancel()
	}
	if failed > 0 {
		t.Errorf("%d of %d new clients were not served", failed, newcomers)
	}
	for range 10 {
		if status := g.health(); status != http.StatusOK {
			t.Errorf("/healthz returns %d", status)
		}
	}
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
