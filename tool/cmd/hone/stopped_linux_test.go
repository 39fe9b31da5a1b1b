package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// A generator that was stopped in the measured time makes the result invalid, in a closed loop
// too, and the server is not accused. Of a fleet, one agent is stopped.
func TestStoppedGeneratorIsNotValid(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"alone": {"-c", "10"}, "pieces": {"-c", "10"}, "TLS": {"-c", "10", "--insecure"}, "rate": {"-c", "10", "--rate", "500"}, "fleet": {"-c", "9"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range testrun.Sized(1, 5) {
				var busy, asked atomic.Int64
				var each sync.Map // requests by connection
				begun := make(chan struct{}, 1)
				web := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					n, _ := each.LoadOrStore(req.RemoteAddr, new(atomic.Int64))
					if n.(*atomic.Int64).Add(1) == 5 {
						busy.Add(1)
					}
					if asked.Add(1) >= 200 && busy.Load() >= 9 { // no warm-up: the measured time has begun, for every agent
						select {
						case begun <- struct{}{}:
						default:
						}
						<-time.After(10 * time.Millisecond) // a load at full speed would prove no more from here on
					}
				}))
				if name == "TLS" {
					web.StartTLS()
				} else {
					web.Start()
				}
				defer web.Close()
				args := append([]string{"load", web.URL, "-d", "2s", "--warmup", "0", "--json"}, flags...)
				var agents []*exec.Cmd
				if name == "fleet" {
					url, _ := natstest.Run(t, "")
					token := filepath.Join(t.TempDir(), "token")
					if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
						t.Fatal(err)
					}
					args = append(args, "--agents", url, "--agents-token-file", token, "--agents-count", "3", "--agents-wait", patience.String())
					for range 3 {
						agents = append(agents, startHone(t, []string{"agent", url, "--token-file", token}))
					}
				}
				cmd := exec.Command("hone", args...)
				var out bytes.Buffer
				cmd.Stdout = &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-begun:
				case <-time.After(patience):
					t.Error("no requests")
				}
				pid := cmd.Process.Pid
				if agents != nil {
					pid = agents[1].Process.Pid
				}
				stops, long, says := 1, 400*time.Millisecond, "the generator itself did not run for "
				if name == "pieces" { // none of them is too long
					stops, long, says = 5, 60*time.Millisecond, "the generator itself did not run in "
				}
				for range stops {
					for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
						if err := syscall.Kill(pid, signal); err != nil {
							t.Error(err)
						}
						<-time.After(long)
					}
				}
				_ = cmd.Wait() // the exit code says it
				var r load.Result
				if err := json.Unmarshal(out.Bytes(), &r); err != nil {
					t.Fatalf("%v: %s", err, out.Bytes())
				}
				said := strings.Join(append(r.InvalidReasons, r.Warnings...), "\n")
				if code := cmd.ProcessState.ExitCode(); code != exit.Invalid || r.Valid || !strings.Contains(said, says) && name != "rate" || strings.Contains(said, "to it, stalled") {
					t.Errorf("exit code %s, valid %v: %s", strconv.Itoa(code), r.Valid, said)
				}
			}
		})
	}
}

// What was measured while the generator was stopped does not count: no sample of bench, no trial of
// a search.
func TestStoppedGeneratorDoesNotCount(t *testing.T) {
	t.Parallel()
	const stopped = "the generator itself did not run for "
	for name, args := range map[string][]string{
		"bench": {"bench", "--cmd", "exec hone serve --service faults --addr ADDR --admin ADMIN", "--target", "ADDR", "-n", "1", "-c", "4", "-d", "2s", "--warmup", "0", "--max-others", "100%", "--json", "--request", "sleep 5ms"},
		"knee":  {"knee", "ADDR", "--axis", "conns", "--from", "4", "--to", "5", "-d", "3s", "--warmup", "0", "--confirm", "1", "--json", "--expect", "p99<500ms", "--request", "sleep 5ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, side := testrun.FreeAddr(t), testrun.FreeAddr(t)
			if name == "knee" {
				startHone(t, []string{"serve", "--service", "faults", "--addr", addr, "--admin", side})
				awaitPort(t, addr)
			}
			for i := range args {
				args[i] = strings.NewReplacer("ADDR", addr, "ADMIN", side).Replace(args[i])
			}
			store := filepath.Join(t.TempDir(), "runs")
			cmd := exec.Command("hone", append(args, "--save", "stopped", "--store", store)...)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitReceived(t, side, 300)
			if err := syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			<-time.After(400 * time.Millisecond)
			if err := syscall.Kill(cmd.Process.Pid, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // what it has kept says it
			s, err := record.OpenRead(store)
			if err != nil {
				t.Fatalf("%v: %s", err, said.Bytes())
			}
			run, err := s.Get("stopped")
			if err != nil {
				t.Fatalf("%v: %s", err, said.Bytes())
			}
			if first := run.Samples[0]; first.Valid || !strings.Contains(strings.Join(first.Reasons, "\n"), stopped) {
				t.Errorf("the first sample is valid: %v, %q", first.Valid, first.Reasons)
			}
		})
	}
}

// A lap of the demo in which the generator was stopped is repeated.
func TestStoppedDemoDoesNotCount(t *testing.T) {
	if !testrun.All() {
		t.Skip("takes the whole machine for some seconds; HONE_TEST_ALL=1 runs it")
	}
	cmd := exec.Command("hone", "demo", "--for", "2s")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	lap := func() string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), " 100 × 1") {
				return lines.Text()
			}
		}
		return ""
	}
	lap()
	for range 5 { // one of them is in the measured time, whose beginning is not told
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			<-time.After(250 * time.Millisecond)
			if err := syscall.Kill(cmd.Process.Pid, signal); err != nil {
				t.Error(err)
			}
		}
	}
	if next := lap(); !strings.Contains(next, "100 × 1, again: the generator itself did not run for ") {
		t.Errorf("the demo goes on with %q", next)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // it was interrupted
}

// awaitReceived waits until a server has answered n requests.
func awaitReceived(t *testing.T, at string, n uint64) {
	t.Helper()
	server, err := admin.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); time.Now().Before(until); <-tick.C {
		if now, err := server.Read(t.Context()); err == nil && now.RequestsReceived >= n {
			return
		}
	}
	t.Errorf("%s has not answered %d requests after %v", at, n, patience)
}

// The demo needs no /proc, as in a chroot where hone is the only file.
func TestDemoWithoutProc(t *testing.T) {
	if !testrun.All() {
		t.Skip("races all engines; HONE_TEST_ALL=1 runs it")
	}
	t.Parallel()
	cmd := exec.Command("sh", "-c", "mount -t tmpfs none /proc && exec hone demo --for 100ms --json")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	ended, _ := errors.AsType[*exec.ExitError](err)
	if err != nil && ended == nil {
		testrun.Lacks(t, "needs user namespaces: "+err.Error())
	}
	if ended != nil && ended.ExitCode() != exit.Invalid { // busy machines disturb a lap of 100 ms
		t.Fatalf("%v\n%s", err, ended.Stderr)
	}
	if n := strings.Count(string(out), `"rate":`); n != 11 {
		t.Errorf("%d rates, want 11:\n%s", n, out)
	}
}
