package commandline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Control is a socket, over which verbs ask the program that runs on a data folder. Only the program's user and root may
// ask. Requests are HTTP: a GET shows, a POST changes.
type Control struct {
	Folder string
	Path   string // of the socket; empty: control in Folder
}

// ErrNotRunning is wrapped by the errors of Ask when no program answers.
var ErrNotRunning = errors.New("nobody answers")

// mostPath is how long the path of a socket may be on every system.
const mostPath = 100

// AddFlag adds the flag for Path.
func (c *Control) AddFlag(flags *flag.FlagSet) {
	flags.StringVar(&c.Path, "control", "", "`PATH` of the socket over which verbs ask the running program; default: control in --data")
}

// socket returns the path of the socket, if need be through a descriptor of its folder, and what releases that.
func (c Control) socket() (path string, release func(), err error) {
	path = cmp.Or(c.Path, filepath.Join(c.Folder, "control"))
	if len(path) <= mostPath {
		return path, func() {}, nil
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)), func() { folder.Close() }, nil
}

// Answer answers requests until stop is called. The caller has locked the folder.
func (c Control) Answer(requests http.Handler) (stop func(), err error) {
	path, release, err := c.socket()
	if err != nil {
		return nil, err
	}
	ln, err := sys.ListenUnix(path, 0o600)
	if err != nil {
		release()
		return nil, err
	}
	srv, done := &http.Server{Handler: requests, ReadTimeout: 10 * time.Second}, make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(owned{ln})
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Shutdown(ctx) // what is being carried out
		srv.Close()
		<-done
		release()
	}, nil
}

// owned is a unix listener for its own user and root.
type owned struct{ net.Listener }

// Accept closes the connections of others.
func (l owned) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if _, trusted := sys.Peer(conn.(syscall.Conn)); trusted {
			return conn, nil
		}
		conn.Close()
	}
}

// Ask sends a request and reads the answer into out, unless that is nil.
func (c Control) Ask(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	socket, release, err := c.socket()
	if err != nil {
		return c.asked(ctx, err)
	}
	defer release()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}).Do(r)
	if err != nil {
		return c.asked(ctx, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	switch {
	case err != nil:
		return c.asked(ctx, err)
	case answer.StatusCode >= 300:
		return errors.New(strings.TrimSpace(cmp.Or(string(text), answer.Status)))
	case out != nil:
		return json.Unmarshal(text, out)
	}
	return nil
}

// asked says what an error of a request means.
func (c Control) asked(ctx context.Context, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w on %s: the program that this verb asks does not run there, or is still starting; give its folder with --data", ErrNotRunning, cmp.Or(c.Path, c.Folder))
	}
	return OrInterrupted(ctx, err)
}

// Carry returns a handler that carries out what a request says. An error refuses it.
func Carry[T any](do func(ctx context.Context, what T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var what T
		in := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		in.DisallowUnknownFields()
		if err := in.Decode(&what); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := do(r.Context(), what); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
