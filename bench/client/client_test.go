package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// TestMain gives the servers of the tests processors that no loop keeps, and counts
// goroutines, and descriptors, which the client opens by itself.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	before := descriptors()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		// One more is Go's own poller, and another its alarm.
		if after := descriptors(); code == 0 && after > before+2 {
			os.Stderr.WriteString("descriptors are left open\n")
			code = 1
		}
		os.Exit(code)
	}))
}

func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// plan is a short one.
func plan(addr string) Plan {
	return Plan{
		Addr: addr, Conns: 5, Depth: 1, Content: []byte("sixteen letters."), Loops: 1,
		Warmup: 10 * time.Millisecond, Window: 400 * time.Millisecond,
	}
}

func TestRun(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"one at a time":   func(p *Plan) {},
		"many at a time":  func(p *Plan) { p.Depth = 64 },
		"two loops":       func(p *Plan) { p.Loops, p.Depth = 2, 3 },
		"one connection":  func(p *Plan) { p.Conns, p.Loops = 1, 8 },
		"no content":      func(p *Plan) { p.Content = nil },
		"long content":    func(p *Plan) { p.Content = make([]byte, 60_000) },
		"at a rate":       func(p *Plan) { p.Rate, p.Depth = 2000, 8 },
		"a rate, 2 loops": func(p *Plan) { p.Rate, p.Loops = 3000, 2 },
		"no warm-up":      func(p *Plan) { p.Warmup = 0 },
	} {
		for _, e := range []engine.Engine{engine.Events(engine.Auto), engine.Buffered(0)} {
			t.Run(e.Name()+"/"+name, func(t *testing.T) {
				t.Parallel()
				var served atomic.Int64
				p := plan(serve(t, e, func(_ framed.Call, dst, req []byte) ([]byte, error) {
					served.Add(1)
					return append(dst, req...), nil
				}))
				change(&p)
				edges := make(chan string, 9)
				p.Opened, p.Closed = func() { edges <- "opened" }, func() { edges <- "closed" }
				r, err := Run(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if r.Requests == 0 || r.Rate <= 0 || r.Wrong != 0 || r.Missing != 0 || r.P50 == nil || *r.P50 <= 0 || (r.Late != nil) != (p.Rate > 0) {
					t.Errorf("%+v", r)
				}
				if n := served.Load(); n < r.Requests {
					t.Errorf("%d requests were answered and %d served", r.Requests, n)
				}
				if close(edges); <-edges != "opened" || <-edges != "closed" || len(edges) > 0 {
					t.Error("the window's edges are not told once each")
				}
			})
		}
	}
}

// serve is a server of hone's that ends with the test.
func serve(t *testing.T, e engine.Engine, handle framed.HandlerFunc) (addr string) {
	t.Helper()
	ln := listen(t)
	s := &framed.Server{Engine: e, Handler: handle}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, framed.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TestRateIsASchedule counts what was due, which is the same however busy the
// machine is: 2,000 a second for 100 ms, two loops of which share.
func TestRateIsASchedule(t *testing.T) {
	addr := serve(t, engine.Engine{}, func(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil })
	p := plan(addr)
	p.Rate, p.Loops, p.Depth, p.Window = 2000, 2, 8, 100*time.Millisecond
	r, err := Run(t.Context(), p)
	if err != nil || r.Requests != 200 || r.Missing != 0 {
		t.Errorf("%+v, %v; want 200 requests", r, err)
	}
}

// peer is a server of the tests that answers as its function says: n counts the
// requests of a connection from 1, and the answer to write is whatever it returns;
// an error closes the connection.
func peer(t *testing.T, answer func(n int, p wire.Packet) ([]byte, error)) (addr string) {
	t.Helper()
	ln := listen(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				answerAll(conn, answer)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		serving.Wait() // every Run has closed its connections
	})
	return ln.Addr().String()
}

func answerAll(conn net.Conn, answer func(n int, p wire.Packet) ([]byte, error)) {
	in := bufio.NewReaderSize(conn, 128<<10)
	for n := 1; ; n++ {
		head, err := in.Peek(wire.HeaderSize)
		if err != nil {
			return
		}
		_, need, err := wire.Frame(head, 1<<20)
		if err != nil {
			return
		}
		frame := make([]byte, wire.HeaderSize+need)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		p, err := wire.Parse(frame[wire.HeaderSize:])
		if err != nil {
			return
		}
		out, err := answer(n, p)
		if err != nil {
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// ack is the right answer.
func ack(p wire.Packet) []byte {
	return wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: p.ID, Content: p.Content})
}

// TestWrongAnswersAreCounted has every tenth answer be wrong in one way. The right
// ones around it must be found.
func TestWrongAnswersAreCounted(t *testing.T) {
	packet := func(p wire.Packet) []byte { return wire.Append(nil, p) }
	for name, c := range map[string]struct {
		wrong func(p wire.Packet) []byte
		lost  bool // its request has no answer
	}{
		"another result":  {func(p wire.Packet) []byte { p.Command, p.Result = wire.SubmitAck, wire.Failed; return packet(p) }, false},
		"a shorter one":   {func(p wire.Packet) []byte { p.Content = p.Content[1:]; return ack(p) }, false},
		"a longer one":    {func(p wire.Packet) []byte { p.Content = make([]byte, 5000); return ack(p) }, false},
		"another content": {func(p wire.Packet) []byte { p.Content = []byte("sixteen letters!"); return ack(p) }, false},
		"twice":           {func(p wire.Packet) []byte { return append(ack(p), ack(p)...) }, false},
		"a push before":   {func(p wire.Packet) []byte { return append(packet(wire.Packet{Command: wire.Deliver}), ack(p)...) }, false},
		"a ConnAck":       {func(p wire.Packet) []byte { p.Command = wire.ConnAck; return packet(p) }, true},
		"another slot":    {func(p wire.Packet) []byte { p.ID += 3; return ack(p) }, true},
		"an earlier id":   {func(p wire.Packet) []byte { p.ID -= 1 << 16; return ack(p) }, true},
		"no connection's": {func(p wire.Packet) []byte { p.ID |= 1 << 63; return ack(p) }, true},
		"id 0":            {func(p wire.Packet) []byte { return append(ack(p), ack(wire.Packet{Content: p.Content})...) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var right, wrong atomic.Int64
			addr := peer(t, func(n int, p wire.Packet) ([]byte, error) {
				if n%10 > 0 {
					right.Add(1)
					return ack(p), nil
				}
				wrong.Add(1)
				return c.wrong(p), nil
			})
			p := plan(addr)
			p.Conns, p.Depth = 2, 2
			if p.Rate, p.Warmup, p.Window = 1000, 0, 50*time.Millisecond; c.lost {
				p.Depth = 30 // of 25 requests on a connection, so that no lost one holds up the others
			}
			r, err := Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			missing := int64(0)
			if c.lost {
				missing = wrong.Load()
			}
			if r.Wrong != wrong.Load() || r.Wrong == 0 || r.Missing != missing {
				t.Errorf("%d are wrong and %d missing, not %d and %d", r.Wrong, r.Missing, wrong.Load(), missing)
			}
			if r.Requests > right.Load()+wrong.Load() {
				t.Errorf("%d requests count and the peer saw %d", r.Requests, right.Load()+wrong.Load())
			}
		})
	}
}

// TestAnswersInPieces has the connection's answers arrive in pieces of every size.
func TestAnswersInPieces(t *testing.T) {
	var rest []byte
	n := 0
	addr := peer(t, func(_ int, p wire.Packet) ([]byte, error) {
		n++
		rest = append(rest, ack(p)...)
		cut := len(rest)
		if n%4 > 0 {
			cut = n % 31
		}
		out := slices.Clone(rest[:cut])
		rest = rest[cut:]
		return out, nil
	})
	p := plan(addr)
	p.Conns, p.Depth = 1, 4 // the fourth request brings what is left of all
	r, err := Run(t.Context(), p)
	if err != nil || r.Requests == 0 || r.Wrong != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRequestsThatDoNotFit fills the socket: the peer begins to read when the
// client has sent what it could.
func TestRequestsThatDoNotFit(t *testing.T) {
	var asked atomic.Int64
	addr := peer(t, func(n int, p wire.Packet) ([]byte, error) {
		asked.Add(1)
		return ack(p), nil
	})
	p := plan(addr)
	p.Conns, p.Depth, p.Content = 1, 2000, make([]byte, 10_000) // 20 MB, which no socket takes
	r, err := Run(t.Context(), p)
	if err != nil || r.Wrong != 0 || r.Missing != 0 || asked.Load() < 2000 {
		t.Errorf("%+v, %v; %d were asked", r, err, asked.Load())
	}
}

// TestServerThatDies must end long runs at once.
func TestServerThatDies(t *testing.T) {
	dead := errors.New("dead")
	for name, last := range map[string][]byte{"closes": nil, "talks nonsense": {0, 0, 0, 3}, "wants too much": {1, 0, 0, 0}} {
		for _, rate := range []float64{0, 10_000} {
			addr := peer(t, func(n int, p wire.Packet) ([]byte, error) {
				switch {
				case n < 100:
					return ack(p), nil
				case last == nil:
					return nil, dead
				}
				return last, nil
			})
			p := plan(addr)
			p.Window, p.Rate, p.Loops = time.Hour, rate, 2
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if r, err := Run(ctx, p); err == nil || ctx.Err() != nil {
				t.Errorf("%s, rate %v: %+v, %v, %v", name, rate, r, err, ctx.Err())
			}
			cancel()
		}
	}
}

func TestNobodyListens(t *testing.T) {
	ln := listen(t)
	addr := ln.Addr().String()
	ln.Close()
	if r, err := Run(t.Context(), plan(addr)); err == nil {
		t.Errorf("%+v", r)
	}
}

// TestServerThatHangs ends with the plan, and the time that requests have waited
// counts.
func TestServerThatHangs(t *testing.T) {
	addr := peer(t, func(int, wire.Packet) ([]byte, error) { return nil, nil })
	p := plan(addr)
	p.Depth = 7
	r, err := Run(t.Context(), p)
	if err != nil || r.Requests != 0 || r.Missing != 35 || r.Rate != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	p.Rate, p.Warmup, p.Window = 2000, 0, 50*time.Millisecond // 100 requests, for which there are 35 places
	r, err = Run(t.Context(), p)
	if err != nil || r.Requests != 100 || r.Missing != 100 || r.P50 == nil || *r.P50 < float64(drainTime.Microseconds()) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addr := peer(t, func(_ int, p wire.Packet) ([]byte, error) { return ack(p), nil })
	p := plan(addr)
	p.Window, p.Opened = time.Hour, cancel
	if r, err := Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %+v, %v", r, err)
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Conns = 0 }, func(p *Plan) { p.Conns = mostConns + 1 },
		func(p *Plan) { p.Depth = 0 }, func(p *Plan) { p.Depth = mostDepth + 1 },
		func(p *Plan) { p.Rate = -1 }, func(p *Plan) { p.Rate = 1e10 }, func(p *Plan) { p.Loops = -1 },
		func(p *Plan) { p.Window = 0 }, func(p *Plan) { p.Warmup = -1 },
		func(p *Plan) { p.Addr = "192.0.2.1:80" }, func(p *Plan) { p.Addr = "nowhere:80" },
	} {
		p := plan("127.0.0.1:1")
		change(&p)
		if r, err := Run(t.Context(), p); err == nil {
			t.Errorf("%+v: %+v, %v", p, r, err)
		}
	}
}
