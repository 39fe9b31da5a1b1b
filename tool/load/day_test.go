package load

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// A simulated day of load: answers that are missing or late, connections that end, every interval
// and report. The run uses as much memory at its end as after an hour, except for the intervals,
// which have their own bound; and every request has been counted once.
func TestADayTakesNoMoreMemoryThanAnHour(t *testing.T) {
	d := newDay(t)
	d.until(time.Hour)
	early, kept := heapInUse(), d.storing
	d.until(24 * time.Hour)
	late := heapInUse()
	t.Logf("%d requests: %d KiB after an hour, %d KiB after a day, of which intervals %d and %d KiB", d.sent, early>>10, late>>10, kept>>10, d.storing>>10)
	const most = 1 << 20
	if more := late - early - int64(d.storing-kept); more > most {
		t.Errorf("%d KiB more after a day, besides the intervals", more>>10)
	}
	if d.storing > 64<<20 {
		t.Errorf("the intervals take %d MiB", d.storing>>20)
	}
	d.end = d.window.till
	r, err := d.result()
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != d.sent || r.Errors["timeout"] != d.hung || r.Errors["closed"] != d.broken || r.Errors["total"] != d.hung+d.broken || r.Reconnects != d.ended {
		t.Errorf("%d requests, errors %v, %d reconnects; want %d, %d timeout, %d closed, %d reconnects",
			r.Requests, r.Errors, r.Reconnects, d.sent, d.hung, d.broken, d.ended)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // collects what finalizers have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// day is a run of 24 hours with simulated time, network and server.
type day struct {
	*run
	t                         *testing.T
	schedule                  schedule
	sent, hung, broken, ended int64 // requests by outcome; connections that ended
	late                      []lateAnswer
}

// lateAnswer is an answer that comes after its request was given up.
type lateAnswer struct {
	c          *conn
	reconnects int
	id         uint64
	at         int64
}

func newDay(t *testing.T) *day {
	p := must[Plan](t)(Plan{
		Target: nowhere{}, Conns: 8, Rate: 10, Arrivals: Poisson, Warmup: -1, For: 24 * time.Hour, AllowErrors: true,
	}.complete())
	return &day{run: simulated(t, p), t: t, schedule: schedule{arrivals: Poisson, rate: p.Rate}}
}

// simulated returns a run in its measured time, which began at 0, with simulated time.
func simulated(t *testing.T, p Plan) *run {
	r := newRun(p)
	t.Cleanup(r.endDials)
	r.window = window{0, int64(p.For)}
	for _, s := range r.counters {
		s.window = r.window
	}
	r.connections.opens(r.window)
	for i := range r.conns {
		r.conns[i] = newConn(r, i, nowhere{})
		r.conns[i].begin(0)
	}
	r.phase, r.opened = Measuring, r.readCPU(0)
	return r
}

// At a low rate one missing answer does not end the run; a silent server does, when a second
// request has timed out.
func TestSilenceAtALowRate(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		r := simulated(t, must[Plan](t)(Plan{Target: nowhere{}, Rate: 0.05, Warmup: -1, For: time.Hour}.complete()))
		c, ended := r.conns[0], int64(0)
		for now := int64(0); now < int64(90*time.Second) && ended == 0; now += int64(100 * time.Millisecond) {
			r.start = time.Now().Add(-time.Duration(now))
			if now%int64(20*time.Second) == 0 {
				c.due([]arrival{{moment: now}}, 1, now)
				if now == 0 || recovers && now > int64(20*time.Second) {
					if _, _, err := c.arrived(echo(nil, wire.Packet{ID: c.slots[c.outstanding()[0]].id}), now+1); err != nil {
						t.Fatal(err)
					}
				}
			}
			if e := r.silence(now); e != nil {
				ended = now
			}
			r.expire(now)
			if c.ending && !c.reconnect() {
				t.Fatal("not opened again")
			}
		}
		if want := int64(45 * time.Second); recovers && ended != 0 || !recovers && ended != want {
			t.Errorf("recovers %v: ended after %v", recovers, time.Duration(ended))
		}
	}
}

// until advances the simulation to then.
func (d *day) until(then time.Duration) {
	step := 10 * time.Minute // between reports, which are most of the work
	if testrun.All() && !testrun.Race {
		step = 30 * time.Second
	}
	for now := time.Duration(d.reported); now < then; {
		now += step
		for {
			at := int64(d.schedule.at(d.sent))
			if at >= int64(now) {
				break
			}
			d.request(d.conns[d.sent%int64(len(d.conns))], at)
		}
		d.answerLate(int64(now))
		d.run.advance(int64(now))
	}
}

// request sends a request and answers it as its number says.
func (d *day) request(c *conn, at int64) {
	d.sent++
	d.start = time.Now().Add(-time.Duration(at))
	if at >= c.look {
		c.look = c.expire(at)
	}
	c.due([]arrival{{moment: at}}, 1, at)
	newest := c.outstanding()
	id := c.slots[newest[len(newest)-1]].id
	switch {
	case d.sent%2000 == 0: // the answer is missing, or comes late
		d.hung++
		d.late = append(d.late, lateAnswer{c, c.reconnects, id, at + 2*int64(d.plan.Timeout)})
	case d.sent%1000 == 500:
		d.broken += int64(len(newest))
		d.hung -= int64(len(newest)) - 1
		d.renew(c)
	default:
		d.answer(c, id, at)
		if d.sent%300 == 0 && len(newest) == 1 {
			d.renew(c)
		}
	}
}

func (d *day) renew(c *conn) {
	d.ended++
	if !c.ended(io.EOF, false) || !c.reconnect() {
		d.t.Fatal("not opened again")
	}
}

func (d *day) answer(c *conn, id uint64, at int64) {
	if _, _, err := c.arrived(echo(nil, wire.Packet{ID: id}), at+int64(time.Millisecond)); err != nil {
		d.t.Fatal(err)
	}
}

// answerLate delivers every other missing answer, if its connection still exists.
func (d *day) answerLate(now int64) {
	for len(d.late) > 0 && d.late[0].at < now {
		l := d.late[0]
		d.late = d.late[1:]
		if l.c.reconnects == l.reconnects && l.id%2 == 0 {
			d.answer(l.c, l.id, now)
		}
	}
}

// nowhere is a target, and its connections, that accept everything.
type nowhere struct{ net.Conn }

func (n nowhere) Dial(context.Context) (net.Conn, error) { return n, nil }
func (nowhere) Codec() codec.Codec                       { return codec.Frames{}.Codec() }
func (nowhere) Prepare(codec.Load) (codec.Route, error)  { return codec.Route{}, nil }
func (nowhere) String() string                           { return "nowhere" }
func (nowhere) Write(p []byte) (int, error)              { return len(p), nil }
func (nowhere) Close() error                             { return nil }
func (nowhere) SetReadDeadline(time.Time) error          { return nil }
