package gateway

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

var histories = flag.Int("histories", testrun.Sized(1000, 3000), "random histories of clocks, restarts and clients")

// hour and day are in milliseconds, like the clock.
const (
	hour = int64(time.Hour / time.Millisecond)
	day  = 24 * hour
)

func TestClock(t *testing.T) {
	start := int64(1_800_000_000_000)
	for _, c := range []struct {
		name  string
		steps [][2]int64 // wall clock and running time since the step before
		log   int64      // log time after them, relative to start
		off   int
		count uint64
	}{
		{"runs", [][2]int64{{hour, hour}, {hour, hour}}, 2 * hour, 0, 0},
		{"a small step forward", [][2]int64{{day, 0}}, day, 0, 0},
		{"a large one", [][2]int64{{day + 1, 0}, {hour, hour}}, hour, 1, 1},
		{"and back", [][2]int64{{10 * day, 0}, {hour, hour}, {-10 * day, 0}}, hour, 0, 1},
		{"one that lasts", [][2]int64{{10 * day, 0}, {day, day}, {hour, hour}}, 11*day + hour, 0, 1},
		{"one that is replaced", [][2]int64{{10 * day, 0}, {day - hour, day - hour}, {10 * day, 0}, {day - hour, day - hour}}, 2*day - 2*hour, 1, 1},
		{"a step back", [][2]int64{{-10 * day, 0}, {day, day}}, day / 2, -1, 1},
		{"a small one, until it is made up for", [][2]int64{{-hour, 0}, {2 * hour, 2 * hour}, {hour, hour}}, 2 * hour, 0, 1},
		{"one too small to notice", [][2]int64{{-5000, 0}, {1001, 1001}, {1001, 1001}}, 1001, 0, 0},
	} {
		k := clock{gap: day}
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
		if want := mono - 5; k.running != want || k.time-k.skipped != start+want {
			t.Errorf("%s: running %d, skipped %d of %d; want %d", c.name, k.running, k.skipped, k.time-start, want)
		}
	}
	k := clock{gap: day}
	k.read(start, 0)
	k.read(start+10*day, 0)
	k.accept = true
	if k.read(start+10*day+hour, hour); k.time != start+10*day+hour || k.off != 0 || k.accept {
		t.Errorf("after accept: %+v", k)
	}
}

// pinned is a connection that a test holds by hand.
type pinned struct{ closed bool }

func (p *pinned) TLS() *tls.ConnectionState { return nil }
func (p *pinned) Close()                    { p.closed = true }
func (p *pinned) Trust()                    {}
func (p *pinned) End(error) error           { p.closed = true; return nil }

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
	must(t, s.recover(t.Context()))
	return &offline{Server: s, t: t}
}

// hello resumes or begins a session.
func (o *offline) hello(h hello) (l *link, known *session, err error) {
	l = &link{conn: &pinned{}, level: Disk}
	requests := []request{{client: context.Background(), came: time.Now(), link: l, hello: h}}
	claims := o.decide(requests)
	if requests[0].passed { // it waits behind what has come
		last := o.queue.waiting[len(o.queue.waiting)-1]
		requests, last.requests = last.requests, nil
		o.settleAll()
		claims = o.decide(requests)
	}
	if requests[0].refused != nil {
		return nil, nil, requests[0].refused
	}
	if len(claims) > 0 {
		if err := o.appendStates(0, 0, claims, nil); err != nil {
			o.t.Fatal(err)
		}
	}
	o.queue.mu.Lock()
	defer o.queue.mu.Unlock()
	if err := o.sessions.settle(&requests[0], requests[0].granted, false, o.readClock()); err != nil {
		o.t.Fatal(err)
	}
	return l, requests[0].granted, nil
}

// write stores one record, and reports whether it was a duplicate.
func (o *offline) write(l *link, seq uint64, data string) (duplicate bool) {
	o.queue.mu.Lock()
	p, n, err := o.queue.admit(l, context.Background, seq, []byte(data))
	if err == nil && n > 0 {
		p.addSilent(l.session, seq, cost([]byte(data)))
		p.entries[len(p.entries)-1].sum = l.session.sum
	}
	o.queue.mu.Unlock()
	if err != nil && err != errDuplicate {
		o.t.Fatal(err)
	}
	o.settleAll()
	return n == 0
}

