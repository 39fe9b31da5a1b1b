package faultlog_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// What the servers log is tested from the outside, on the standard error of a process: this
// binary, started again, serves on a unix socket until its standard input ends.

// patience limits everything that a test waits for.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if kind := os.Getenv("HONE_TEST_SERVER"); kind != "" {
		if err := serveChild(kind, os.Getenv("HONE_TEST_LOG"), os.Getenv("HONE_TEST_SOCKET")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// explode is a handler's mistake.
func explode() { panic("boom") }

// kinds are the servers, with a message that makes a handler panic, or what says tells.
var kinds = []struct {
	name    string
	message string
	says    string // "": a panic
	client  bool   // the client is at fault, not a handler
	first   string // sent on another connection before, which stays open
}{
	{name: "engine", message: "x"},
	{name: "framed", message: string(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1}))},
	{name: "http1", message: "GET /panic HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "http1 lent", message: "GET /panic HTTP/1.0\r\n\r\n"},
	{name: "http1 twice", message: "GET /twice HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", says: "http: superfluous response.WriteHeader call from "},
	{name: "http1 lent twice", message: "GET /twice HTTP/1.0\r\n\r\n", says: "http: superfluous response.WriteHeader call from "},
	{name: "http1 with TLS", message: "GET / HTTP/1.1\r\n\r\n", client: true, says: "TLS handshake "},
	{name: "http1 full", message: "GET / HTTP/1.1\r\nHost: h\r\n\r\n", client: true, says: "connection refused", first: "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HT"},
	{name: "websocket", message: opening + "\x81\x80mask"},
	{name: "websocket hijacked", message: opening + "\x81\x80mask"},
}

const opening = "GET /socket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// anything is an engine's protocol that panics at the first byte.
type anything struct{}

func (anything) Advance(_ *engine.Turn, in []byte) (int, int, error) {
	if len(in) == 0 {
		return 0, 1, nil
	}
	explode()
	return len(in), 0, nil
}

func (anything) Refuse(dst, _ []byte, _ engine.Reason) []byte { return dst }

// webHandler makes a mistake for every path.
func webHandler(logger *slog.Logger) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { explode() })
	mux.HandleFunc("/twice", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.WriteHeader(500)
	})
	mux.Handle("/socket", &websocket.Upgrader{Logger: logger, Message: func(_ websocket.Call, dst, _ []byte) ([]byte, error) {
		explode()
		return dst, nil
	}})
	return mux
}

// serveChild runs a server whose fields are zero but for what to serves, and for the log.
func serveChild(kind, to, socket string) error {
	var logger *slog.Logger
	var errorLog *log.Logger
	switch to {
	case "discard":
		logger = slog.New(slog.DiscardHandler)
	case "default":
		slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	case "logger":
		logger = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	case "std and logger":
		logger = slog.New(slog.NewJSONHandler(os.Stderr, nil))
		fallthrough
	case "std":
		errorLog = log.New(os.Stderr, "std: ", 0)
	}
	var srv interface {
		Serve(ln net.Listener) error
		Shutdown(ctx context.Context) error
	}
	std := &http.Server{Handler: webHandler(logger), ErrorLog: errorLog, TLSConfig: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.ErrUnsupported },
	}}
	var limits engine.Limits
	if kind == "http1 full" {
		limits.Conns = 1
	}
	switch strings.Fields(kind)[0] {
	case "engine":
		srv = &engine.Server{Protocol: anything{}, Logger: logger}
	case "framed":
		srv = &framed.Server{Logger: logger, Handler: framed.HandlerFunc(func(framed.Call, []byte, []byte) ([]byte, error) {
			explode()
			return nil, nil
		})}
	default:
		srv = &http1.Server{OldGo: true, Std: std, Logger: logger, Limits: limits}
		if kind == "websocket hijacked" {
			srv = std
		}
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	serve := srv.Serve
	if kind == "http1 with TLS" {
		serve = func(ln net.Listener) error { return srv.(*http1.Server).ServeTLS(ln, "", "") }
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, framed.ErrServerClosed) && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// child is a running server.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	socket string
	stderr bytes.Buffer
}

func startChild(t *testing.T, kind, to string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(self), socket: filepath.Join(testrun.SocketFolder(t), "s")}
	c.cmd.Env = append(os.Environ(), "HONE_TEST_SERVER="+kind, "HONE_TEST_LOG="+to, "HONE_TEST_SOCKET="+c.socket)
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err == nil {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		t.Fatalf("the server said %q, %v:\n%s", line, err, &c.stderr)
	}
	return c
}

