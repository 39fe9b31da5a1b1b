//go:build unix

package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// withUmask sets the process's umask until the test ends.
func withUmask(t *testing.T, mask int) {
	t.Helper()
	before := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(before) })
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|want {
		t.Errorf("the file is %v (%v), want a socket with %v", info.Mode(), err, want)
	}
}

// The file has the requested permissions, whatever the umask is; it accepts connections,
// and is removed with its listener.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666, 0} {
			withUmask(t, mask)
			ln, err := ListenUnix(path, mode)
			if err != nil {
				t.Fatalf("umask %#o: %v", mask, err)
			}
			wantMode(t, path, mode)
			if got := ln.Addr().String(); got != path {
				t.Errorf("it listens on %s, want %s", got, path)
			}
			if mode&0o200 != 0 {
				exchange(t, ln, path)
			}
			ln.Close()
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Close: %v, want no file", err)
			}
		}
	}
}

// exchange connects to ln and sends it a byte.
func exchange(t *testing.T, ln net.Listener, path string) {
	t.Helper()
	near, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near.Write([]byte{7})
	p := make([]byte, 1)
	if n, err := far.Read(p); n != 1 || p[0] != 7 {
		t.Errorf("read %v and %v", p[:n], err)
	}
}

// From the start nobody can connect: the socket refuses connections, and on Linux its
// permissions are no wider than requested.
func TestSocketFileIsNeverWiderThanAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	withUmask(t, 0)
	socket, err := bindUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if runtime.GOOS == "linux" {
		wantMode(t, path, 0o600)
	}
	if nc, err := net.Dial("unix", path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before listen(2): %v and %v, want ECONNREFUSED", nc, err)
	}
}

// Errors are those of package net, and no files are left or removed.
func TestListenUnixWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	ln, err := ListenUnix(taken, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for path, want := range map[string]error{
		taken:                                syscall.EADDRINUSE,
		filepath.Join(dir, "no", "s"):        fs.ErrNotExist,
		dir + "/" + strings.Repeat("x", 200): syscall.EINVAL,
	} {
		second, err := ListenUnix(path, 0o666)
		if second != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v and %v, want %v", path, second, err, want)
		}
		_, theirs := net.Listen("unix", path)
		if said, usual := fmt.Sprint(err), fmt.Sprint(theirs); said != usual {
			t.Errorf("%q, and package net says %q", said, usual)
		}
	}
	wantMode(t, taken, 0o600)
}
