//go:build unix

package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const patience = 60 * time.Second

// parentVariable makes this program start a child, say who lives, and wait to be killed.
const parentVariable = "HONE_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	var started int
	c, err := Start(exec.CommandContext(context.Background(), "sh", "-c", "sleep 1000 & echo $!; wait"), Options{})
	if err == nil {
		err = c.Answer(context.Background(), patience, &started)
	}
	fmt.Println(err == nil, c.PID, started)
	<-c.Ended()
}

func start(t *testing.T, script string, o Options) *Child {
	t.Helper()
	c, err := Start(exec.CommandContext(t.Context(), "sh", "-c", script), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func answer[T any](t *testing.T, c *Child) (got T) {
	t.Helper()
	if err := c.Answer(t.Context(), patience, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// gone waits until the process has ended or is a zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); syscall.Kill(pid, 0) == nil; {
		if stat, err := os.ReadFile("/proc/self/stat"); err == nil && len(stat) > 0 {
			if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); errors.Is(err, fs.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
				return // a zombie that its parent has not reaped
			}
		}
		if time.Since(begun) > patience {
			t.Fatalf("process %d lives", pid)
		}
	}
}

// What a child starts ends with it, whether it is stopped, its context ends, or it exits.
func TestNobodyIsLeft(t *testing.T) {
	const leave = `sleep 1000 & echo $!; `
	t.Run("stopped", func(t *testing.T) {
		c := start(t, leave+"wait", Options{Signal: true})
		left := answer[int](t, c)
		c.Stop()
		gone(t, left)
		gone(t, c.PID)
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := Start(exec.CommandContext(ctx, "sh", "-c", leave+"wait"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		left := answer[int](t, c)
		cancel()
		<-c.Ended()
		gone(t, left)
	})
	t.Run("by itself", func(t *testing.T) {
		c := start(t, leave+"exit 7", Options{Grace: 10 * time.Millisecond})
		left := answer[int](t, c)
		if end := new(exec.ExitError); !errors.As(c.How(), &end) || end.ExitCode() != 7 {
			t.Errorf("ended with %v", c.How())
		}
		gone(t, left)
	})
}

// They also end when the program that has started it is killed, as the kernel does when memory is short.
func TestNobodyOutlivesAKilledProgram(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var ok bool
	var leader, left int
	if _, err := fmt.Fscan(out, &ok, &leader, &left); err != nil || !ok {
		t.Fatalf("it has started nothing: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	gone(t, leader)
	gone(t, left)
}

func TestEndsWithItsInput(t *testing.T) {
	c := start(t, `read line; echo "\"$line\""; read line; echo bye >&2`, Options{})
	var got string
	if err := c.Ask(t.Context(), "hello", patience, &got); err != nil || got != "hello" {
		t.Errorf("answered %q, %v", got, err)
	}
	c.Stop()
	c.Stop()
	if err := c.How(); err != nil || !strings.HasSuffix(c.Said(), "bye") {
		t.Errorf("ended with %v and said %q", err, c.Said())
	}
	if err := c.Ask(t.Context(), "hello", patience, &got); err == nil {
		t.Error("answers after its end")
	}
}

func TestStubbornIsKilled(t *testing.T) {
	c := start(t, `trap '' TERM; echo 1; while :; do sleep 1000; done`, Options{Signal: true, Grace: time.Millisecond})
	answer[int](t, c)
	c.Stop()
	if end := new(exec.ExitError); !errors.As(c.How(), &end) || end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", c.How())
	}
}

// A child never blocks on its output, and only a bounded tail of it is kept.
func TestChattersAreBounded(t *testing.T) {
	var lines atomic.Int64
	c := start(t, `head -c 3000000 /dev/zero | tr '\0' x; echo; yes | head -n 100000; yes | head -n 100 >&2`,
		Options{Said: func(line []byte) {
			if string(line) == "y" {
				lines.Add(1)
			}
		}})
	if err := c.How(); err != nil {
		t.Fatal(err)
	}
	if said := c.Said(); lines.Load() != 100_100 || len(said) > 3*mostWords {
		t.Errorf("%d lines; %d bytes are kept of what it said", lines.Load(), len(said))
	}
}

func TestSilenceAndNoProgram(t *testing.T) {
	c := start(t, `echo why >&2; read line`, Options{})
	for begun := time.Now(); c.Said() == "" && time.Since(begun) < patience; {
	}
	var none int
	err := c.Answer(t.Context(), time.Millisecond, &none)
	if said := fmt.Sprint(err); !strings.HasSuffix(said, "its output: why") {
		t.Error(said)
	}
	if _, err := Start(exec.CommandContext(t.Context(), "/nowhere/at/all"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
