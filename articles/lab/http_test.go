package lab

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hone-go/hone/websocket"
)

// TestWebServersSayTheSame checks that the compared servers send the same answer, with
// one request at a time and pipelined.
func TestWebServersSayTheSame(t *testing.T) {
	for _, name := range []string{stdStage, http1Stage} {
		s := startStage(t, name)
		resp, err := client(t).Get("http://" + s.addr + helloPath)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != hello || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s answers %s %q, %v: %v", name, resp.Status, body, resp.Header, err)
		}
		conn := dial(t, s.addr)
		defer conn.Close()
		const n = 16
		if _, err := io.WriteString(conn, strings.Repeat("GET "+helloPath+" HTTP/1.1\r\nHost: h\r\n\r\n", n-1)+"GET "+helloPath+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if got := strings.Count(string(all), hello); err != nil || got != n {
			t.Errorf("%s answers %d of %d pipelined requests: %v", name, got, n, err)
		}
		if resp, err := client(t).Get("http://" + s.addr + "/nowhere"); err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s has another page: %v", name, err)
		} else {
			resp.Body.Close()
		}
	}
}

func client(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: patience, Transport: transport}
}

// TestSocketsEcho checks WebSocket on both servers.
func TestSocketsEcho(t *testing.T) {
	for _, name := range []string{wsStdStage, wsHTTP1} {
		s := startStage(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := websocket.Dial(ctx, "ws://"+s.addr+echoPath, websocket.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.Write(ctx, websocket.Text, []byte("hello")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, got, err := c.Read(ctx, nil); err != nil || string(got) != "hello" {
			t.Errorf("%s echoes %q: %v", name, got, err)
		}
		c.Close(websocket.NormalClosure, "")
	}
}

// TestContextsAreServed checks that the contexts lab's servers route, and answer without
// a body.
func TestContextsAreServed(t *testing.T) {
	for _, name := range servedStages {
		s := startStage(t, name)
		resp, err := client(t).Get("http://" + s.addr + servedPath)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}

// TestIdleConnectionsHavePorts checks that connections come from several addresses,
// because one address has 28,000 ports.
func TestIdleConnectionsHavePorts(t *testing.T) {
	for _, name := range append(waitingHTTP(), "article-epoll") {
		plan, err := idlePlan(&process{name: name, addr: "127.0.0.1:1"})
		if err != nil || plan.Sources.Len() < 2 || plan.Target == nil {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
	}
}
