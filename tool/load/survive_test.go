package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// A net/http server may close idle connections: every request is answered, and none is an error.
func TestIdleConnectionsMayBeClosed(t *testing.T) {
	sideBySide(t)
	var served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		io.WriteString(w, "hello")
	}))
	s.Config.IdleTimeout = 50 * time.Millisecond
	s.Start()
	defer s.Close()
	r := must[*Result](t)(Run(context.Background(), Plan{
		Target: codec.HTTP{URL: s.URL}, Conns: 20, Rate: 100, Requests: 100, MaxLag: time.Second,
	}))
	if !onlyBusy(r) || r.Errors["total"] != 0 || r.Requests != 100 || r.Requests != served.Load() {
		t.Errorf("%d requests, %d served, errors %v, reasons %q", r.Requests, served.Load(), r.Errors, r.InvalidReasons)
	}
	if r.Reconnects < 20 {
		t.Errorf("%d reconnects, want some for each connection", r.Reconnects)
	}
}

// framedServer is hone's own server, to be shut down and restarted at one address. It answers no
// faster than slow.
func framedServer(t *testing.T, address string, limits engine.Limits, served *atomic.Int64, slow time.Duration) (string, *framed.Server) {
	t.Helper()
	ln := listenAgain(t, address)
	s := &framed.Server{Limits: limits, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
		served.Add(1)
		if slow > 0 {
			<-time.After(slow)
		}
		return append(dst, req...), nil
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ln) // always ErrServerClosed
	}()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return ln.Addr().String(), s
}

// listenAgain listens at an address that may have been listened at before. A process that another
// test starts has that listener, too, until it executes its program.
func listenAgain(t *testing.T, address string) (ln net.Listener) {
	t.Helper()
	eventually(t, "cannot listen at "+address, func() bool {
		var err error
		ln, err = net.Listen("tcp", address)
		return err == nil
	})
	return ln
}

func TestFramedIdleConnectionsMayBeClosed(t *testing.T) {
	sideBySide(t)
	longer(t, 140*time.Millisecond, func(idle time.Duration) string {
		var served atomic.Int64
		address, _ := framedServer(t, "127.0.0.1:0", engine.Limits{IdleTime: idle}, &served, 0)
		r := must[*Result](t)(Run(context.Background(), Plan{
			Target: codec.Frames{Address: address}, Echo: true, Conns: 10, Rate: 2.8 / idle.Seconds(), Requests: 30, MaxLag: patience, Timeout: patience,
		}))
		// A request that crosses the server's announcement must not be repeated.
		crossed := r.Errors["closed"]
		if r.Errors["total"] != crossed || r.Requests != 30 || served.Load() != 30-crossed || r.Drains != 0 {
			t.Errorf("%d requests, %d served, errors %v, %d drains, reasons %q", r.Requests, served.Load(), r.Errors, r.Drains, r.InvalidReasons)
		}
		if r.Reconnects < 10 || crossed > 10 {
			return fmt.Sprintf("%d reconnects, %d requests crossed an announcement", r.Reconnects, crossed)
		}
		return ""
	})
}

// A server that drains and comes back during the run is waited for.
func TestDrainIsWaitedFor(t *testing.T) {
	sideBySide(t)
	const away = 300 * time.Millisecond
	eachRate(t, []float64{0, 400}, func(t *testing.T, rate float64) {
		const slow = time.Millisecond // or a closed loop would take all that the machine has
		var served atomic.Int64
		address, first := framedServer(t, "127.0.0.1:0", engine.Limits{}, &served, slow)
		moved := make(chan error, 1)
		go func() {
			again := time.NewTicker(time.Millisecond)
			defer again.Stop()
			for served.Load() < 100 && t.Context().Err() == nil {
				<-again.C
			}
			err := first.Shutdown(context.Background())
			<-time.After(away)
			framedServer(t, address, engine.Limits{}, &served, slow)
			moved <- err
		}()
		o := outcome{}
		o.result, o.err = Run(context.Background(), Plan{
			Target: codec.Frames{Address: address}, Echo: true, Conns: 8, Rate: rate, Warmup: -1, For: 2 * time.Second,
			MaxLag: time.Second, AllowErrors: true,
		})
		if err := <-moved; err != nil || o.err != nil {
			t.Fatal(err, o.err)
		}
		r := o.result
		if r.Outage == nil {
			t.Fatalf("no outage: %d requests, errors %v, %d drains, %d reconnects", r.Requests, r.Errors, r.Drains, r.Reconnects)
		}
		t.Log(r.Requests, r.Errors, r.Reconnects, r.Drains, *r.Outage, r.InvalidReasons)
		if r.Drains != 8 || r.Reconnects < 8 || !within(*r.Outage, away, away+1500*time.Millisecond) {
			t.Errorf("%d drains, %d reconnects, outage %v µs", r.Drains, r.Reconnects, *r.Outage)
		}
		if good := r.Requests - r.Errors["total"]; good != served.Load() && served.Load()-good > r.Errors["closed"] {
			t.Errorf("%d answered, %d served, errors %v", good, served.Load(), r.Errors)
		}
		if rate > 0 && (r.Requests != 800 || !within(*r.Latency.Max, away-50*time.Millisecond, time.Minute)) {
			t.Errorf("%d requests, the longest %v µs: the drain is not in the response times", r.Requests, *r.Latency.Max)
		}
	})
}

