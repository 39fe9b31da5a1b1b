package load

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// quiet returns a plan whose verdict depends only on what it tests.
func quiet(p Plan) Plan {
	p.Warmup, p.MaxLag = -1, 5*time.Second
	if p.Timeout == 0 {
		p.Timeout = patience / 2
	}
	return p
}

func TestIdleAlone(t *testing.T) {
	for name, target := range map[string]codec.Target{
		"tcp": echoServer(t, "tcp"), "unix": echoServer(t, "unix"), "another layer": throughNothing{echoServer(t, "tcp")},
		"http": webServer(t, "tcp", handlers()["length"]), "https": webServer(t, "tls", handlers()["length"]),
	} {
		t.Run(name, func(t *testing.T) {
			r := measured(t, quiet(Plan{Target: target, Idle: 40, For: 100 * time.Millisecond}))
			if i := r.Idle; i.Conns != 40 || i.Open != 40 || i.Closed != 0 || i.ClosedAfter.Max != nil || i.ServerBytes != nil {
				t.Errorf("idle %+v", i)
			}
			if !r.Valid || r.Requests != 0 || r.Rate != nil || r.Churn != nil || r.Client.CPUPerRequest != nil || len(r.Errors) != 1 {
				t.Errorf("valid %v (%q), %d requests, rate %v, errors %v", r.Valid, r.InvalidReasons, r.Requests, r.Rate, r.Errors)
			}
		})
	}
}

// Each idle connection is used once, before the measurement and between the two calls; the load
// goes on meanwhile.
func TestIdleBesideALoad(t *testing.T) {
	sideBySide(t)
	var opened atomic.Int64
	var asked [64]atomic.Int64
	target := serveWith(t, "tcp", func(nc net.Conn) {
		number := opened.Add(1) - 1
		answering(nil, func(dst []byte, p wire.Packet) []byte {
			asked[number].Add(1)
			return echo(dst, p)
		})(nc)
	})
	for _, rate := range []float64{0, 500} {
		opened.Store(0)
		clear(asked[:])
		var before, after int64 = -1, -1
		r := measured(t, quiet(Plan{
			Target: target, Conns: 2, Idle: 10, Rate: rate, Echo: true, For: 300 * time.Millisecond,
			IdleOpens: func() { before = opened.Load() }, IdleOpened: func() { after = opened.Load() },
		}))
		// The server may have accepted the load's own two connections late.
		if before < 0 || before > 2 || after < before+10 || after > 12 {
			t.Errorf("%d connections when they were to be opened, %d when they had been", before, after)
		}
		if r.Idle.Open != 10 || r.Requests == 0 || rated(r) == nil || r.Errors["total"] != 0 {
			t.Errorf("idle %+v, %d requests, errors %v", r.Idle, r.Requests, r.Errors)
		}
		once := 0
		for i := range asked {
			if asked[i].Load() == 1 {
				once++
			}
		}
		if once < 10 { // on a slow machine one may belong to the load
			t.Errorf("%d connections were used once, want 10", once)
		}
	}
}

