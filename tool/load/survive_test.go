package load

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// A net/http server that closes idle connections after a while is within its rights:
// every request is answered, none is an error.
func TestIdleConnectionsMayBeClosed(t *testing.T) {
	var served atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		io.WriteString(w, "hello")
	}))
	s.Config.IdleTimeout = 50 * time.Millisecond
	s.Start()
	defer s.Close()
	r := must[*Result](t)(Run(context.Background(), Plan{
		Target: HTTP{URL: s.URL}, Conns: 20, Rate: 100, Warmup: -1, For: time.Second, MaxLag: time.Second,
	}))
	if !r.Valid || r.Errors["total"] != 0 || r.Requests != 100 || r.Requests != served.Load() {
		t.Errorf("%d requests, %d served, errors %v, reasons %q", r.Requests, served.Load(), r.Errors, r.InvalidReasons)
	}
	if r.Reconnects < 20 {
		t.Errorf("%d reconnects, want some for each connection", r.Reconnects)
	}
}

// framedServer is hone's own server, to be shut down and started again at one address.
func framedServer(t *testing.T, address string, limits engine.Limits, served *atomic.Int64) (string, *framed.Server) {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", address))
	s := &framed.Server{Limits: limits, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
		served.Add(1)
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

func TestFramedIdleConnectionsMayBeClosed(t *testing.T) {
	var served atomic.Int64
	address, _ := framedServer(t, "127.0.0.1:0", engine.Limits{IdleTime: 140 * time.Millisecond}, &served)
	r := must[*Result](t)(Run(context.Background(), Plan{
		Target: Frames{Address: address}, Echo: true, Conns: 10, Rate: 20, Warmup: -1, For: 1500 * time.Millisecond, MaxLag: time.Second,
	}))
	// A request that crosses the server's notice on its way may not be repeated.
	crossed := r.Errors["closed"]
	if crossed > 3 || r.Errors["total"] != crossed || r.Requests != 30 || served.Load() != 30-crossed {
		t.Errorf("%d requests, %d served, errors %v, reasons %q", r.Requests, served.Load(), r.Errors, r.InvalidReasons)
	}
	if r.Reconnects < 10 || r.Drains != 0 {
		t.Errorf("%d reconnects, %d drains", r.Reconnects, r.Drains)
	}
}

// A server that drains and comes back in mid-run is waited for.
func TestDrainIsWaitedFor(t *testing.T) {
	const away = 300 * time.Millisecond
	for _, rate := range []float64{0, 1000} {
		var served atomic.Int64
		address, first := framedServer(t, "127.0.0.1:0", engine.Limits{}, &served)
		moved := make(chan error, 1)
		drain := time.AfterFunc(300*time.Millisecond, func() {
			err := first.Shutdown(context.Background())
			<-time.After(away)
			framedServer(t, address, engine.Limits{}, &served)
			moved <- err
		})
		o := outcome{}
		o.result, o.err = Run(context.Background(), Plan{
			Target: Frames{Address: address}, Echo: true, Conns: 8, Rate: rate, Warmup: -1, For: 1500 * time.Millisecond,
			MaxLag: time.Second, AllowErrors: true,
		})
		if drain.Stop() {
			t.Fatal("the run ended before the drain:", o.err)
		}
		if err := <-moved; err != nil || o.err != nil {
			t.Fatal(err, o.err)
		}
		r := o.result
		t.Log(r.Requests, r.Errors, r.Reconnects, r.Drains, *r.Outage, r.InvalidReasons)
		if r.Drains != 8 || r.Reconnects < 8 || !within(*r.Outage, away, away+700*time.Millisecond) {
			t.Errorf("%d drains, %d reconnects, outage %v µs", r.Drains, r.Reconnects, *r.Outage)
		}
		if good := r.Requests - r.Errors["total"]; good != served.Load() && served.Load()-good > r.Errors["closed"] {
			t.Errorf("%d answered, %d served, errors %v", good, served.Load(), r.Errors)
		}
		if rate > 0 && (r.Requests != 1500 || !within(*r.Latency.Max, away-50*time.Millisecond, time.Minute)) {
			t.Errorf("%d requests, the longest %v µs: the drain is not in the response times", r.Requests, *r.Latency.Max)
		}
	}
}

func within(micros float64, least, most time.Duration) bool {
	d := time.Duration(micros * 1e3)
	return least <= d && d <= most
}

// hanging is a framed server that leaves out every n-th answer, and says how many.
func hanging(t *testing.T, n int64, left *atomic.Int64) Frames {
	var asked atomic.Int64
	return serveWith(t, "tcp", answering(wire.Standard, nil, func(dst []byte, p wire.Packet) []byte {
		if asked.Add(1)%n == 0 {
			left.Add(1)
			return dst
		}
		return echo(dst, p)
	}))
}

// An answer that stays away costs one request, whatever the depth.
func TestOneHangingAnswer(t *testing.T) {
	for _, p := range []Plan{{Conns: 4}, {Conns: 2, Depth: 16}, {Conns: 10, Rate: 1000}, {Conns: 10, Depth: 1, Rate: 1000}} {
		var left atomic.Int64
		p.Target, p.Echo, p.Warmup, p.For, p.Timeout, p.MaxLag = hanging(t, 200, &left), true, -1, time.Second, 200*time.Millisecond, time.Second
		r := measured(t, p)
		t.Log(r.Requests, r.Errors, r.Reconnects, *r.Latency.Max)
		if lost := r.Errors["timeout"] + r.Errors["unanswered"]; lost < left.Load() || p.Rate == 0 && lost != left.Load() || r.Errors["timeout"] == 0 {
			t.Errorf("%d answers left out, errors %v", left.Load(), r.Errors)
		}
		if r.Requests < 800 || r.Valid {
			t.Errorf("%d requests: connections went dark; reasons %q", r.Requests, r.InvalidReasons)
		}
	}
}

// An answer that comes after it was given up is passed over.
func TestLateAnswerIsPassedOver(t *testing.T) {
	for _, target := range []Caller{Frames{}.Caller(), Messages{Framing: framing(t, "len32be"), Match: match(t, "id@0:4")}.Caller()} {
		request := target.AppendRequest(nil, 7, make([]byte, 8))
		if !target.(forgetter).Forget(7) {
			t.Fatal("cannot forget")
		}
		answer := request
		if _, ok := target.(*frameCaller); ok {
			answer = echo(nil, wire.Packet{ID: 7})
		}
		var a Answer
		if used, err := target.Decode(&a, answer); err != nil || used != len(answer) || a.ID != 0 {
			t.Errorf("%T: %d bytes, %v, %+v", target, used, err, a)
		}
		if _, err := target.Decode(&a, answer); err == nil && a.ID == 0 {
			t.Errorf("%T: a second late answer is passed over too", target)
		}
	}
}

// Aborted answers are failures of single requests: the run comes to its end.
func TestAbortedAnswers(t *testing.T) {
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
				Target: target, Conns: 4, Rate: 1000, Warmup: -1, For: 500 * time.Millisecond, MaxLag: time.Second, AllowErrors: allowed,
			})
			if r.Errors["closed"] != aborted.Load() || r.Errors["total"] != aborted.Load() || r.Requests != 500 || served.Load() != 500 {
				t.Errorf("%s: %d requests, %d served, %d aborted, errors %v", name, r.Requests, served.Load(), aborted.Load(), r.Errors)
			}
			if !allowed && r.Valid {
				t.Errorf("%s: valid with errors", name)
			}
		}
	}
}
