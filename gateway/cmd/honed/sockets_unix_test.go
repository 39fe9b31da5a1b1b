//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// socketFlags are the flags that take unix:PATH.
var socketFlags = [...]string{"--listen", "--websocket", "--admin"}

// TestStaleSockets starts a gateway where one that was killed has left its socket files.
func TestStaleSockets(t *testing.T) {
	dir := testrun.SocketFolder(t)
	for _, flag := range socketFlags {
		ln, err := net.Listen("unix", filepath.Join(dir, flag))
		must(t, err)
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		ln.Close()
	}
	onSockets(t, dir, func() {
		for _, flag := range socketFlags {
			conn, err := net.Dial("unix", filepath.Join(dir, flag))
			if err != nil {
				t.Errorf("%s: %v", flag, err)
				continue
			}
			conn.Close()
		}
	})
	for _, flag := range socketFlags {
		if _, err := os.Lstat(filepath.Join(dir, flag)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: after the end: %v, want no file", flag, err)
		}
	}
}

// TestSocketsAreTheirOwners: the permissions do not depend on the umask.
func TestSocketsAreTheirOwners(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := testrun.SocketFolder(t)
	onSockets(t, dir, func() {
		for _, flag := range socketFlags {
			if info, err := os.Lstat(filepath.Join(dir, flag)); err != nil || info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("%s makes %v (%v), want a socket with 0600", flag, info.Mode(), err)
			}
		}
	})
}

// onSockets runs a gateway whose listeners are files in dir, each named as its flag, and calls look while it
// serves.
func onSockets(t *testing.T, dir string, look func()) {
	t.Helper()
	args := []string{"--json", "--data", filepath.Join(dir, "log")}
	for _, flag := range socketFlags {
		args = append(args, flag, "unix:"+filepath.Join(dir, flag))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, ended := make(chan []byte, 10), make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, args, lines(said), &errs)
		close(said)
	}()
	var ready struct{ Listen, Websocket []string }
	if err := json.Unmarshal(<-said, &ready); err != nil || len(ready.Listen) != 1 || len(ready.Websocket) != 1 {
		cancel()
		t.Fatalf("not ready: %v, %d %s", err, <-ended, &errs)
	}
	look()
	cancel()
	if code := <-ended; code != commandline.OK {
		t.Errorf("%d %s", code, &errs)
	}
}

// TestOccupiedSockets: what somebody uses is not replaced, and one line says what to do.
func TestOccupiedSockets(t *testing.T) {
	dir := testrun.SocketFolder(t)
	live, file := filepath.Join(dir, "live"), filepath.Join(dir, "file")
	ln, err := net.Listen("unix", live)
	must(t, err)
	defer ln.Close()
	must(t, os.WriteFile(file, nil, 0o600))
	for path, says := range map[string]string{
		live: live + ": another server listens there; stop it, or use another path\n",
		file: file + ": that file is not a socket; remove it yourself, or use another path\n",
	} {
		for _, flag := range socketFlags {
			code, _, errs := honed(t, "--listen", "127.0.0.1:0", "--admin", "off", "--data", filepath.Join(dir, "log"), flag, "unix:"+path)
			if code != commandline.Failed || !strings.HasSuffix(errs, says) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s: %d %s; want 1 … %s", flag, code, errs, says)
			}
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
