//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// socketFlags are the flags that take unix:PATH.
var socketFlags = [...]string{"--listen", "--http", "--admin"}

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
	var ready struct{ Listen, HTTP []string }
	if err := json.Unmarshal(<-said, &ready); err != nil || len(ready.Listen) != 1 || len(ready.HTTP) != 1 {
		cancel()
		t.Fatalf("not ready: %v, %d %s", err, <-ended, &errs)
	}
	look()
	cancel()
	if code := <-ended; code != commandline.OK {
		t.Errorf("%d %s", code, &errs)
	}
}
