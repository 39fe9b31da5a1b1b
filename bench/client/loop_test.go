package client

import (
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// TestNoAllocations turns a loop whose connections are pairs of sockets: at the
// other ends the test answers, without allocating either.
func TestNoAllocations(t *testing.T) {
	const conns, depth, runs = 4, 3, 1000
	for _, rate := range []float64{0, 1e9} {
		p := plan("")
		p.Conns, p.Depth, p.Rate, p.Warmup, p.Window = conns, depth, rate, 0, time.Hour
		l, err := newLoop(&p, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		var ends []int
		for i := range conns {
			pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			if err == nil {
				err = l.add(pair[0], i)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(pair[1])
			ends = append(ends, pair[1])
		}
		l.start = time.Now()
		for i := range l.conns {
			if err := l.send(&l.conns[i]); err != nil {
				t.Fatal(err)
			}
		}
		l.cross()
		in, out := make([]byte, 4096), make([]byte, 0, 4096)
		n := testing.AllocsPerRun(runs, func() {
			for _, fd := range ends {
				got, err := syscall.Read(fd, in)
				if err == syscall.EAGAIN {
					continue // at a rate, before the first turn
				}
				out = out[:0]
				for rest := in[:max(0, got)]; len(rest) > 0 && err == nil; {
					var payload []byte
					payload, _, err = wire.Frame(rest, len(in))
					rest = rest[wire.HeaderSize+len(payload):]
					var request wire.Packet
					if err == nil {
						err = wire.ParseInto(&request, payload)
					}
					out = wire.Append(out, wire.Packet{Command: wire.SubmitAck, ID: request.ID, Content: request.Content})
				}
				if err == nil {
					_, err = syscall.Write(fd, out)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := l.turn(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 || l.answered < runs*conns*depth || l.wrong != 0 || l.latency.total == 0 {
			t.Errorf("rate %v: %v allocations a turn, %d answers, %d of them wrong, %d recorded", rate, n, l.answered, l.wrong, l.latency.total)
		}
	}
}

// TestMoments has the requests of all loops equally far apart.
func TestMoments(t *testing.T) {
	p := Plan{Conns: 6, Depth: 1, Rate: 1000, Loops: 2}
	for i := range p.Loops {
		l, err := newLoop(&p, i)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for n := range int64(5) {
			if got, want := l.moment(n), (2*n+int64(i))*1e6; got != want {
				t.Errorf("loop %d: request %d is due at %d, not %d", i, n, got, want)
			}
		}
	}
}

// loopOn is a loop with one connection, and the descriptor of its other end.
func loopOn(t *testing.T, p *Plan) (l *loop, other int) {
	t.Helper()
	l, err := newLoop(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(pair[1]) })
	if err := l.add(pair[0], 0); err != nil {
		t.Fatal(err)
	}
	return l, pair[1]
}

// TestResponseTimesBeginWhenDue has a loop find out a second late that a request
// was due.
func TestResponseTimesBeginWhenDue(t *testing.T) {
	p := plan("")
	p.Conns, p.Depth, p.Rate, p.Warmup, p.Window = 1, 2, 1000, 0, time.Hour
	l, _ := loopOn(t, &p)
	l.now, l.phase = int64(time.Second), measuring
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.conns[0].slots {
		l.answer(&l.conns[0], s.id, true)
	}
	if got := l.latency.quantile(1, 2); got == nil || l.answered != 2 || *got < 0.99e6 || *got > 1.01e6 {
		t.Errorf("%d answers; the responses took %v µs, not a second", l.answered, got)
	}
}

// TestSpun counts the time between two looks that find nothing. Work is in the time
// between a look that finds something and the next.
func TestSpun(t *testing.T) {
	p := plan("")
	p.Conns = 1
	l, other := loopOn(t, &p)
	l.phase, l.start, l.till = measuring, time.Now(), 0 // the window's end is overdue: no look waits
	for i, turn := range []struct{ finds, counts bool }{
		{true, false}, // that there is room to write
		{false, false}, {false, true}, {false, true}, {true, false}, {false, false}, {false, true},
	} {
		if turn.finds && i > 0 {
			push := wire.Append(nil, wire.Packet{Command: wire.Deliver})
			if _, err := syscall.Write(other, push); err != nil {
				t.Fatal(err)
			}
		}
		before, last := l.spun, l.now
		if err := l.turn(); err != nil {
			t.Fatal(err)
		}
		if counted := l.spun - before; counted != 0 != turn.counts || turn.counts && counted != l.now-last {
			t.Errorf("turn %d: %d ns count of %d", i, counted, l.now-last)
		}
	}
	if l.wrong != 1 {
		t.Errorf("%d pushes were found", l.wrong)
	}
}

// TestTimeout also holds that a loop never waits past a request's moment.
func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		phase phase
		now   time.Duration
		want  time.Duration
	}{
		{"an edge is far", 0, warming, 0, longestWait},
		{"the window opens", 0, warming, 999_500 * time.Microsecond, 500 * time.Microsecond},
		{"the window closes", 0, measuring, 1_999_200 * time.Microsecond, 800 * time.Microsecond},
		{"the window should have closed", 0, measuring, 3 * time.Second, 0},
		{"a request is due later", 2000, warming, 0, 500*time.Microsecond - spinTime},
		{"a request is due soon", 2000, warming, 500*time.Microsecond - spinTime/2, 0},
		{"a request is due after the window", 2000, draining, 2 * time.Second, longestWait},
	} {
		p := Plan{Conns: 1, Depth: 1, Rate: c.rate, Loops: 1, Warmup: time.Second, Window: time.Second}
		l, err := newLoop(&p, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		l.now, l.phase, l.due = int64(c.now), c.phase, 1
		if c.phase == draining {
			l.due = 4000
		}
		if got := l.timeout(); got != c.want {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// TestRests holds the rule: a nap only while the server has enough to do.
func TestRests(t *testing.T) {
	for _, c := range []struct {
		fresh, pending int64
		gap            float64
		want           bool
	}{
		{10, 100, 0, true}, {50, 100, 0, false}, {0, 100, 0, false}, {1, 1, 0, false}, {10, 100, 1e6, false},
	} {
		l := &loop{fresh: c.fresh, pending: c.pending, gap: c.gap}
		if l.rests() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}
