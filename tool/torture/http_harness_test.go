package torture

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// arena returns what an attack on target has, with a seed of 1.
func arena(t *testing.T, target codec.Target, limits Limits) *Arena {
	t.Helper()
	at, err := newTarget(load.Plan{Target: target}, false)
	if err != nil {
		t.Fatal(err)
	}
	a := &Arena{
		Limits: limits.complete(),
		Rand:   rand.New(rand.NewPCG(1, 1)), target: at, conns: map[*Conn]struct{}{},
	}
	t.Cleanup(a.close)
	return a
}

// web is a handler as most are: it reads no body, and answers with the path.
func web(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "served", r.URL.Path) }

// serveHTTP1 serves h with package http1 on event loops, and returns its URL.
func serveHTTP1(t *testing.T, h http.Handler, limits engine.Limits) string {
	t.Helper()
	ln := listen(t)
	s := &http1.Server{
		Handler: h, Engine: engine.Events(engine.Auto), Limits: limits,
		Std: &http.Server{ErrorLog: log.New(io.Discard, "", 0)},
	}
	serve(t, func() error { return s.Serve(ln) }, s.Close)
	return "http://" + ln.Addr().String()
}

// serveNetHTTP serves with net/http.
func serveNetHTTP(t *testing.T, s *http.Server) string {
	t.Helper()
	ln := listen(t)
	s.ErrorLog = log.New(io.Discard, "", 0)
	var live sync.WaitGroup
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			live.Add(1)
		case http.StateClosed, http.StateHijacked:
			live.Done()
		}
	}
	serve(t, func() error { return s.Serve(ln) }, func() error {
		err := s.Close()
		live.Wait()
		return err
	})
	return "http://" + ln.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve runs a server until the test ends.
func serve(t *testing.T, run, stop func() error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run() // says that it was closed
	}()
	t.Cleanup(func() {
		_ = stop()
		<-ended
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// acceptKey is the answer to a key of WebSocket's handshake.
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// update writes golden files instead of comparing them.
var update = flag.Bool("update", false, "write golden files into the repository")

// httpInputs returns all lists.
func httpInputs() []httpInput {
	return slices.Concat(lineInputs, fieldInputs, hostInputs, lengthInputs, codingInputs, chunkInputs, lifeInputs)
}

// same compares a file with what it should be, or writes it.
func same(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	switch {
	case *update:
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Error(err)
	case string(got) != want:
		t.Errorf("%s is not what the code says; run go test ./tool/torture -run %s -update, and look at what has changed", name, t.Name())
	}
}
