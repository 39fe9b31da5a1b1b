package gateway

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

var histories = flag.Int("histories", testrun.Sized(300, 3000), "random histories of clocks, restarts and clients")

// hour and day are in milliseconds, like the clock.
const (
	hour   = int64(time.Hour / time.Millisecond)
	day    = 24 * hour
	minute = hour / 60
)

func TestClock(t *testing.T) {
	start := int64(1_800_000_000_000)
	for _, c := range []struct {
		name  string
		steps [][2]int64 // wall clock and running time since the step before
		log   int64      // log time after them, relative to start
		off   int
		count uint64
		trust bool
	}{
		{"runs", [][2]int64{{hour, hour}, {hour, hour}}, 2 * hour, 0, 0, false},
		{"a small step forward", [][2]int64{{day, 0}}, day, 0, 0, false},
		{"a large one", [][2]int64{{day + 1, 0}, {hour, hour}}, hour, 1, 1, false},
		{"of a clock that is trusted", [][2]int64{{3650 * day, 0}, {hour, hour}}, 3650*day + hour, 0, 0, true},
		{"and back", [][2]int64{{10 * day, 0}, {hour, hour}, {-10 * day, 0}}, hour, 0, 1, false},
		{"one that lasts", [][2]int64{{10 * day, 0}, {day, day}, {hour, hour}}, day + hour, 1, 1, false},
		{"a step back", [][2]int64{{-10 * day, 0}, {day, day}}, 0, -1, 1, true},
		{"a small one, until it is made up for", [][2]int64{{-hour, 0}, {2 * hour, 2 * hour}, {hour, hour}}, 2 * hour, 0, 1, false},
		{"one too small to notice", [][2]int64{{-5000, 0}, {1001, 1001}, {1001, 1001}}, 0, 0, 0, false},
		{"a millisecond less in a quiet minute", [][2]int64{{minute - 1, minute}}, minute - 1, 0, 0, false},
	} {
		k := clock{gap: day, trusted: func() bool { return c.trust }}
		wall, mono := start, int64(5)
		k.read(wall, mono)
		for _, s := range c.steps {
			wall, mono = wall+s[0], mono+s[1]
			before := k.time
			if k.read(wall, mono); k.time < before {
				t.Errorf("%s: log time went back by %d ms", c.name, before-k.time)
			}
		}
		if k.time-start != c.log || k.off != c.off || k.steps != c.count {
			t.Errorf("%s: log time %v, off %d, %d steps; want %v, %d, %d", c.name,
				time.Duration(k.time-start)*time.Millisecond, k.off, k.steps, time.Duration(c.log)*time.Millisecond, c.off, c.count)
		}
		if want := mono - 5; k.running != want {
			t.Errorf("%s: running %d, want %d", c.name, k.running, want)
		}
	}
	var k clock
	k.learn(journal.Clock{Time: 10, Running: 5})
	if k.learn(journal.Clock{Time: 11, Running: 3}); k.time != 11 || k.running != 5 { // of another server
		t.Errorf("%+v", k)
	}
}

// TestClockMoments has more pauses than the clock remembers: what was stored before a running time is found all
// the same, later at most, and no more than twice as late.
func TestClockMoments(t *testing.T) {
	k := clock{gap: day, trusted: func() bool { return true }}
	wall, mono := int64(1_800_000_000_000), int64(0)
	k.read(wall, mono)
	var times []int64 // after each hour of running
	for range 1000 {
		wall, mono = wall+hour, mono+hour
		k.read(wall, mono)
		times = append(times, k.time)
		wall += 5 * day
		k.read(wall, mono)
	}
	if n := len(k.moments); n > mostMoments || k.moments[0].Running != 0 {
		t.Fatalf("%d moments: %v", n, k.moments)
	}
	for age := int64(1); age < int64(len(times)); age++ {
		found := slices.IndexFunc(times, func(ms int64) bool { return !k.old(0, ms, age*hour) })
		if newest := int64(len(times)) - age; int64(found) > newest || int64(found) < newest-age {
			t.Errorf("after %d of %d hours, %d records count as older than %d hours", len(times), len(times), found, age)
		}
	}
}

