package websocket

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/testrun"
)

// patience limits everything that a test waits for.
const patience = 30 * time.Second

// TestMain counts goroutines after all tests. In the processes that tests start, it runs a server
// instead.
func TestMain(m *testing.M) {
	if order := os.Getenv("HONE_DEAF_SERVER"); order != "" {
		if err := serveDeaf(order); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	if secure := os.Getenv("HONE_IDLE_SERVER"); secure != "" {
		if err := serveIdle(secure == "true"); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.SideBySide(8)
	before := goleak.IgnoreCurrent()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(before); err != nil {
			os.Stderr.WriteString("goroutines outlive the tests: " + err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// place is a server on which an Upgrader can run.
type place struct {
	t      *testing.T
	engine *engine.Engine // of an http1.Server; nil: net/http
	limits engine.Limits
	wrap   func(http.Handler) http.Handler // middleware
	stats  func() engine.Stats
	end    func(context.Context) error // Shutdown
}

// run runs a test on every engine, and on net/http.
func run(t *testing.T, test func(t *testing.T, at *place)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			test(t, &place{t: t, engine: &e})
		})
	}
	t.Run("nethttp", func(t *testing.T) {
		t.Parallel()
		test(t, &place{t: t})
	})
}

// inFakeTime is run in fake time, where a minute costs nothing.
func inFakeTime(t *testing.T, test func(t *testing.T, at *place)) {
	try := func(name string, e *engine.Engine) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, &place{t: t, engine: e}) })
		})
	}
	for _, e := range engine.All() {
		try(e.Name(), &e)
	}
	try("nethttp", nil)
}

// fake serves u in memory until the test ends, and returns a function that opens a WebSocket.
func (at *place) fake(u *Upgrader) (open func() *peer) {
	ln := fakenet.Listen()
	at.serveOn(u, ln)
	return func() *peer {
		nc, err := ln.Dial()
		if err != nil {
			at.t.Fatal(err)
		}
		p := peerOf(at.t, nc)
		p.SetDeadline(time.Time{})
		p.send([]byte(asking()))
		p.switched()
		return p
	}
}

// serve serves u until the test ends, and returns the address.
func (at *place) serve(u *Upgrader) (addr string) {
	at.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		at.t.Fatal(err)
	}
	return at.serveOn(u, ln)
}

func (at *place) serveOn(u *Upgrader, ln net.Listener) (addr string) {
	u.Logger = cmp.Or(u.Logger, slog.New(slog.DiscardHandler)) // panics are often intended
	var h http.Handler = u
	if at.wrap != nil {
		h = at.wrap(u)
	}
	served := make(chan error, 1)
	var shut func() error
	if at.engine == nil {
		u.Limits = at.limits
		std := &http.Server{Handler: h}
		go func() { served <- std.Serve(ln) }()
		at.stats = u.hijacked.server.Stats
		at.end = func(ctx context.Context) error { return errors.Join(u.Shutdown(ctx), std.Shutdown(ctx)) }
		shut = std.Close
	} else {
		srv := &http1.Server{Engine: *at.engine, Handler: h, Limits: at.limits, Logger: u.Logger}
		go func() { served <- srv.Serve(ln) }()
		at.stats = func() engine.Stats { return srv.Stats().Stats }
		at.end, shut = srv.Shutdown, srv.Close
	}
	at.t.Cleanup(func() {
		shut()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		u.Shutdown(ended)
		if err := <-served; err != http.ErrServerClosed {
			at.t.Errorf("Serve returned %v", err)
		}
	})
	return ln.Addr().String()
}

// eventually polls until a condition holds that has no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("timed out after %v: %s", patience, what)
		}
	}
}

// heard returns the next value from ch.
func heard[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out after %v: %s", patience, what)
		panic("unreachable")
	}
}

// peer is a client's side of a connection, written by hand.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// asking is a WebSocket handshake request with additional lines.
func asking(lines ...string) string {
	return "GET /ws HTTP/1.1\r\nHost: example.org\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
}

// dialTCP connects without sending anything.
func dialTCP(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return peerOf(t, nc)
}

func peerOf(t *testing.T, nc net.Conn) *peer {
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &peer{nc, t, bufio.NewReader(nc)}
}

// upgraded returns a connection that has become a WebSocket, and the response.
func upgraded(t *testing.T, addr string, lines ...string) (*peer, *http.Response) {
	t.Helper()
	p := dialTCP(t, addr)
	p.send([]byte(asking(lines...)))
	return p, p.switched()
}

// switched reads the response that accepts a handshake.
func (p *peer) switched() *http.Response {
	p.t.Helper()
	resp, err := http.ReadResponse(p.r, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		p.t.Fatalf("got %v %v", resp.Status, resp.Header)
	}
	return resp
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// frame is a client's frame.
func frame(op opcode, payload string) []byte {
	return appendMasked(nil, byte(op)|finBit, []byte(payload))
}

// piece is one frame of a fragmented message.
func piece(op opcode, fin bool, payload string) []byte {
	first := byte(op)
	if fin {
		first |= finBit
	}
	return appendMasked(nil, first, []byte(payload))
}

// served is a server's frame.
func served(op opcode, payload string) []byte {
	return appendFrame(nil, byte(op)|finBit, []byte(payload))
}

// closing is a server's Close frame.
func closing(code Code, text string) []byte { return appendClose(nil, code, text) }

// want reads exactly these bytes.
func (p *peer) want(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	if err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("read %q (%v), want %q", got[:n], err, want)
	}
}

// wantEnd reads EOF, from a FIN and not a reset, and closes the connection.
func (p *peer) wantEnd() {
	p.t.Helper()
	if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
		p.t.Fatalf("at the end: %q and %v, want nothing and a clean close", rest, err)
	}
	p.Close()
}

// echo answers every message with its own content.
func echo(_ Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }
