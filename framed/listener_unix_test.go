//go:build unix

package framed_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// TestListenAndServeMakesSocketFilesPrivate: the permissions do not depend on the umask,
// and closing the server removes the file.
func TestListenAndServeMakesSocketFilesPrivate(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for mode, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o660: 0o660, 0o666: 0o666} {
			path := filepath.Join(testrun.SocketFolder(t), "s")
			s := &framed.Server{Addr: "unix:" + path, SocketMode: mode, Engine: e, Handler: framed.HandlerFunc(echo)}
			ended := make(chan error, 1)
			go func() { ended <- s.ListenAndServe() }()
			var client *framed.Client
			eventually(t, "the server listens", func() bool {
				var err error
				client, err = framed.Dial(patient(t), "unix:"+path, framed.ClientOptions{})
				return err == nil
			})
			if reply, err := client.Call(patient(t), nil, []byte("hello")); string(reply) != "hello" || err != nil {
				t.Errorf("mode %04o: answered %q, %v", mode, reply, err)
			}
			client.Close()
			if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("SocketMode %04o makes %v, %v; want %04o", mode, info.Mode(), err, want)
			}
			s.Close()
			if err := heard(t, ended, "ListenAndServe"); err != framed.ErrServerClosed {
				t.Errorf("ListenAndServe returned %v", err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Close os.Stat of the socket file returned %v, want no file", err)
			}
		}
	})
}

// TestListenAndServeReplacesStaleSockets: a server that was killed leaves its socket file,
// which must not keep the next one down.
func TestListenAndServeReplacesStaleSockets(t *testing.T) {
	path := filepath.Join(testrun.SocketFolder(t), "s")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	s := &framed.Server{Addr: "unix:" + path, Handler: framed.HandlerFunc(echo)}
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe() }()
	eventually(t, "the server listens, or has ended", func() bool {
		client, err := framed.Dial(patient(t), "unix:"+path, framed.ClientOptions{})
		if err == nil {
			client.Close()
		}
		return err == nil || len(ended) > 0
	})
	s.Close()
	if err := heard(t, ended, "ListenAndServe"); err != framed.ErrServerClosed {
		t.Errorf("ListenAndServe returned %v", err)
	}
}

// TestListenAndServeSaysWhyNot: the error wraps the system's.
func TestListenAndServeSaysWhyNot(t *testing.T) {
	ln := listenTCP(t)
	defer ln.Close()
	s := &framed.Server{Addr: ln.Addr().String(), Handler: framed.HandlerFunc(echo)}
	defer s.Close()
	if err := s.ListenAndServe(); !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(fmt.Sprint(err), "framed: ") {
		t.Errorf("on an address in use: %v, want EADDRINUSE from framed", err)
	}
}