// TestPause stops a server, and starts it with another wall clock: log time is that of the wall clock, or an alert
// names the command that makes it so. A log without records simply begins anew.
func TestPause(t *testing.T) {
	truth := int64(1_800_000_000_000)
	for _, c := range []struct {
		name          string
		first         int64 // the wall clock at the first start; at the second it is right
		synced, empty bool
		trust         bool
		off           int
	}{
		{name: "72 hours", first: truth - 3*day},
		{name: "20 days", first: truth - 20*day},
		{name: "400 days", first: truth - 400*day, off: 1},
		{name: "1971", first: 365 * day, off: 1},
		{name: "ten years ahead", first: truth + 3650*day, off: -1},
		{name: "72 hours, synchronised", first: truth - 3*day, synced: true},
		{name: "20 days, synchronised", first: truth - 20*day, synced: true},
		{name: "400 days, synchronised", first: truth - 400*day, synced: true},
		{name: "1971, synchronised", first: 365 * day, synced: true},
		{name: "ten years ahead, synchronised", first: truth + 3650*day, synced: true, off: -1},
		{name: "400 days, trusted", first: truth - 400*day, trust: true},
		{name: "1971, empty", first: 365 * day, empty: true},
		{name: "ten years ahead, empty", first: truth + 3650*day, empty: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var memory Memory
			wall, mono := c.first, int64(0)
			var said bytes.Buffer
			open := func() *offline {
				return recovered(t, &Server{Log: &memory, TrustClock: c.trust, Logger: slog.New(slog.NewTextHandler(&said, nil)),
					now: func() (int64, int64) { return wall, mono }, synced: func() bool { return c.synced }})
			}
			up := open()
			l, known, err := up.hello(hello{client: "before", next: 1})
			must(t, err)
			after := hello{client: "after", next: 1}
			if c.empty {
				after = hello{client: "before", epoch: known.epoch, next: 1}
			} else {
				up.write(l, 1, "x")
			}
			must(t, up.committer.checkpoint())
			said.Reset()
			wall, mono = truth, 0
			up = open()
			alert := strings.Contains(said.String(), "honed clock accept")
			if k := up.times(); k.off != c.off || alert != (c.off != 0) || c.off == 0 && k.time != wall {
				t.Fatalf("off %d, log time %v ahead, it says %s", k.off, time.Duration(k.time-wall)*time.Millisecond, &said)
			}
			if lines := strings.Count(said.String(), "level=WARN"); c.empty != (lines == 0) || lines > 1 {
				t.Errorf("it says %s", &said)
			}
			if c.off != 0 {
				must(t, up.acceptClock())
			}
			l, _, err = up.hello(after)
			must(t, err)
			up.write(l, 1, "y")
			wall, mono = wall+minute, mono+minute
			if k := up.times(); k.off != 0 || k.time != wall {
				t.Errorf("after that, off %d, log time %v ahead", k.off, time.Duration(k.time-wall)*time.Millisecond)
			}
			if up = open(); up.times().off != 0 || up.times().time != wall { // crashed
				t.Errorf("after a crash, off %d, log time %v ahead", up.times().off, time.Duration(up.times().time-wall)*time.Millisecond)
			}
			_, next, _ := memory.Bounds()
			pos, err := up.positionAt(t.Context(), truth-minute, 1, next)
			must(t, err)
			must(t, up.Log.Read(t.Context(), pos, decoded(func(pos uint64, e journal.Envelope) error {
				for r := range e.Records() {
					if r.Client != after.client || r.Time != truth {
						t.Errorf("from a minute before the accepted time on, the first record is of %s, at %v", r.Client, time.UnixMilli(r.Time))
					}
				}
				return nil
			})))
		})
	}
}

