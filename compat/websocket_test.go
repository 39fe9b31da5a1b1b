//go:build linux

package compat

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
)

// sizes of WebSocket messages: each of the three encodings of a length, and more than the
// buffers hold.
var sizes = []int{0, 1, 125, 126, 4096, 65_535, 65_536, 300_000}

func gorillaEcho(w http.ResponseWriter, r *http.Request) {
	c, err := new(gorilla.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	defer c.Close()
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func coderEcho(w http.ResponseWriter, r *http.Request) {
	c, err := coder.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(mib)
	for {
		kind, message, err := c.Read(context.Background()) // r's context has ended with the upgrade
		if err != nil || c.Write(context.Background(), kind, message) != nil {
			return
		}
	}
}

// TestWebSockets has clients of two libraries talk to servers of both, directly and through
// a proxy.
func TestWebSockets(t *testing.T) {
	eachSide(t, engines(), func(t *testing.T, on side) {
		mux := http.NewServeMux()
		var open sync.WaitGroup
		counted := func(h http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				open.Add(1)
				defer open.Done()
				h(w, r)
			}
		}
		mux.HandleFunc("/gorilla", counted(gorillaEcho))
		mux.HandleFunc("/coder", counted(coderEcho))
		s := serve(t, on, &http.Server{Handler: mux})
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		front := serve(t, on, &http.Server{Handler: &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", s.addr
		}}})
		for _, address := range []string{s.addr + "/gorilla", s.addr + "/coder", front.addr + "/gorilla", front.addr + "/coder"} {
			address = "ws://" + address
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() { gorillaClient(t, address) })
				clients.Go(func() { coderClient(t, address) })
			}
			clients.Wait()
		}
		open.Wait() // a connection that was taken over does not outlive its client
		resp, err := newClient(t, &http.Transport{}).Get(s.url("/gorilla"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a request without an upgrade is answered with %s", resp.Status)
		}
	})
}

func gorillaClient(t *testing.T, address string) {
	c, _, err := gorilla.DefaultDialer.DialContext(t.Context(), address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	for _, size := range sizes {
		want := bytes.Repeat([]byte("x"), size)
		if err := c.WriteMessage(gorilla.BinaryMessage, want); err != nil {
			t.Error(err)
			return
		}
		if _, got, err := c.ReadMessage(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back of %d, %v", len(got), size, err)
			return
		}
	}
	c.WriteControl(gorilla.CloseMessage, gorilla.FormatCloseMessage(gorilla.CloseNormalClosure, ""), time.Now().Add(patience))
	if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, gorilla.CloseNormalClosure) {
		t.Errorf("the connection ended with %v", err)
	}
}

func coderClient(t *testing.T, address string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, _, err := coder.Dial(ctx, address, &coder.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(mib)
	for _, size := range sizes {
		want := strings.Repeat("y", size)
		if err := c.Write(ctx, coder.MessageText, []byte(want)); err != nil {
			t.Error(err)
			return
		}
		_, r, err := c.Reader(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want {
			t.Errorf("%d bytes came back of %d, %v", len(got), size, err)
			return
		}
	}
	if err := c.Close(coder.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

// TestShutdownLeavesWebSockets stops a server with an open connection of each library: Shutdown
// returns at once, and the connections go on.
func TestShutdownLeavesWebSockets(t *testing.T) {
	eachSide(t, engines(), func(t *testing.T, on side) {
		mux := http.NewServeMux()
		mux.HandleFunc("/gorilla", gorillaEcho)
		mux.HandleFunc("/coder", coderEcho)
		std := &http.Server{Handler: mux}
		s := serve(t, on, std)
		var conns []*gorilla.Conn
		for _, path := range []string{"/gorilla", "/coder"} {
			c, _, err := gorilla.DefaultDialer.DialContext(t.Context(), "ws://"+s.addr+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetReadDeadline(time.Now().Add(patience))
			conns = append(conns, c)
		}
		stop := std.Shutdown
		if s.http != nil {
			stop = s.http.Shutdown
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := stop(ctx); err != nil {
			t.Fatal(err)
		}
		for _, c := range conns {
			if err := c.WriteMessage(gorilla.TextMessage, []byte("still here")); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.ReadMessage(); string(got) != "still here" {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}
