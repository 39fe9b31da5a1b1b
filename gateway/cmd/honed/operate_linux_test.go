package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestDeletedLock deletes the lock file of a running gateway, which looks like something left over.
// Nobody else gets the log.
func TestDeletedLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	g := startGateway(t, dir, "127.0.0.1:0")
	l := beginGently(t, g.addr)
	l.reach(10)
	must(t, os.Remove(filepath.Join(dir, "lock")))
	code, _, errs := honed(t, "--listen", "127.0.0.1:0", "--admin", "off", "--data", dir)
	if code != commandline.Failed || !strings.Contains(errs, "is in use by") || !strings.Contains(errs, "stop that process") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := honed(t, "verify", "--data", dir); code != commandline.OK { // reading needs no lock
		t.Errorf("verify: %d %s", code, errs)
	}
	l.end()
	g.kill()
	l.stored(dir)
}

// TestLogIsTakenAway deletes or replaces what belongs to the log of a running gateway, which would
// acknowledge into nothing: it stops within two seconds and says why.
func TestLogIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(dir string) error{
		"mark deleted": func(dir string) error { return os.Remove(filepath.Join(dir, "mark")) },
		"mark replaced": func(dir string) error {
			content, err := os.ReadFile(filepath.Join(dir, "mark"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "new"), content, 0o600)
			}
			if err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "mark"))
		},
		"folder moved": func(dir string) error { return os.Rename(dir, dir+".old") },
		"folder replaced": func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return exec.Command("cp", "-a", dir+".old", dir).Run()
		},
	} {
		for _, loaded := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", loaded ", loaded), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "log")
				g := startGateway(t, dir, "127.0.0.1:0")
				if loaded {
					beginGently(t, g.addr).reach(10)
				}
				began := time.Now()
				must(t, take(dir))
				code, took := g.wait(), time.Since(began)
				if code != commandline.Failed || !strings.Contains(g.lastLine(), "while this process wrote to it") && !strings.Contains(g.lastLine(), "no such file or directory") {
					t.Errorf("honed ended with %d: %s", code, g.lastLine())
				}
				if t.Logf("after %v", took); took > 2*time.Second && !testrun.Race {
					t.Errorf("honed ended after %v, want 2 s", took)
				}
			})
		}
	}
}

// TestStopsWithFullDisk ends gateways whose disk is full, within --drain. What waits for space has
// not been acknowledged, and the exit code says so; without it there is nothing to say.
func TestStopsWithFullDisk(t *testing.T) {
	t.Parallel()
	if !testrun.InNamespace(t) {
		return
	}
	const drain = 4 * time.Second
	for i := range testrun.Sized(1, 10) {
		for _, loaded := range []bool{false, true} {
			t.Run(fmt.Sprint(i, ", loaded ", loaded), func(t *testing.T) {
				t.Parallel()
				dir := disk(t, "size=160m")
				g := startGateway(t, filepath.Join(dir, "log"), testrun.FreeAddr(t), "--drain", drain.String())
				var l *load
				if loaded {
					l = begin(t, g.addr)
					l.reach(10)
				}
				takeUp(t, filepath.Join(dir, "ballast"), 100<<20)
				if loaded {
					g.says("no space for the log")
				}
				began := time.Now()
				must(t, g.cmd.Process.Signal(syscall.SIGTERM))
				code, took := g.wait(), time.Since(began)
				want, says := commandline.OK, "no space for a checkpoint"
				if loaded {
					want, says = commandline.Failed, "records wait for space in the log"
				}
				if code != want || !strings.Contains(g.said.String(), says) {
					t.Errorf("honed ended with %d: %s", code, g.said.String())
				}
				if t.Logf("after %v", took); took > drain && !testrun.Race {
					t.Errorf("honed ended after %v, want %v", took, drain)
				}
				if !loaded {
					return
				}
				acked := l.acked.Load()
				os.Remove(filepath.Join(dir, "ballast"))
				g = startGateway(t, filepath.Join(dir, "log"), g.addr)
				l.reach(acked + 10)
				l.end()
				g.kill()
				l.stored(filepath.Join(dir, "log"))
			})
		}
	}
}

// TestSecondSignal ends a drain that waits for space at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	if !testrun.InNamespace(t) {
		return
	}
	dir := disk(t, "size=160m")
	g := startGateway(t, filepath.Join(dir, "log"), testrun.FreeAddr(t), "--drain", "10m")
	begin(t, g.addr).reach(10)
	takeUp(t, filepath.Join(dir, "ballast"), 100<<20)
	g.says("no space for the log")
	for _, wait := range []string{"draining", ""} {
		must(t, g.cmd.Process.Signal(syscall.SIGTERM))
		if wait != "" {
			g.says(wait)
		}
	}
	if code := g.wait(); code != commandline.Failed {
		t.Errorf("honed ended with %d", code)
	}
}

// refusesOrders gives a honed that has no log yet every order.
func refusesOrders(t *testing.T, dir string) {
	t.Helper()
	for _, order := range []string{"sessions forget x", "readers create x", "readers move x", "readers split x", "readers remove x", "clock accept"} {
		code, _, errs := honed(t, append(strings.Fields(order), "--data", dir)...)
		if code != commandline.Failed || !strings.Contains(errs, "does not run there, or is still starting") {
			t.Errorf("%s: %d %s", order, code, errs)
		}
	}
}

// TestAdminBeforeTheLog asks the admin side while the log cannot be opened yet.
func TestAdminBeforeTheLog(t *testing.T) {
	t.Parallel()
	admin, dir := testrun.FreeAddr(t), t.TempDir()
	g := launch(t, exec.Command(os.Args[0], "serve", "--until-eof", "--admin", admin, "--data", dir, "--listen", "127.0.0.1:0", "--log", "nats://"+testrun.FreeAddr(t)))
	ask := func(path string) (status int, body string) {
		resp, err := http.Get("http://" + admin + path)
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	eventually(t, "the admin side answers", func() bool { status, _ := ask("/healthz"); return status != 0 })
	if status, _ := ask("/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("/healthz returns %d", status)
	}
	if _, body := ask("/gateway/metrics"); !strings.Contains(body, "\nhoned_starting 1\n") {
		t.Errorf("metrics: %s", body)
	}
	refusesOrders(t, dir)
	began := time.Now()
	must(t, g.cmd.Process.Signal(syscall.SIGTERM))
	if code, took := g.wait(), time.Since(began); code != commandline.Interrupted || took > 5*time.Second {
		t.Errorf("honed ended with %d after %v: %s", code, took, g.said.String())
	}
}

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