// TestStretchShared has an operator accept a step back at one of two servers, while a record waits at the other: it
// gets a time of the new stretch.
func TestStretchShared(t *testing.T) {
	var memory Memory
	next := views(&memory)
	truth := int64(1_800_000_000_000)
	wall := truth + 3650*day
	open := func() *offline {
		return recovered(t, &Server{Log: next(), Shared: true, now: func() (int64, int64) { return wall, 0 }})
	}
	left, right := open(), open()
	l, _, err := right.hello(hello{client: "a", next: 1})
	must(t, err)
	right.write(l, 1, "x")
	must(t, left.committer.follow())
	wall = truth
	left.tick()
	right.enqueue(l, 2, "y")
	must(t, left.acceptClock())
	right.settleAll()
	right.write(l, 3, "z")
	if k := right.times(); k.time != truth || k.off != 0 {
		t.Errorf("off %d, log time %v ahead", k.off, time.Duration(k.time-truth)*time.Millisecond)
	}
	var times []int64
	_, err = Check(t.Context(), &memory, func(r journal.Record) error { times = append(times, r.Time-truth); return nil })
	if must(t, err); !slices.Equal(times, []int64{3650 * day, 0, 0}) {
		t.Errorf("the records have the times %v", times)
	}
	if again := open(); again.times().time != truth || again.clock.running != 0 {
		t.Errorf("a later start: %+v", again.clock)
	}
}

// pinned is a connection that a test holds by hand.
type pinned struct{ closed bool }

func (p *pinned) Close()          { p.closed = true }
func (p *pinned) End(error) error { p.closed = true; return nil }

// offline is a Server without sockets: a test calls what the committer calls.
type offline struct {
	*Server
	t    testing.TB
	acks framed.Batch
}

// recovered starts a server on a log.
func recovered(t testing.TB, s *Server) *offline {
	s.prepared.Do(s.prepare)
	t.Cleanup(s.cancel)
	must(t, s.committer.recover(t.Context()))
	return &offline{Server: s, t: t}
}

// hello resumes or begins a session.
func (o *offline) hello(h hello) (l *link, known *session, err error) {
	l = &link{conn: &pinned{}}
	requests := []request{{client: context.Background(), came: time.Now(), link: l, hello: h}}
	claims := o.committer.decide(requests)
	if requests[0].passed { // it waits behind what has come
		last := o.queue.waiting[len(o.queue.waiting)-1]
		requests, last.requests = last.requests, nil
		o.settleAll()
		claims = o.committer.decide(requests)
	}
	if requests[0].refused != nil {
		return nil, nil, requests[0].refused
	}
	if len(claims) > 0 {
		must(o.t, o.committer.appendStates(0, 0, nil, claims, nil))
	}
	o.queue.mu.Lock()
	defer o.queue.mu.Unlock()
	must(o.t, o.sessions.settle(&requests[0], requests[0].granted, false, o.readClock()))
	return l, requests[0].granted, nil
}

// write stores one record, and reports whether it was a duplicate.
func (o *offline) write(l *link, seq uint64, data string) (duplicate bool) {
	defer o.settleAll()
	return o.enqueue(l, seq, data)
}

// enqueue accepts one record, and reports whether it was a duplicate.
func (o *offline) enqueue(l *link, seq uint64, data string) (duplicate bool) {
	accepted := l.session.accepted
	if err := o.queue.accept(l, context.Background, seq, []byte(data), noAnswer); err != nil && err != errDuplicate {
		o.t.Fatal(err)
	}
	return l.session.accepted == accepted
}

func (o *offline) acceptClock() error { return errors.Join(o.committer.acceptClock()) }

// settleAll does what the committer does until nothing waits.
func (o *offline) settleAll() {
	for len(o.queue.waiting) > 0 {
		p := o.queue.take()
		must(o.t, o.committer.store(p, &o.acks))
		if p.tick && o.committer.checkpointDue(p) {
			must(o.t, o.committer.checkpoint())
		}
		o.queue.release(p)
	}
}

// visitor is a client of a history, and what the history knows about it.
type visitor struct {
	name  string
	epoch uint64
	last  uint64
	link  *link
	away  int64 // running time since it was connected
	least int64 // the part of it that the log must know after crashes
}