// eachRate runs a parallel test for each rate; 0 is a closed loop.
func eachRate(t *testing.T, rates []float64, test func(t *testing.T, rate float64)) {
	t.Helper()
	for _, rate := range rates {
		t.Run(fmt.Sprintf("rate %v", rate), func(t *testing.T) {
			sideBySide(t)
			test(t, rate)
		})
	}
}

func within(micros float64, least, most time.Duration) bool {
	d := time.Duration(micros * 1e3)
	return least <= d && d <= most
}

// hanging is a framed server that leaves out every n-th answer, and counts them.
func hanging(t *testing.T, n int64, left *atomic.Int64) codec.Frames {
	var asked atomic.Int64
	return serveWith(t, "tcp", answering(nil, func(dst []byte, p wire.Packet) []byte {
		if asked.Add(1)%n == 0 {
			left.Add(1)
			return dst
		}
		return echo(dst, p)
	}))
}

// A missing answer costs one request, whatever the depth.
func TestOneHangingAnswer(t *testing.T) {
	sideBySide(t)
	for name, p := range map[string]Plan{
		"closed": {Conns: 4}, "closed, deep": {Conns: 2, Depth: 16}, "open": {Conns: 10, Rate: 1000}, "open, flat": {Conns: 10, Depth: 1, Rate: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			sideBySide(t)
			longer(t, time.Second, func(timeout time.Duration) string {
				var left atomic.Int64
				p.Target, p.Echo, p.Requests, p.Timeout, p.MaxLag = hanging(t, 400, &left), true, 1000, timeout, patience
				r := measured(t, p)
				// What has waited behind a missing answer for almost the time-out may be answered after it.
				late := r.Errors["timeout"] - left.Load() - r.Unsent
				if late < 0 || late > 100 || r.Errors["total"] != r.Errors["timeout"] || r.Requests != 1000 || r.Valid {
					return fmt.Sprintf("%d answers left out, %d of %d requests unsent, errors %v; reasons %q", left.Load(), r.Unsent, r.Requests, r.Errors, r.InvalidReasons)
				}
				return ""
			})
		})
	}
}

// An answer that comes after its request was given up is ignored.
func TestLateAnswerIsPassedOver(t *testing.T) {
	for n, target := range []codec.Codec{codec.Frames{}.Codec(), codec.Messages{Framing: framing(t, "len32be"), Match: match(t, "id@0:4")}.Codec()} {
		giveUp := func(id uint64) (answer []byte, ok bool) {
			answer = target.AppendRequest(nil, id, make([]byte, 8), nil)
			if n == 0 {
				answer = echo(nil, wire.Packet{ID: id})
			}
			return answer, target.Forget(id)
		}
		const mostForgotten = 4096
		var a codec.Answer
		for n := range mostForgotten + 1 { // only answers that never come use up what may be given up
			answer, ok := giveUp(7)
			if !ok {
				t.Fatalf("%T: cannot forget after %d late answers", target, n)
			}
			if used, err := target.Decode(&a, answer); err != nil || used != len(answer) || a.ID != 0 {
				t.Fatalf("%T: %d bytes, %v, %+v", target, used, err, a)
			}
			if _, err := target.Decode(&a, answer); err == nil && a.ID == 0 {
				t.Fatalf("%T: a second late answer is passed over too", target)
			}
			a = codec.Answer{}
		}
		for n := range mostForgotten + 1 {
			if _, ok := giveUp(uint64(1 + n)); ok != (n < mostForgotten) {
				t.Fatalf("%T: forgets %v with %d answers missing", target, ok, n)
			}
		}
	}
}

// Aborted answers are failures of single requests: the run goes on to its end.
func TestAbortedAnswers(t *testing.T) {
	sideBySide(t)
	for name, abort := range map[string]func(w http.ResponseWriter){
		"within": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "hello")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"reset": func(w http.ResponseWriter) {
			nc, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				nc.(*net.TCPConn).SetLinger(0)
				nc.Close()
			}
		},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, allowed), func(t *testing.T) {
				sideBySide(t)
				var served, aborted atomic.Int64
				target := webServer(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
					if served.Add(1)%50 == 0 {
						aborted.Add(1)
						abort(w)
						return
					}
					io.WriteString(w, "hello")
				})
				target.Method = http.MethodPost
				r := measured(t, Plan{
					Target: target, Conns: 4, Rate: 1000, Warmup: -1, For: 500 * time.Millisecond, Timeout: patience / 2, MaxLag: time.Second, AllowErrors: allowed,
				})
				if r.Errors["closed"] != aborted.Load() || r.Errors["total"] != aborted.Load() || r.Requests != 500 || served.Load() != 500 {
					t.Errorf("%s: %d requests, %d served, %d aborted, errors %v", name, r.Requests, served.Load(), aborted.Load(), r.Errors)
				}
				if !allowed && r.Valid {
					t.Errorf("%s: valid with errors", name)
				}
			})
		}
	}
}

