package commandline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestControl: a program answers over a socket in its folder or elsewhere, however long the path is, and refuses as the
// handler says. Nobody answers before it and after it.
func TestControl(t *testing.T) {
	short, long := t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Control{{Folder: short}, {Folder: long}, {Folder: short, Path: filepath.Join(long, "of-its-own")}} {
		ask := func() error { return c.Ask(t.Context(), http.MethodPost, "/", "wish", nil) }
		if err := ask(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("before: %v", err)
		}
		for _, refusal := range []error{nil, errors.New("not today")} { // the second one begins where the first one was
			stop, err := c.Answer(Carry(func(_ context.Context, what string) error {
				if what != "wish" {
					return errors.New(what)
				}
				return refusal
			}))
			if err != nil {
				t.Fatal(err)
			}
			if says, want := fmt.Sprint(ask()), fmt.Sprint(refusal); says != want {
				t.Errorf("%s, want %s", says, want)
			}
			info, err := os.Stat(cmp.Or(c.Path, filepath.Join(c.Folder, "control")))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			stop()
		}
		if err := ask(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if err := (Control{Folder: filepath.Join(short, "none")}).Ask(t.Context(), http.MethodGet, "/", nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
}

// TestControlOfAProgramThatWasKilled: a socket that is left over is replaced.
func TestControlOfAProgramThatWasKilled(t *testing.T) {
	dir := t.TempDir()
	left, err := net.Listen("unix", filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	if err := (Control{Folder: dir}).Ask(t.Context(), http.MethodGet, "/", nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	stop, err := Control{Folder: dir}.Answer(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

// TestControlOfAnotherUser: whoever has come to a socket in spite of its mode is asked who it is.
func TestControlOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir := t.TempDir()
	stop, err := Control{Folder: dir}.Answer(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	path := filepath.Join(dir, "control")
	for _, at := range []string{filepath.Dir(dir), dir, path} {
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[int]string{0: "HTTP/1.1 404", 65534: ""} {
		answered := make(chan string)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user))
			conn, err := net.Dial("unix", path)
			if err != nil {
				answered <- err.Error()
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
			text, _ := io.ReadAll(conn)
			answered <- string(text[:min(len(text), 12)])
		}()
		if got := strings.Replace(<-answered, "HTTP/1.0", "HTTP/1.1", 1); got != want {
			t.Errorf("user %d: %q, want %q", user, got, want)
		}
	}
}
