package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"strconv"
	"unicode/utf8"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/engine"
)

// An agent is a server or a client that the suite tests. It has a serve or an echo.
type agent struct {
	name   string
	module string // "" is package websocket, which has to pass
	secure bool   // over TLS
	serve  func(net.Listener) (stop func() error)
	echo   client
}

// client connects to a URL and sends each message back until the connection ends. If hear
// is not nil it is given the messages, and they are not sent back. The error is of the
// handshake only: a connection that ends badly is what the suite is for.
type client func(ctx context.Context, url string, hear func(message []byte)) error

const (
	gorillaModule = "github.com/gorilla/websocket"
	coderModule   = "github.com/coder/websocket"
)

// agents are all of them, servers first.
func agents() []agent {
	return []agent{
		{name: "hone on http1, Events", serve: onHTTP1(engine.Events(engine.Auto))},
		{name: "hone on http1, Events, TLS", serve: onHTTP1(engine.Events(engine.Auto)), secure: true},
		{name: "hone on net/http", serve: onPlain},
		{name: "hone client", echo: honeClient},
		{name: "gorilla server", module: gorillaModule, serve: onNetHTTP(http.HandlerFunc(gorillaServer))},
		{name: "coder server", module: coderModule, serve: onNetHTTP(http.HandlerFunc(coderServer))},
		{name: "gorilla client", module: gorillaModule, echo: gorillaClient},
		{name: "coder client", module: coderModule, echo: coderClient},
	}
}

// run has the suite test the agent.
func (a agent) run(ctx context.Context, s *suite, cases []string) (of outcomes, err error) {
	if a.echo != nil {
		return s.testClient(ctx, a.echo, cases)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	url := "ws://" + ln.Addr().String()
	if a.secure {
		certified := httptest.NewTLSServer(nil)
		defer certified.Close()
		ln, url = engine.NewTLSListener(ln, &tls.Config{Certificates: certified.TLS.Certificates}), "wss"+url[2:]
	}
	stop := a.serve(ln)
	defer func() { err = errors.Join(err, stop()) }()
	return s.testServer(ctx, url, cases)
}

// onNetHTTP serves a handler on net/http.
func onNetHTTP(h http.Handler) func(net.Listener) func() error {
	return func(ln net.Listener) func() error {
		srv := &http.Server{Handler: h}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		return func() error {
			srv.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}
	}
}

// echoAll has a client do what the fuzzing server wants: ask how many cases there are,
// connect for each of them, and have the report written.
func echoAll(ctx context.Context, base string, echo client) error {
	count := ""
	if err := echo(ctx, base+"/getCaseCount", func(message []byte) { count = string(message) }); err != nil {
		return err
	}
	cases, err := strconv.Atoi(count)
	if err != nil {
		return fmt.Errorf("the number of cases: %w", err)
	}
	for i := 1; i <= cases && ctx.Err() == nil; i++ {
		if err := echo(ctx, fmt.Sprintf("%s/runCase?case=%d&agent=agent", base, i), nil); err != nil {
			return fmt.Errorf("case number %d: %w", i, err)
		}
	}
	return errors.Join(ctx.Err(), echo(ctx, base+"/updateReports?agent="+url.QueryEscape("agent"), func([]byte) {}))
}

// Neither gorilla nor coder looks whether a text is UTF-8: their users have to.

func gorillaServer(w http.ResponseWriter, r *http.Request) {
	u := gorilla.Upgrader{EnableCompression: true}
	if c, err := u.Upgrade(w, r, nil); err == nil {
		gorillaEcho(c, nil)
	}
}

func gorillaClient(ctx context.Context, url string, hear func([]byte)) error {
	d := gorilla.Dialer{EnableCompression: true}
	c, _, err := d.DialContext(ctx, url, nil)
	if err != nil {
		return err
	}
	gorillaEcho(c, hear)
	return nil
}

func gorillaEcho(c *gorilla.Conn, hear func([]byte)) {
	defer c.Close()
	for {
		kind, message, err := c.ReadMessage()
		switch {
		case err != nil:
			return
		case kind == gorilla.TextMessage && !utf8.Valid(message):
			c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(gorilla.CloseInvalidFramePayloadData, ""))
			return
		case hear != nil:
			hear(message)
		case c.WriteMessage(kind, message) != nil:
			return
		}
	}
}

func coderServer(w http.ResponseWriter, r *http.Request) {
	c, err := coder.Accept(w, r, &coder.AcceptOptions{CompressionMode: coder.CompressionContextTakeover})
	if err == nil {
		coderEcho(r.Context(), c, nil)
	}
}

func coderClient(ctx context.Context, url string, hear func([]byte)) error {
	c, _, err := coder.Dial(ctx, url, &coder.DialOptions{CompressionMode: coder.CompressionContextTakeover})
	if err != nil {
		return err
	}
	coderEcho(ctx, c, hear)
	return nil
}

func coderEcho(ctx context.Context, c *coder.Conn, hear func([]byte)) {
	defer c.CloseNow()
	c.SetReadLimit(-1)
	for {
		kind, message, err := c.Read(ctx)
		switch {
		case err != nil:
			return
		case kind == coder.MessageText && !utf8.Valid(message):
			c.Close(coder.StatusInvalidFramePayloadData, "")
			return
		case hear != nil:
			hear(message)
		case c.Write(ctx, kind, message) != nil:
			return
		}
	}
}

// peerVersions are the versions of modules that this command has been built with.
func peerVersions() map[string]string {
	versions := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	return versions
}

// version is what of the agent was tested.
func (a agent) version(machine report.Machine, peers map[string]string) string {
	if a.module != "" {
		return peers[a.module]
	}
	if machine.Changed {
		return machine.Commit + " with changes"
	}
	return machine.Commit
}
