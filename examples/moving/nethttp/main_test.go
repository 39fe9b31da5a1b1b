package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is net/http's server, or http1's with the same configuration.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// TestBoth sends the same requests to the service on net/http and on http1.
func TestBoth(t *testing.T) {
	for name, build := range map[string]func() server{
		"net/http": func() server { return &http.Server{Handler: newMux()} },
		"http1":    func() server { return &http1.Server{Std: &http.Server{Handler: newMux()}} },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv, served := build(), make(chan error, 1)
			go func() { served <- srv.Serve(ln) }()
			asks(t, "http://"+ln.Addr().String())
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := srv.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
}

func asks(t *testing.T, url string) {
	t.Helper()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	for _, test := range []struct {
		method, path string
		body         io.Reader
		code         int
		want         string
	}{
		{"GET", "/hello/Ann", nil, 200, "Hello, Ann!\n"},
		{"POST", "/upper", strings.NewReader("length known"), 200, "LENGTH KNOWN"},
		{"POST", "/upper", io.MultiReader(strings.NewReader("in "), strings.NewReader("chunks")), 200, "IN CHUNKS"}, // lent to net/http
		{"GET", "/hello/again", nil, 200, "Hello, again!\n"},
		{"GET", "/upper", nil, 405, "Method Not Allowed\n"},
		{"GET", "/nothing", nil, 404, "404 page not found\n"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, test.body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != test.code || string(body) != test.want {
			t.Errorf("%s %s: %d %q, %v", test.method, test.path, answer.StatusCode, body, err)
		}
	}
}

// TestThreeLines checks that the port changes three lines, as docs/http1.md says.
func TestThreeLines(t *testing.T) {
	lines := func(name string) map[string]int {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				counts[line]++
			}
		}
		return counts
	}
	before, after := lines("before.txt"), lines("main.go")
	added := 0
	for line, n := range after {
		added += max(0, n-before[line])
	}
	if added != 3 {
		t.Errorf("%d lines are new or changed, want 3", added)
	}
}