// TestClockHistories runs random histories of jumping clocks, crashes, restarts and clients. No
// session that was connected within the expiry is forgotten, and a checkpoint keeps none that the
// log shows to be older; epochs only grow, and so does log time within a stretch. Log time is that of the wall
// clock, or reported, and right once an operator has accepted the wall clock; no record counts as old before it is.
func TestClockHistories(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	forgotten, resumed := 0, 0
	for n := range *histories {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		f, r := clockHistory(t, random)
		forgotten, resumed = forgotten+f, resumed+r
		if t.Failed() {
			t.Fatalf("history %d", n)
		}
	}
	t.Logf("%d histories: %d sessions resumed, %d forgotten", *histories, resumed, forgotten)
	if forgotten == 0 || resumed == 0 {
		t.Error("nothing was forgotten, or nothing resumed")
	}
}

func clockHistory(t *testing.T, random *rand.Rand) (forgotten, resumed int) {
	const expiry = 7 * day
	var memory Memory
	wall, mono := int64(1_800_000_000_000)+random.Int64N(1000)*day, int64(0)
	now := func() (int64, int64) { return wall, mono }
	synced, starts, ran := false, int64(0), int64(0)
	var stored []int64 // when each record was stored, by ran
	open := func() *offline {
		mono = 0
		starts++
		synced = random.IntN(2) == 0
		return recovered(t, &Server{Log: &memory, Expiry: time.Duration(expiry) * time.Millisecond, now: now, Checkpoint: 5, synced: func() bool { return synced }})
	}
	up := open()
	clients := make([]*visitor, 3)
	for i := range clients {
		clients[i] = &visitor{name: fmt.Sprint("c", i)}
	}
	var highest uint64
	clocked := int64(0) // mono when the log last got a Clock
	run := func(d int64) {
		for d > 0 { // as ticking does, but not each minute
			step := min(d, hour)
			d, wall, mono, ran = d-step, wall+step, mono+step, ran+step
			for _, c := range clients {
				if c.link == nil {
					c.away, c.least = c.away+step, c.least+step
				}
			}
			up.tick()
			up.settleAll()
			if up.committer.noted == up.clock.running {
				clocked = mono
			}
		}
	}
	leave := func(c *visitor) {
		if c.link != nil {
			up.closed(c.link)
			c.link, c.away, c.least = nil, 0, 0
		}
	}
	check := func() {
		must(t, up.committer.checkpoint())
		clocked = mono
		for _, c := range clients {
			known := up.sessions.byClient[c.name]
			switch {
			case c.epoch == 0:
			case c.away <= expiry && (known == nil || known.epoch != c.epoch):
				t.Errorf("%s is forgotten, although it was away for %v only", c.name, time.Duration(c.away)*time.Millisecond)
			case c.least > expiry+hour && known != nil:
				t.Errorf("%s is kept, although it has been away for %v", c.name, time.Duration(c.least)*time.Millisecond)
			}
		}
	}
	for range 14 {
		c := clients[random.IntN(len(clients))]
		switch random.IntN(10) {
		case 0, 1: // the wall clock jumps
			wall += []int64{1, -1}[random.IntN(2)] * []int64{hour, day, 3 * day, 10 * day, 3650 * day}[random.IntN(5)]
			up.tick()
			up.settleAll()
		case 2, 3:
			run(random.Int64N([]int64{hour, day, 4 * day, 9 * day}[random.IntN(4)]))
		case 4: // crash: the log does not know what came after its last entry, nor who was connected
			lost := mono - clocked
			for _, c := range clients {
				connected := c.link != nil
				c.link = nil
				if known := up.sessions.byClient[c.name]; connected {
					c.away, c.least = 0, 0
				} else if known != nil {
					c.least = max(c.least-lost, 0)
				}
			}
			wall += random.Int64N(5 * day)
			up = open()
			for _, c := range clients { // a crash before a checkpoint saw the client leave renews the session
				if known := up.sessions.byClient[c.name]; known != nil && !known.away {
					c.least = 0
				}
			}
			clocked = 0
		case 5: // a clean restart
			for _, c := range clients {
				leave(c)
			}
			check()
			wall += random.Int64N([]int64{5 * day, 400 * day}[random.IntN(2)])
			up = open()
			clocked = 0
		case 6:
			leave(c)
		case 7:
			check()
		case 8:
			synced = !synced
		case 9: // an operator accepts the clock, while a record waits
			if c.link != nil {
				c.last++
				up.enqueue(c.link, c.last, "x")
				stored = append(stored, ran)
			}
			off := up.times().off
			if err := up.acceptClock(); (off == 0) != errors.Is(err, errRefused) || off != 0 && (err != nil || up.times().time != wall) {
				t.Errorf("off %d, accepted: %v, and log time is %v ahead", off, err, time.Duration(up.times().time-wall)*time.Millisecond)
			}
			up.settleAll()
		}
		// Whoever is not connected may come back, or write.
		if c = clients[random.IntN(len(clients))]; random.IntN(2) == 0 {
			if c.link == nil {
				link, known, err := up.hello(hello{client: c.name, epoch: c.epoch, next: c.last + 1})
				if err == ErrExpired && c.away > expiry {
					forgotten++
					c.epoch, c.last = 0, 0
					link, known, err = up.hello(hello{client: c.name, next: 1})
				} else if err == nil && c.epoch != 0 {
					resumed++
				}
				if err != nil {
					t.Errorf("%s: %v after %v", c.name, err, time.Duration(c.away)*time.Millisecond)
					return
				}
				if c.epoch == 0 && known.epoch <= highest {
					t.Errorf("epoch %d after %d", known.epoch, highest)
				}
				c.link, c.epoch, c.away, c.least = link, known.epoch, 0, 0
				highest = max(highest, known.epoch)
			}
			c.last++
			if up.write(c.link, c.last, "x") {
				t.Errorf("%s: record %d is a duplicate", c.name, c.last)
			}
			stored = append(stored, ran)
		}
		k := up.times()
		if wrong := k.time - wall; k.off == 0 && max(wrong, -wrong) > backwardStep {
			t.Errorf("log time is %v ahead, and nobody is told", time.Duration(wrong)*time.Millisecond)
		}
		age := []int64{hour, day, 5 * day}[random.IntN(3)]
		since, newest, n := uint64(0), int64(0), 0
		must(t, memory.Read(t.Context(), 0, func(pos uint64, b []byte) error {
			e, err := journal.Decode(b)
			for c := range e.Clocks() {
				if c.Since > since { // time starts again here
					since, newest = c.Since, c.Time
				}
			}
			for r := range e.Records() {
				if r.Time < newest {
					t.Errorf("log time went back by %v", time.Duration(newest-r.Time)*time.Millisecond)
				}
				if newest = r.Time; k.old(pos, r.Time, age) && ran-stored[n] < age-starts*unloggedSkip {
					t.Errorf("record %d counts as older than %v after %v", n, time.Duration(age)*time.Millisecond, time.Duration(ran-stored[n])*time.Millisecond)
				}
				n++
			}
			return err
		}))
		if k.time < newest && k.since == since {
			t.Errorf("log time went back by %v", time.Duration(newest-k.time)*time.Millisecond)
		}
	}
	return forgotten, resumed
}

// TestClockIsReported has a step of the wall clock be counted and accepted by an operator.
func TestClockIsReported(t *testing.T) {
	wall := time.Now().UnixMilli()
	up := recovered(t, &Server{Log: new(Memory), now: func() (int64, int64) { return wall, 0 }})
	if err := up.acceptClock(); !errors.Is(err, errRefused) {
		t.Errorf("a step was accepted and there is none: %v", err)
	}
	wall += 10 * day
	up.tick()
	if st := up.Stats(); !st.ClockOff || st.ClockSteps != 1 || st.ClockAhead != 10*24*time.Hour {
		t.Errorf("%+v", st)
	}
	must(t, up.acceptClock())
	if st := up.Stats(); st.ClockOff || st.ClockSteps != 1 || st.ClockAhead != 0 || st.LogTime.UnixMilli() != wall {
		t.Errorf("%+v", st)
	}
}