// mortal is a framed echo server that exits after n reads, and may restart at once at its address.
// It answers so slowly that a closed loop is no burden.
func mortal(t *testing.T, n int64, comesBack bool) codec.Frames {
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	address := ln.Addr().String()
	var served atomic.Int64
	died := make(chan struct{})
	ended := make(chan struct{})
	echoes := answering(func() {
		if served.Add(1) == n {
			close(died)
		}
		<-time.After(2 * time.Millisecond)
	}, echo)
	go func() {
		defer close(ended)
		end := serveOn(ln, echoes)
		select {
		case <-died:
		case <-t.Context().Done():
		}
		end()
		if !comesBack {
			return
		}
		end = serveOn(listenAgain(t, address), echoes)
		<-t.Context().Done()
		end()
	}()
	t.Cleanup(func() { <-ended })
	return codec.Frames{Address: address}
}

// serveOn serves until the returned function is called, which stops everything.
func serveOn(ln net.Listener, serve func(net.Conn)) func() {
	var mu sync.Mutex
	var open []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, nc)
			mu.Unlock()
			serving.Go(func() {
				defer nc.Close()
				serve(nc)
			})
		}
	})
	return func() {
		ln.Close()
		mu.Lock()
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		serving.Wait()
	}
}

// A server that is gone at the end of the load is reported, even if errors are allowed; one that
// has come back is not.
func TestServerThatIsGoneAtTheEnd(t *testing.T) {
	sideBySide(t)
	for _, comesBack := range []bool{false, true} {
		for _, rate := range []float64{0, 500} {
			t.Run(fmt.Sprintf("back %v at %v", comesBack, rate), func(t *testing.T) {
				sideBySide(t)
				length := time.Second
				if comesBack {
					length *= 3 // long enough to come back
				}
				longer(t, length, func(length time.Duration) string {
					r, err := Run(context.Background(), Plan{
						Target: mortal(t, 20, comesBack), Conns: 3, Rate: rate, Warmup: -1, For: length, Timeout: 2 * time.Second,
						AllowErrors: true, MaxLag: time.Second,
					})
					switch e := new(Error); {
					case r == nil:
						return fmt.Sprint("nothing was measured: ", err)
					case comesBack && err != nil:
						return fmt.Sprint("it came back: ", err)
					case !comesBack && (!errors.As(err, &e) || e.Kind != Unreachable || r.Valid || r.Errors["unreachable"] != 1):
						return fmt.Sprintf("it was gone: %v, valid %v, errors %v", err, r.Valid, r.Errors)
					}
					return ""
				})
			})
		}
	}
}

// A result without answers is invalid even if all errors are allowed, whether it has no times at
// all or only those of time-outs.
func TestNothingIsValidWithoutAnswers(t *testing.T) {
	closing := serveWith(t, "tcp", func(nc net.Conn) { io.ReadFull(nc, make([]byte, 8)) })
	r := measured(t, Plan{Target: closing, Conns: 100, Rate: 1000, Requests: 200, AllowErrors: true, MaxLag: time.Second})
	if reasons := strings.Join(r.InvalidReasons, "; "); r.Requests != 200 || r.Valid || !strings.Contains(reasons, "none of the 200 requests was answered") {
		t.Errorf("%d requests, errors %v, valid %v: %s", r.Requests, r.Errors, r.Valid, reasons)
	}
	for _, open := range []bool{false, true} {
		for _, c := range []struct {
			closed, timedOut, answered int
			want                       string
		}{
			{0, 200, 0, "none of the 200 requests was answered"},
			{200, 0, 50, "only 50 of the 250 requests have a response time"},
			{0, 200, 1, ""},
			{200, 0, 100, ""},
		} {
			s := &counter{window: window{0, 1000}, timeout: 10, now: newTally(open)}
			for range c.closed {
				s.lose(Closed, 0, 1, 2, nil)
			}
			for range c.timedOut {
				s.lose(Timeout, 0, 1, 2, nil)
			}
			var b batch
			for range c.answered {
				b.add(1, 1, 0)
			}
			s.record(&b, 2)
			m := Measured{tally: *s.now, plan: Plan{Conns: 1, AllowErrors: true}, Span: time.Second}
			if got := strings.Join(m.reasons(), "; "); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("%+v, open %v: %q", c, open, got)
			}
		}
	}
}
