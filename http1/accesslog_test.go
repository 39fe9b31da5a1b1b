package http1_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

// readsFrom reports whether io.Copy to w takes the way of files.
type readsFrom struct {
	http.ResponseWriter
	took *bool
}

func (r readsFrom) ReadFrom(from io.Reader) (int64, error) {
	*r.took = true
	return io.Copy(struct{ io.Writer }{r.ResponseWriter}, from)
}

// The access log of the example logs every kind of answer, and what handlers do beyond Write
// works through it, on both halves of http1 and on net/http.
func TestAccessLogKeepsTheWriter(t *testing.T) {
	for _, kind := range []string{"http1", "http1 lent", "net/http"} {
		t.Run(kind, func(t *testing.T) { accessLogKeepsTheWriter(t, kind) })
	}
}

func accessLogKeepsTheWriter(t *testing.T, kind string) {
	fast := false
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "flushed")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		nc.Close()
	})
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) {
		a := w.(*answered)
		a.ResponseWriter = readsFrom{a.ResponseWriter, &fast}
		io.Copy(w, io.LimitReader(zeros{}, 100_000))
	})
	mux.HandleFunc("/nothing", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNotModified)
	})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	sockets := &websocket.Upgrader{Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) { return dst, nil }}
	mux.Handle("/socket", sockets)

	var log http1.Logged
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var srv interface {
		Serve(net.Listener) error
		Close() error
	} = &http.Server{Handler: accessLog(mux, slog.New(slog.NewTextHandler(&log, nil)))}
	if kind != "net/http" {
		srv = &http1.Server{Std: srv.(*http.Server)}
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	logged := 0
	for _, c := range []struct {
		path, more, want string
	}{
		{"/flush", "", "uri=/flush status=202 bytes=7"},
		{"/hijack", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "uri=/hijack status=101 bytes=0"},
		{"/copy", "", "uri=/copy status=200 bytes=100000"},
		{"/nothing", "", "uri=/nothing status=200 bytes=0"},
		{"/early", "", "uri=/early status=304 bytes=0"},
		{"/panic", "", "uri=/panic status=500 bytes=0"},
		{"/gone", "", "uri=/gone status=404 bytes=19"},
		{"/socket", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "uri=/socket status=101 bytes=0"},
		{"/socket", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: http://b\r\n", "uri=/socket status=403 "},
	} {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		version := "1.1"
		if kind == "http1 lent" && c.path != "/socket" {
			version = "1.0"
		}
		fmt.Fprintf(nc, "GET %s HTTP/%s\r\nHost: a\r\n%s\r\n", c.path, version, c.more)
		if resp, err := http.ReadResponse(bufio.NewReader(nc), nil); err == nil {
			io.Copy(io.Discard, resp.Body)
		}
		nc.Close()
		logged++
		for end := time.Now().Add(30 * time.Second); strings.Count(log.String(), "\n") < logged; {
			if <-time.After(time.Millisecond); time.Now().After(end) {
				t.Fatalf("%s is not logged:\n%s", c.path, &log)
			}
		}
		if lines := strings.Split(log.String(), "\n"); !strings.Contains(lines[logged-1], " method=GET "+c.want) || !strings.Contains(lines[logged-1], "msg=request remote="+nc.LocalAddr().String()+" ") {
			t.Errorf("logged %q, want %q", lines[logged-1], c.want)
		}
	}
	if !fast {
		t.Error("io.Copy does not reach the server's ReadFrom")
	}
	if s, ok := srv.(*http1.Server); ok && (kind == "http1") != (s.Stats().Loans == 0) {
		t.Errorf("%d loans", s.Stats().Loans)
	}
	srv.Close()
	sockets.Shutdown(t.Context())
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