// settleAll does what the committer does until nothing waits.
func (o *offline) settleAll() {
	for len(o.queue.waiting) > 0 {
		p := o.queue.take()
		if err := o.store(p, &o.acks); err != nil {
			o.t.Fatal(err)
		}
		if p.tick && o.checkpointDue(p) {
			if err := o.checkpoint(); err != nil {
				o.t.Fatal(err)
			}
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
// log shows to be older; epochs only grow, and so does log time.
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
	open := func() *offline {
		mono = 0
		return recovered(t, &Server{Log: &memory, Expiry: time.Duration(expiry) * time.Millisecond, now: now, Checkpoint: 5})
	}
	up := open()
	clients := make([]*visitor, 3)
	for i := range clients {
		clients[i] = &visitor{name: fmt.Sprint("c", i)}
	}
	var highest uint64
	newest, stored := int64(0), int64(0) // log time, and mono when the log last got a Clock
	run := func(d int64) {
		for d > 0 { // as ticking does, but not each minute
			step := min(d, hour)
			d, wall, mono = d-step, wall+step, mono+step
			for _, c := range clients {
				if c.link == nil {
					c.away, c.least = c.away+step, c.least+step
				}
			}
			up.tick()
			up.settleAll()
			if up.noted == up.clock.running {
				stored = mono
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
		must(t, up.checkpoint())
		stored = mono
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
	for range 12 {
		c := clients[random.IntN(len(clients))]
		switch random.IntN(8) {
		case 0, 1: // the wall clock jumps
			wall += []int64{1, -1}[random.IntN(2)] * []int64{hour, day, 3 * day, 10 * day, 3650 * day}[random.IntN(5)]
			up.tick()
			up.settleAll()
		case 2, 3:
			run(random.Int64N([]int64{hour, day, 4 * day, 9 * day}[random.IntN(4)]))
		case 4: // crash: the log does not know what came after its last entry, nor who was connected
			lost := mono - stored
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
			stored = 0
		case 5: // a clean restart
			for _, c := range clients {
				leave(c)
			}
			check()
			wall += random.Int64N(5 * day)
			up = open()
			stored = 0
		case 6:
			leave(c)
		case 7:
			check()
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
		}
		if up.clock.time < newest {
			t.Errorf("log time went back by %v", time.Duration(newest-up.clock.time)*time.Millisecond)
		}
		if times := slices.Collect(recordTimes(t, &memory)); !slices.IsSorted(times) {
			t.Errorf("records have the times %v", times)
		}
	}
	return forgotten, resumed
}

// recordTimes yields the times of the records of a log.
func recordTimes(t testing.TB, log journal.Log) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		stop := fmt.Errorf("stop")
		_, err := Check(t.Context(), log, func(r journal.Record) error {
			if !yield(r.Time) {
				return stop
			}
			return nil
		})
		if err != nil && err != stop {
			t.Error(err)
		}
	}
}

// TestWrongClock has the clock of a server be wrong for one hello, ahead and behind: after it is
// right again, sessions survive restarts.
func TestWrongClock(t *testing.T) {
	for name, wrong := range map[string]int64{"ahead": 10 * day, "behind": -30 * day} {
		t.Run(name, func(t *testing.T) {
			log := newGate()
			wall, mono := time.Now().UnixMilli(), int64(0)
			now := func() (int64, int64) { return wall, mono }
			set := func(up *served, by int64) {
				up.queue.mu.Lock()
				wall += by
				up.queue.mu.Unlock()
			}
			srv := &Server{Log: log, now: now}
			up := serve(t, srv)
			alice := up.peer(t)
			a := alice.hello(first("alice"))
			alice.stored(1, "x")
			set(up, wrong)
			mallory := up.peer(t)
			m := mallory.hello(first("mallory"))
			mallory.stored(1, "x")
			set(up, -wrong)
			alice.stored(2, "y")
			for restart := range 3 {
				if restart == 1 {
					srv.Shutdown(soon(t)) // with a checkpoint
				} else {
					srv.Close() // without one, as kill -9
				}
				up.ended(t)
				srv = &Server{Log: log, now: now}
				up = serve(t, srv)
				if w := up.peer(t).hello(hello{client: "alice", epoch: a.epoch, next: 3}); w.last != 2 {
					t.Errorf("alice: %+v", w)
				}
				if w := up.peer(t).hello(hello{client: "mallory", epoch: m.epoch, next: 2}); w.last != 1 {
					t.Errorf("mallory: %+v", w)
				}
			}
		})
	}
}

// TestClockIsReported has a step of the wall clock be counted and accepted by an operator.
func TestClockIsReported(t *testing.T) {
	wall := time.Now().UnixMilli()
	up := recovered(t, &Server{Log: new(Memory), now: func() (int64, int64) { return wall, 0 }})
	if up.AcceptClock() {
		t.Error("a step was accepted and there is none")
	}
	wall += 10 * day
	up.tick()
	if st := up.Stats(); !st.ClockOff || st.ClockSteps != 1 || st.ClockAhead != 10*24*time.Hour {
		t.Errorf("%+v", st)
	}
	if !up.AcceptClock() {
		t.Error("the step was not accepted")
	}
	if st := up.Stats(); st.ClockOff || st.ClockSteps != 1 || st.ClockAhead != 0 || st.LogTime.UnixMilli() != wall {
		t.Errorf("%+v", st)
	}
}
