package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/record"
)

// killedMark is in the environment of a command that will be killed, and of all that it
// starts.
const killedMark = "HONE_TEST_KILLED"

// TestKilled kills commands at ten moments each, as the kernel does when memory is short.
// Nothing half-written is taken for a run, the store opens again, no process lives on,
// and the next run works.
func TestKilled(t *testing.T) {
	if !testrun.All() {
		t.Skip("takes some forty runs; HONE_TEST_ALL=1 runs it")
	}
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer web.Close()
	for name, line := range map[string]string{
		"load":  "load " + web.URL + " -c 2 -d 300ms --save x",
		"knee":  "knee " + web.URL + " --axis conns --from 1 --to 2 --for 100ms --confirm 1 --expect p50<10s --save x",
		"bench": "bench --target " + testrun.FreeAddr(t) + " -n 1 -c 2 -d 200ms --most-others 100% --save x --cmd",
	} {
		k := &killing{dir: t.TempDir(), args: strings.Fields(line)}
		if name == "bench" { // the server is the shell's child, which a signal to the shell does not reach
			k.args = append(k.args, "hone serve --addr "+k.args[2]+" --admin 127.0.0.1:0 & wait")
		}
		if err := os.Mkdir(filepath.Join(k.dir, "tmp"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			k.atMoments(t, false)
			if name == "load" {
				k.atBirth(t)
			}
			if name == "knee" { // it stores most
				k.atMoments(t, true)
			}
		})
	}
}

// killing is a command that is killed again and again.
type killing struct {
	dir  string
	args []string
	runs int // in the store
}

// atMoments kills it at ten moments, of all its time or of the time after it has begun to
// print, in which the run is stored.
func (k *killing) atMoments(t *testing.T, storing bool) {
	lasts := k.whole(t, storing)
	for i := range 10 {
		k.kill(t, lasts*time.Duration(2*i+1)/20, storing)
	}
	k.whole(t, storing)
	if left, _ := filepath.Glob(filepath.Join(k.dir, "tmp", "*")); len(left) > 0 { // the pattern is a good one
		t.Errorf("after the next run these folders are left: %v", left)
	}
}

// atBirth kills it while it makes the store, which is there after some 20 ms.
func (k *killing) atBirth(t *testing.T) {
	for i := range 10 {
		k.forget(t)
		k.kill(t, time.Duration(i)*4*time.Millisecond, false)
	}
	k.whole(t, false)
}

// forget removes the store.
func (k *killing) forget(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(k.store()); err != nil {
		t.Fatal(err)
	}
	k.runs = 0
}

// command is the command with a mark, which prints to said.
func (k *killing) command(mark string, said io.Writer) *exec.Cmd {
	cmd := exec.Command("hone", append(k.args, "--store", k.store(), "--json")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.dir, said, os.Stderr
	cmd.Env = append(cmd.Environ(), killedMark+"="+mark, "TMPDIR="+filepath.Join(k.dir, "tmp"))
	return cmd
}

func (k *killing) store() string { return filepath.Join(k.dir, "runs") }

// whole lets it run to its end, and returns how long that takes.
func (k *killing) whole(t *testing.T, storing bool) time.Duration {
	t.Helper()
	said := &firstWords{heard: make(chan struct{})}
	cmd := k.command("no", said)
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	lasts := time.Since(begun)
	if storing {
		lasts = time.Since(said.begun)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 4 { // 4: a busy machine
		t.Fatalf("%v: %v", k.args, err)
	}
	if n := k.stored(t); n != k.runs+1 {
		t.Fatalf("%v: %d runs are stored, want %d", k.args, n, k.runs+1)
	}
	k.runs++
	return lasts
}

// kill starts it and kills it when so much time has passed.
func (k *killing) kill(t *testing.T, after time.Duration, storing bool) {
	t.Helper()
	mark := strconv.FormatInt(time.Now().UnixNano(), 36)
	said := &firstWords{heard: make(chan struct{})}
	cmd := k.command(mark, said)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if storing {
		select {
		case <-said.heard:
		case <-time.After(patience):
		}
	}
	<-time.After(after)
	cmd.Process.Kill()
	cmd.Wait() // how it ended is known, or it was faster
	awaitNobody(t, mark)
	switch n := k.stored(t); n {
	case k.runs, k.runs + 1:
		k.runs = n
	default:
		t.Errorf("killed after %v: %d runs are stored, after %d", after, n, k.runs)
	}
}

// stored counts the runs of the store, each of which must be as it was written.
func (k *killing) stored(t *testing.T) int {
	t.Helper()
	s, err := record.OpenRead(k.store())
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.List(record.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if whole, err := s.Get(r.ID); err != nil || len(whole.Samples) == 0 {
			t.Errorf("run %s: %v", r.ID, err)
		}
	}
	return len(runs)
}

// awaitNobody waits until no process has the mark.
func awaitNobody(t *testing.T, mark string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		left := marked(mark)
		if left == nil {
			return
		}
		if time.Since(begun) > patience {
			for _, pid := range left {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			t.Fatalf("killed, and the processes %d live on", left)
		}
	}
}

// marked are the processes with a mark.
func marked(mark string) (left []int) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is a good one
	for _, name := range environments {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte(killedMark+"="+mark+"\x00")) {
			continue // it has ended, or is somebody else's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			left = append(left, pid)
		}
	}
	return left
}

// firstWords says when something is printed.
type firstWords struct {
	once  sync.Once
	heard chan struct{}
	begun time.Time
}

func (w *firstWords) Write(b []byte) (int, error) {
	w.once.Do(func() { w.begun = time.Now(); close(w.heard) })
	return len(b), nil
}