// A server closes some of the idle connections, and sends unsolicited messages on others.
func TestIdleConnectionsThatEnd(t *testing.T) {
	sideBySide(t)
	for name, layer := range map[string]func(codec.Frames) codec.Target{
		"watched": func(f codec.Frames) codec.Target { return f }, "each by itself": func(f codec.Frames) codec.Target { return throughNothing{f} },
	} {
		t.Run(name, func(t *testing.T) {
			sideBySide(t)
			var opened, closed atomic.Int64
			told := make(chan struct{})
			target := serveWith(t, "tcp", func(nc net.Conn) {
				number := opened.Add(1)
				in := make([]byte, 4096)
				n, err := nc.Read(in)
				if err != nil {
					return
				}
				payload, _, err := wire.Frame(in[:n], len(in))
				if err != nil {
					return
				}
				p, err := wire.Parse(payload)
				if err != nil {
					return
				}
				nc.Write(echo(nil, p))
				<-told
				if number%3 == 0 {
					closed.Add(1)
					return
				}
				nc.Write(wire.Append(nil, wire.Packet{Command: wire.Deliver, ID: 1, Content: []byte("news")}))
				io.Copy(io.Discard, nc)
			})
			r := measured(t, quiet(Plan{
				Target: layer(target), Idle: 30, For: time.Second, IdleOpened: func() {
					close(told)
					eventually(t, "the server has not closed its third", func() bool { return closed.Load() == 10 })
				},
			}))
			if i := r.Idle; i.Conns != 30 || i.Open != 20 || i.Closed != 10 || i.ClosedAfter.Max == nil || *i.ClosedAfter.Max <= 0 {
				t.Errorf("idle %+v", i)
			}
			for _, reason := range r.InvalidReasons {
				if !strings.HasPrefix(reason, "the generator") { // reasons of a busy machine are allowed
					t.Errorf("not valid: %s", reason)
				}
			}
		})
	}
}

func TestIdleConnectionsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		kind  Kind
		try   string
	}{
		{"closes at once", func(net.Conn) {}, Closed, "log"},
		{"resets", reset, Closed, "log"},
		{"says nothing", func(nc net.Conn) { io.Copy(io.Discard, nc) }, codec.Silent, "time-out"},
		{"speaks HTTP", says("HTTP/1.1 400 Bad Request\r\n\r\n"), codec.Garbage, "http://"},
		{"refuses", refuses(wire.Overloaded), Refused, "fewer connections"},
		{"wrong ids", answering(nil, func(dst []byte, p wire.Packet) []byte {
			p.ID++
			return echo(dst, p)
		}), codec.WrongID, "id"},
		{"fails", answering(nil, func(dst []byte, p wire.Packet) []byte {
			return wire.Append(dst, wire.Packet{Command: wire.SubmitAck, Result: wire.Unauthorised, ID: p.ID})
		}), Failed, "log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := patience / 2
			if c.kind == codec.Silent {
				timeout = 200 * time.Millisecond
			}
			o := runPlan(t, context.Background(), Plan{Target: serveWith(t, "tcp", c.serve), Idle: 5, Timeout: timeout, For: time.Minute})
			e := faultOf(t, o.err)
			// A server's refusal may arrive as a reset.
			if e.Kind != c.kind && !(c.kind == Refused && e.Kind == Closed) || o.result != nil {
				t.Errorf("%v: %v", o.result, e)
			}
			if text := e.Error(); e.Kind == c.kind && !strings.Contains(text, "idle connection ") {
				t.Error(text)
			}
			if e.Kind == c.kind {
				checkLine(t, e, c.try)
			}
		})
	}
}

func TestIdleConnectionsToNobody(t *testing.T) {
	o := runPlan(t, context.Background(), Plan{Target: codec.Frames{Address: "127.0.0.1:1"}, Idle: 5, Timeout: patience / 2, For: time.Minute})
	if e := faultOf(t, o.err); e.Kind != Unreachable || o.result != nil {
		t.Errorf("%v: %v", o.result, e)
	}
}

// Idle connections without an answer are counted where errors are allowed; if none has an answer,
// the result is invalid.
func TestIdleConnectionsThatMayFail(t *testing.T) {
	var opened atomic.Int64
	third := func(nc net.Conn) {
		if opened.Add(1)%3 != 0 {
			answering(nil, echo)(nc)
		}
	}
	plan := Plan{Target: serveWith(t, "tcp", third), Idle: 12, AllowErrors: true, Warmup: -1, For: 50 * time.Millisecond}
	if r := measured(t, plan); r.Idle.Conns != 8 || r.Idle.Failed != 4 || r.Idle.Open != 8 || !onlyBusy(r) {
		t.Errorf("%+v, reasons %q", *r.Idle, r.InvalidReasons)
	}
	plan.Target = serveWith(t, "tcp", func(net.Conn) {})
	if r := measured(t, plan); r.Idle.Conns != 0 || r.Idle.Failed != 12 || r.Valid || !strings.Contains(r.InvalidReasons[0], "none of the 12 idle connections") {
		t.Errorf("%+v, reasons %q", *r.Idle, r.InvalidReasons)
	}
}

