package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// After an announced close the connection is opened again, and no request is lost.
func TestHTTPReconnects(t *testing.T) {
	sideBySide(t)
	// The sum over all runs: a run that a busy machine delays past its window counts none.
	reconnects := int64(0)
	for _, over := range []string{"tcp", "tls", "unix"} {
		var n atomic.Int64
		target := webServer(t, over, func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1)%2 == 0 {
				w.Header().Set("Connection", "close")
			}
			io.WriteString(w, "hello")
		})
		for name, p := range map[string]Plan{
			"closed":         {Conns: 3, Requests: 60},
			"pipelined":      {Conns: 2, Depth: 8, Requests: 60},
			"open":           {Conns: 3, Rate: 500, MaxLag: time.Second},
			"open pipelined": {Conns: 3, Depth: 8, Rate: 500, MaxLag: time.Second},
		} {
			t.Run(over+"/"+name, func(t *testing.T) {
				p.Target, p.Warmup = target, -1
				if p.Requests == 0 {
					p.For = 100 * time.Millisecond
				}
				r := measured(t, p)
				checkAnswered(t, r, 2)
				if reconnects += r.Reconnects; r.Reconnects > r.Requests {
					t.Errorf("%d reconnects for %d requests", r.Reconnects, r.Requests)
				}
				if p.Rate > 0 && r.Requests != int64(p.Rate*p.For.Seconds()) {
					t.Errorf("%d requests, want every one of the schedule", r.Requests)
				}
			})
		}
	}
	if reconnects == 0 {
		t.Error("no run counts a reconnect")
	}
}

// A client's Connection: close announces the end, too.
func TestHTTPAsksForTheEnd(t *testing.T) {
	target := webServer(t, "tcp", handlers()["length"])
	target.Header = http.Header{"Connection": {"close"}}
	checkEachAlone(t, measured(t, Plan{Target: target, Conns: 2, Requests: 300}), 2)
}

// checkEachAlone expects one connection for every request of a closed loop.
func checkEachAlone(t *testing.T, r *Result, conns int64) {
	t.Helper()
	checkAnswered(t, r, conns)
	if r.Reconnects > r.Requests || r.Reconnects < r.Requests-conns {
		t.Errorf("%d reconnects for %d requests on %d connections", r.Reconnects, r.Requests, conns)
	}
}