// provoke sends a message, and returns what comes until the end of the connection.
func (c *child) provoke(message string) (answer string, err error) {
	nc, err := net.Dial("unix", c.socket)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, message); err != nil {
		return "", err
	}
	got, err := io.ReadAll(nc)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // a reset
	}
	return string(got), err
}

// end ends the server and returns what it wrote to standard error.
func (c *child) end(t *testing.T) string {
	t.Helper()
	c.stdin.Close()
	late := time.AfterFunc(2*patience, func() { c.cmd.Process.Kill() })
	err := c.cmd.Wait()
	late.Stop()
	if err != nil {
		t.Errorf("the server ended with %v:\n%.2000s", err, &c.stderr)
	}
	return c.stderr.String()
}

// A panic, and a superfluous WriteHeader, are written to standard error once, whatever serves
// the request, with every field at its zero value; clients' faults are not. A Logger or
// slog.Default() gets them if it is set, Std.ErrorLog comes first, and slog.DiscardHandler
// silences.
func TestServersSpeak(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for _, to := range []string{"zero", "default", "logger", "discard", "std", "std and logger"} {
			web := strings.HasPrefix(k.name, "http1")
			if strings.HasPrefix(to, "std") && !web {
				continue
			}
			t.Run(k.name+", "+to, func(t *testing.T) {
				t.Parallel()
				c := startChild(t, k.name, to)
				if k.first != "" {
					held, err := net.Dial("unix", c.socket)
					if err != nil {
						t.Fatal(err)
					}
					defer held.Close()
					io.WriteString(held, k.first)
					held.Read(make([]byte, 1))
				}
				answer, err := c.provoke(k.message)
				for tries := 1; k.first != "" && strings.HasPrefix(answer, "HTTP/1.1 404 ") && tries < 100; tries++ {
					answer, err = c.provoke(k.message) // it was served: the other connection's second head was still to come
				}
				if err != nil || k.first != "" && !strings.HasPrefix(answer, "HTTP/1.1 503 ") {
					t.Errorf("%q, %v", answer, err)
				}
				got := c.end(t)
				wants := []string{"panic in a handler", `panic=boom`, "faultlog_test.explode("}
				std := strings.HasPrefix(to, "std") && k.says != "connection refused"
				switch {
				case to == "discard", k.client && (to == "zero" || to == "default"), !std && to == "std":
					if got != "" {
						t.Errorf("the log has %q, want nothing", got)
					}
					return
				case k.says != "":
					wants = []string{k.says}
				case strings.HasPrefix(to, "std"):
					wants = []string{"std: http: panic serving @: boom\ngoroutine ", "faultlog_test.explode("}
				case to != "zero":
					wants = []string{`"msg":"panic in a handler"`, `"panic":"boom"`, "faultlog_test.explode("}
				}
				for _, want := range wants {
					if n := strings.Count(got, want); n != 1 {
						t.Errorf("the log has %q %d times, want once:\n%.4000s", want, n, got)
					}
				}
				if std != strings.HasPrefix(got, "std: ") {
					t.Errorf("the log starts with %.20q", got)
				}
			})
		}
	}
}

var (
	aFault     = regexp.MustCompile("panic in a handler|http: panic serving|http: superfluous")
	suppressed = regexp.MustCompile(`suppressed=([0-9]+)|([0-9]+) (?:more|further lines) suppressed`)
)

// 100,000 panics write a megabyte at most, wherever they are logged, and none is lost in the
// count.
func TestServersDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	const at = 8
	faults, most := testrun.Sized(600, 100_000), testrun.Sized(60<<10, 1<<20)
	for _, k := range kinds {
		for _, to := range []string{"zero", "std"} {
			web := strings.HasPrefix(k.name, "http1")
			if k.client || !web && (k.name != "framed" || to == "std") {
				continue
			}
			t.Run(k.name+", "+to, func(t *testing.T) {
				c := startChild(t, k.name, to)
				var all sync.WaitGroup
				for range at {
					all.Go(func() {
						for range faults / at {
							if _, err := c.provoke(k.message); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				got := c.end(t)
				told := len(aFault.FindAllString(got, -1))
				for _, n := range suppressed.FindAllStringSubmatch(got, -1) {
					more, _ := strconv.Atoi(n[1] + n[2])
					told += more
				}
				if told != faults {
					t.Errorf("the log tells %d faults, want %d:\n%.2000s", told, faults, got)
				}
				if len(got) > most {
					t.Errorf("%d bytes of log, want at most %d", len(got), most)
				}
				t.Logf("%d faults, %d bytes of log", faults, len(got))
			})
		}
	}
}