func TestChurnAlone(t *testing.T) {
	sideBySide(t)
	for name, c := range map[string]struct {
		plan Plan
		web  string
	}{
		"used": {}, "poisson": {plan: Plan{Arrivals: Poisson}},
		"http": {web: "tcp"}, "https": {web: "tls"}, "sizes": {plan: Plan{Sizes: sizesOf(t, "uniform:1..40000"), Echo: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var opened, asked atomic.Int64
			p := c.plan
			p.Target = serveWith(t, "tcp", func(nc net.Conn) {
				opened.Add(1)
				answering(nil, func(dst []byte, p wire.Packet) []byte {
					asked.Add(1)
					return echo(dst, p)
				})(nc)
			})
			if c.web != "" {
				p.Target = webServer(t, c.web, func(w http.ResponseWriter, _ *http.Request) {
					opened.Add(1)
					asked.Add(1)
				})
			}
			sideBySide(t)
			p.Churn, p.For = 240, 500*time.Millisecond
			if testrun.Race { // costs more CPU for a connection
				p.Churn, p.For = 40, 3*time.Second
			}
			r := measured(t, quiet(p))
			got := r.Churn
			if p.Arrivals == Constant && got.Conns != 120 || got.Conns < 80 || got.Conns > 180 || got.Errors["total"] != 0 || got.Dial.P99 == nil && got.Conns >= 100 {
				t.Fatalf("churn %+v", got)
			}
			if *got.First.Max < *got.Dial.P50 {
				t.Errorf("dials %+v, first answers %+v", got.Dial, got.First)
			}
			eventually(t, "the server has seen others", func() bool { return opened.Load() == got.Conns && asked.Load() == got.Conns })
			if p.Arrivals == Constant && (!r.Valid || got.Offered == nil || *got.Offered != p.Churn) || r.Rate != nil || r.Idle != nil {
				t.Errorf("valid %v (%q), offered %v, rate %v", r.Valid, r.InvalidReasons, got.Offered, r.Rate)
			}
		})
	}
}

// Churn connections follow their schedule however slow the server is, and their times count from
// it.
func TestChurnDoesNotWait(t *testing.T) {
	sideBySide(t)
	const slow = 300 * time.Millisecond
	target := serveWith(t, "tcp", answering(func() { <-time.After(slow) }, echo))
	r := measured(t, quiet(Plan{Target: target, Churn: 200, For: 500 * time.Millisecond, Timeout: patience / 2}))
	if c := r.Churn; c.Conns != 100 || c.Errors["total"] != 0 || *c.First.P50 < float64(slow/1e3) || *c.Dial.P50 > *c.First.P50 {
		t.Errorf("churn %+v", c)
	}
}

