package client

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestOnce has every request of a plan come on a connection of its own, and answers that are wrong, short or too long end it.
func TestOnce(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   string // in the error; empty: none
	}{
		"right":    {"hello", ""},
		"wrong":    {"jello", "the server answers"},
		"cut off":  {"", "the server closed it"},
		"too much": {"hello and", "the server answers"},
	} {
		t.Run(name, func(t *testing.T) {
			var conns, requests atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				if c.answer == "" {
					panic(http.ErrAbortHandler)
				}
				io.WriteString(w, c.answer)
			}))
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			s.Start()
			defer s.Close()
			opened, closed := false, false
			r, err := RunOnce(t.Context(), Plan{
				Addr: s.Listener.Addr().String(), Conns: 5, Depth: 1, HTTP: &HTTP{Request: []byte(getHello), Status: 200, Body: []byte("hello")},
				Warmup: 10 * time.Millisecond, Window: 50 * time.Millisecond, Opened: func() { opened = true }, Closed: func() { closed = true },
			})
			if c.want != "" {
				if text := fmt.Sprint(err); err == nil || !strings.Contains(text, c.want) {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || r.Requests >= r.Answered || r.Rate <= 0 || conns.Load() != r.Answered || requests.Load() != r.Answered || !opened || !closed {
				t.Errorf("%+v on %d connections with %d requests; opened %v, closed %v", r, conns.Load(), requests.Load(), opened, closed)
			}
		})
	}
}
