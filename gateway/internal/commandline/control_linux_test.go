package commandline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControl: a program answers over a socket in its folder, however long the folder's path is, and refuses as the handler
// says. Nobody answers before it and after it.
func TestControl(t *testing.T) {
	short, long := t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{short, long} {
		c := Control(dir)
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
			info, err := os.Stat(filepath.Join(dir, "control"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			stop()
		}
		if err := ask(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if err := Control(filepath.Join(short, "none")).Ask(t.Context(), http.MethodGet, "/", nil, nil); !errors.Is(err, ErrNotRunning) {
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
	if err := Control(dir).Ask(t.Context(), http.MethodGet, "/", nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
	stop, err := Control(dir).Answer(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	stop()
}