// The ways to announce an end, and bodies that end with the connection.
func TestHTTPAnnouncements(t *testing.T) {
	sideBySide(t)
	for name, answer := range map[string]string{
		"closes":         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
		"one of options": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nconnection: x , CLOSE\r\n\r\nhello",
		"old":            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"body till end":  "HTTP/1.1 200 OK\r\n\r\nhello",
		"old till end":   "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
		"and more":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello and what nobody reads",
	} {
		for _, rate := range []float64{0, 500} {
			t.Run(fmt.Sprintf("%s/%v", name, rate), func(t *testing.T) {
				address := serveWith(t, "tcp", speaks(func(nc net.Conn) { io.WriteString(nc, answer) })).Address
				r := measured(t, Plan{
					Target: codec.HTTP{URL: "http://" + address}, Conns: 2, Rate: rate, MaxLag: time.Second, Requests: 15,
				})
				if rate == 0 {
					checkEachAlone(t, r, 2)
				} else if checkAnswered(t, r, 1); r.Requests != 15 {
					t.Errorf("%d requests, want every one of the schedule", r.Requests)
				}
			})
		}
	}
	stays := serveWith(t, "tcp", func(nc net.Conn) {
		for awaitHead(nc) == nil {
			io.WriteString(nc, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello")
		}
	}).Address
	r := measured(t, Plan{Target: codec.HTTP{URL: "http://" + stays}, Conns: 2, Requests: 300})
	if checkAnswered(t, r, 2); r.Reconnects != 0 {
		t.Errorf("%d reconnects to a server of HTTP/1.0 that stays", r.Reconnects)
	}
}

// An answer before the request was read, followed by a close: the unwritten output is discarded
// with the connection.
func TestHTTPAnswersBeforeTheBody(t *testing.T) {
	sideBySide(t)
	target := webServer(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	target.Body, target.Statuses = make([]byte, 8<<20), []int{http.StatusRequestEntityTooLarge}
	o := runPlan(t, context.Background(), Plan{Target: target, Conns: 2, Requests: 6})
	// The server's end may arrive as a reset, which takes the answer with it.
	if o.err != nil {
		if e := faultOf(t, o.err); e.Kind != Closed {
			t.Error(e)
		}
		return
	}
	checkAnswered(t, o.result, 2)
}

// A server that is gone at the reconnect ends the run.
func TestHTTPServerGone(t *testing.T) {
	sideBySide(t)
	for _, depth := range []int{1, 4} {
		t.Run(fmt.Sprintf("depth %d", depth), func(t *testing.T) {
			sideBySide(t)
			ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
			served := make(chan error, 1)
			go func() {
				nc, err := ln.Accept()
				if err == nil {
					ln.Close()
					awaitHead(nc)
					_, err = io.WriteString(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
					nc.Close()
				}
				served <- err
			}()
			o := runPlan(t, context.Background(), Plan{Target: codec.HTTP{URL: "http://" + ln.Addr().String()}, Depth: depth, For: time.Minute, Timeout: time.Second})
			if err := <-served; err != nil {
				t.Fatal(err)
			}
			if e := faultOf(t, o.err); e.Kind != Unreachable && e.Kind != Closed { // the end may arrive as a reset
				t.Error(e)
			}
		})
	}
}

// A run that ends while reconnecting leaves nothing behind.
func TestHTTPReconnectInterrupted(t *testing.T) {
	address := serveWith(t, "tcp", speaks(func(nc net.Conn) {
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})).Address
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
		o := runPlan(t, ctx, Plan{Target: codec.HTTP{URL: "http://" + address}, Conns: 50, Warmup: -1, For: time.Minute})
		cancel()
		if o.err != nil || !o.result.Interrupted {
			t.Errorf("%v, %v", o.result, o.err)
		}
	}
}

// A late pacer sends requests after the window's end. If the one answer before them closed the
// connection, it is opened again as long as requests may come.
func TestHTTPReconnectsForALatePacer(t *testing.T) {
	target := webServer(t, "tcp", handlers()["length"])
	p := must[Plan](t)(Plan{Target: target, Rate: 1}.complete())
	r := newRun(p)
	defer r.endDials()
	c := newConn(r, 0, must[net.Conn](t)(p.Target.Dial(t.Context()))) // the window is over: it never began
	c.begun = true
	r.pacing.Store(1)
	if c.socket.nc.Close(); !c.reconnect() {
		t.Error("not opened again while a pacer is at work")
	}
	r.pacing.Store(0)
	if c.socket.nc.Close(); c.reconnect() {
		t.Error("opened again for nothing")
	}
}

// Closing idle connections again and again is fine: hone reconnects without a pause. A server that
// closes them at once gets a pause.
func TestIdleClosesHaveNoPause(t *testing.T) {
	const closes = 8
	for lived, want := range map[time.Duration]int{
		time.Second: 0,
		-time.Hour:  closes, // negative, however busy the machine is
	} {
		r := newRun(must[Plan](t)(Plan{Target: nowhere{}, Rate: 1}.complete()))
		defer r.endDials()
		r.window = window{0, int64(time.Hour)}
		for _, s := range r.counters {
			s.window = r.window
		}
		c := newConn(r, 0, nowhere{})
		c.begin(0)
		for range closes {
			c.opened = r.now() - int64(lived)
			if !c.ended(io.EOF, false) {
				t.Fatal("not to be opened again")
			}
			if c.failures == 0 && !c.reconnect() {
				t.Fatal("not opened again")
			}
			c.ending = false
		}
		if c.failures != want {
			t.Errorf("after connections of %v: %d failures, want %d", lived, c.failures, want)
		}
	}
}