func TestChurnThatFails(t *testing.T) {
	sideBySide(t)
	for _, c := range []struct {
		name   string
		target codec.Target
		kinds  []Kind
	}{
		{"nobody listens", codec.Frames{Address: "127.0.0.1:1"}, []Kind{Unreachable}},
		{"never connects", neverDials{}, []Kind{Timeout, codec.Unanswered}},
		{"closes at once", serveWith(t, "tcp", func(net.Conn) {}), []Kind{Closed}},
		{"says nothing", serveWith(t, "tcp", func(nc net.Conn) { io.Copy(io.Discard, nc) }), []Kind{Timeout, codec.Unanswered}},
		{"speaks HTTP", serveWith(t, "tcp", says("HTTP/1.1 400 Bad Request\r\n\r\n")), []Kind{codec.Garbage}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sideBySide(t)
			p := quiet(Plan{Target: c.target, Churn: 400, For: 300 * time.Millisecond, Timeout: patience / 2})
			if slices.Contains(c.kinds, Timeout) {
				p.Timeout = 100 * time.Millisecond
			}
			r := measured(t, p)
			n := int64(0)
			for _, kind := range c.kinds {
				n += r.Churn.Errors[kind.String()]
			}
			if got := r.Churn; got.Conns != 120 || n != 120 || got.Errors["total"] != 120 || r.Errors["total"] != 0 {
				t.Errorf("churn %+v", got)
			}
			if r.Valid || len(r.InvalidReasons) != 1 || !strings.Contains(r.InvalidReasons[0], "120 of 120 churn connections failed") {
				t.Errorf("valid %v: %q", r.Valid, r.InvalidReasons)
			}
			p.AllowErrors = true
			if r := measured(t, p); !r.Valid && r.Churn.Conns >= 100 { // on a busy machine there may be fewer, without a 99th percentile
				t.Errorf("not valid with errors allowed: %q", r.InvalidReasons)
			}
		})
	}
}

func TestGateOfChurn(t *testing.T) {
	late := sound()
	late.Churned = &churned{Lag: spiked(3_000_000, 20), Conns: 1000, Dial: newHistogram(), First: newHistogram()}
	few := sound()
	few.plan.Conns, few.Churned = 0, &churned{Lag: newHistogram(), Conns: 20, Dial: newHistogram(), First: newHistogram()}
	few.Churned.Lag.record(1000, 20)
	own := sound()
	own.plan.AllowErrors = true
	own.Churned = &churned{Lag: spiked(1000, 99), Conns: 1000, Dial: newHistogram(), First: newHistogram()}
	own.Churned.Errors[Unreachable] = 7
	own.Churned.Example = &Error{Kind: Unreachable, What: "x", Try: "y"}
	own.Churned.Own = dialError(&wrappedCall{"connect", syscall.EADDRNOTAVAIL}, 5, time.Second)
	for says, m := range map[string]*Measured{
		"the generator itself began 1 % of the connections 3": late, "only 20 churn connections were measured": few,
		"7 of 1000 churn connections failed (7 unreachable; the first: out of local ports after 5 connections); spread": own,
	} {
		r := m.result()
		if r.Valid || !slices.ContainsFunc(r.InvalidReasons, func(s string) bool { return strings.Contains(s, says) }) {
			t.Errorf("valid %v, %q, want %q", r.Valid, r.InvalidReasons, says)
		}
	}
}

// Interrupted connections leave nothing behind and are not counted.
func TestInterruptedBesides(t *testing.T) {
	sideBySide(t)
	mute := serveWith(t, "tcp", func(nc net.Conn) { io.Copy(io.Discard, nc) })
	for name, p := range map[string]Plan{
		"opening":  {Target: echoServer(t, "tcp"), Idle: 100, Ramp: 1},
		"answers":  {Target: mute, Idle: 10, Timeout: time.Minute},
		"dialling": {Target: neverDials{}, Idle: 10, Timeout: time.Minute},
		"idle":     {Target: echoServer(t, "tcp"), Idle: 100},
		"churn":    {Target: mute, Churn: 300, Timeout: time.Minute},
		"dials":    {Target: neverDials{}, Churn: 300, Timeout: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			sideBySide(t)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			p.For, p.Warmup = time.Minute, -1
			o := runPlan(t, ctx, p)
			if o.err != nil || o.result == nil || o.result.Valid || !o.result.Interrupted {
				t.Fatalf("%v, %v", o.result, o.err)
			}
			if c := o.result.Churn; c != nil && c.Errors["total"] != 0 {
				t.Errorf("churn %+v", c)
			}
			if o.took > 10*time.Second {
				t.Errorf("took %v", o.took)
			}
		})
	}
}
