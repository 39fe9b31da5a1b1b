package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// wsPlan asks a server of gorilla's, which answers as answer says.
func wsPlan(t *testing.T, served *atomic.Int64, answer func(c *websocket.Conn, kind int, message []byte) error) Plan {
	t.Helper()
	var upgrader websocket.Upgrader
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return
			}
			served.Add(1)
			if answer(c, kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	p := plan("")
	p.Addr, p.WS, p.Content = s.Listener.Addr().String(), &WS{Path: "/"}, []byte(strings.Repeat("sixteen letters.", 4))
	return p
}

func TestWS(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"one at a time": func(p *Plan) {},
		"in flight":     func(p *Plan) { p.Depth = 16 },
		"two loops":     func(p *Plan) { p.Loops, p.Depth = 2, 3 },
		"at a rate":     func(p *Plan) { p.Rate, p.Depth = 1000, 8 },
		"nothing more":  func(p *Plan) { p.Content = p.Content[:8] },
		"longer":        func(p *Plan) { p.Content = []byte(strings.Repeat("x", 3000)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served, pings atomic.Int64
			p := wsPlan(t, &served, func(c *websocket.Conn, kind int, message []byte) error {
				if served.Load()%7 == 0 {
					c.SetPongHandler(func(string) error { pings.Add(1); return nil })
					if err := c.WriteMessage(websocket.PingMessage, []byte("p")); err != nil {
						return err
					}
				}
				return c.WriteMessage(kind, message)
			})
			change(&p)
			r, err := Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || r.Wrong != 0 || r.Missing != 0 || r.P50 == nil || served.Load() < r.Answered || pings.Load() == 0 {
				t.Errorf("%+v, %d were served, %d pings answered", r, served.Load(), pings.Load())
			}
		})
	}
}

// TestWSWrongAnswers has every tenth answer be another message.
func TestWSWrongAnswers(t *testing.T) {
	for name, wrong := range map[string]func(message []byte) []byte{
		"content": func(m []byte) []byte { m[20] ^= 1; return m },
		"shorter": func(m []byte) []byte { return m[:20] },
		"longer":  func(m []byte) []byte { return append(m, m...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served, bad atomic.Int64
			p := wsPlan(t, &served, func(c *websocket.Conn, kind int, message []byte) error {
				if served.Load()%10 == 0 {
					bad.Add(1)
					message = wrong(message)
				}
				return c.WriteMessage(kind, message)
			})
			p.Conns, p.Depth, p.Rate, p.Window = 1, 64, 2000, 200*time.Millisecond
			r, err := Run(t.Context(), p)
			if err != nil || r.Wrong != bad.Load() || r.Wrong == 0 {
				t.Errorf("%v, %+v; %d of %d were bad", err, r, bad.Load(), served.Load())
			}
		})
	}
}

func TestWSServerThatCloses(t *testing.T) {
	var served atomic.Int64
	p := wsPlan(t, &served, func(c *websocket.Conn, _ int, _ []byte) error {
		return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1001, "bye"))
	})
	p.Window = time.Hour
	r, err := Run(t.Context(), p)
	if text := fmt.Sprint(err); err == nil || !strings.Contains(text, "bye") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCrowd(t *testing.T) {
	var upgrader websocket.Upgrader
	message, conns := []byte(strings.Repeat("news ", 60)), make(chan *websocket.Conn, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			conns <- c
		}
	}))
	defer s.Close()
	var c Crowd
	defer c.Close()
	if err := c.Grow(t.Context(), s.Listener.Addr().String(), 3, Upgraded("/")); err != nil || c.Len() != 3 {
		t.Fatal(err, c.Len())
	}
	for range 3 {
		one := <-conns
		defer one.Close()
		for range 2 {
			if err := one.WriteMessage(websocket.BinaryMessage, message); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Gather(slices.Repeat(ServerFrame(message), 2), 5*time.Second); err != nil {
		t.Error(err)
	}
	if err := c.Gather(ServerFrame(message), time.Millisecond); err == nil {
		t.Error("what was not sent is gathered")
	}
}
