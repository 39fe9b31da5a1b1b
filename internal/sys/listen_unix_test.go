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

// Errors are those of package net, and no files are left.
func TestListenUnixWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{
		filepath.Join(dir, "no", "s"):        fs.ErrNotExist,
		dir + "/" + strings.Repeat("x", 200): syscall.EINVAL,
	} {
		ln, err := ListenUnix(path, 0o666)
		if ln != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v and %v, want %v", path, ln, err, want)
		}
		_, theirs := net.Listen("unix", path)
		if said, usual := fmt.Sprint(err), fmt.Sprint(theirs); said != usual {
			t.Errorf("%q, and package net says %q", said, usual)
		}
	}
}

// A socket file that a killed server has left is replaced.
func TestListenUnixReplacesStaleSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	leaveSocket(t, path)
	ln, err := ListenUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	wantMode(t, path, 0o600)
	exchange(t, ln, path)
}

// leaveSocket leaves a socket file behind on which nobody listens.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
}

// Whatever else exists is left alone, and the error says what to do.
func TestListenUnixLeavesTheRest(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	live, err := ListenUnix(at("live"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	packets, err := net.ListenPacket("unixgram", at("packets"))
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	leaveSocket(t, at("stale"))
	if err := errors.Join(os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("folder"), 0o700), os.Symlink(at("stale"), at("link"))); err != nil {
		t.Fatal(err)
	}
	says := map[string]string{
		"live":    "another server listens there; stop it, or use another path",
		"packets": "another server listens there; stop it, or use another path",
		"file":    "that file is not a socket; remove it yourself, or use another path",
		"folder":  "that file is not a socket; remove it yourself, or use another path",
		"link":    "that file is not a socket; remove it yourself, or use another path",
	}
	if os.Geteuid() != 0 {
		leaveSocket(t, at("foreign"))
		if err := os.Chmod(at("foreign"), 0); err != nil {
			t.Fatal(err)
		}
		says["foreign"] = "no permission to connect to that socket; remove it yourself if no server listens there, or use another path"
	}
	for name, want := range says {
		ln, err := ListenUnix(at(name), 0o666)
		if ln != nil || !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: %v and %v, want EADDRINUSE", name, ln, err)
		}
		if said := fmt.Sprint(err); said != "listen unix "+at(name)+": "+want {
			t.Errorf("%s: %s, want … %s", name, said, want)
		}
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
	wantMode(t, at("live"), 0o600)
}
