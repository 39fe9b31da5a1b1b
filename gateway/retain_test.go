package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// sizeOf is the size of a log in memory.
func sizeOf(t testing.TB, log *Memory) int64 {
	t.Helper()
	measure, err := log.Measure(soon(t))
	must(t, err)
	first, _, err := log.Bounds()
	must(t, err)
	_, size := measure(first)
	return size
}

// TestRetainSize keeps a log small, unless a reader needs what it has. No client loses its session to that.
func TestRetainSize(t *testing.T) {
	const limit = 40 << 10
	var log Memory
	settings := func(hard bool) *Server {
		return &Server{Log: &log, RetainSize: limit, RetainHard: hard, Checkpoint: 20, retainTime: time.Millisecond, positionTime: time.Millisecond}
	}
	up := serve(t, settings(false))
	quiet := up.peer(t)
	w := quiet.hello(first("quiet"))
	quiet.stores(1, 3)
	fill := func(u *served) {
		for i := range 10 {
			u.submits(t, fmt.Sprint("c", i), 1000)
		}
	}
	small := func(u *served) func() bool { return func() bool { return sizeOf(t, &log) <= limit+limit/4 } }
	fill(up)
	waitFor(t, "the log to become small", small(up))
	if begins, _, _ := log.Bounds(); begins < 5 {
		t.Errorf("the log begins at position %d", begins)
	}

	r := up.reader(t, "slow", FromNext)
	if _, err := r.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	fill(up)
	waitFor(t, "the reader to hold the log", func() bool { return up.Stats().Retention.Held > limit })
	if size := sizeOf(t, &log); size < 3*limit {
		t.Errorf("the log has %d bytes although a reader needs more", size)
	}
	for st := up.state("slow"); st.LagRecords == 0 || st.LagBytes < limit || !st.Holds; st = up.state("slow") {
		waitFor(t, "the lag", func() bool { return up.state("slow").LagRecords > 0 })
	}
	got := r.take(t, 10_000)
	if len(got) != 10 {
		t.Errorf("%d clients", len(got))
	}
	waitFor(t, "the log to become small after the reader", small(up))
	waitFor(t, "no lag", func() bool { st := up.state("slow"); return st.LagRecords == 0 && st.LagBytes == 0 && st.LagAge == 0 })
	r.Close()
	must(t, up.Shutdown(soon(t)))

	hard := serve(t, settings(true))
	fill(hard)
	waitFor(t, "the log to become small in spite of the reader", small(hard))
	waitFor(t, "what has overrun it", func() bool { return hard.Stats().Retention.Overrun > 0 })
	late := hard.reader(t, "slow", Stored)
	b, err := late.Next(soon(t))
	if err != nil || b.Gap == nil || b.Gap.Reason != Trimmed || hard.Stats().Gaps == 0 {
		t.Errorf("the reader gets %+v, %v", b, err)
	}
	again := hard.peer(t)
	if got := again.hello(hello{epoch: w.epoch, next: 4, client: "quiet"}); got.last != 3 {
		t.Errorf("the quiet client resumes with %+v", got)
	}
}

// TestExpire: a reader that was away for its time to expire no longer holds the log, across restarts too; it
// is told what it missed.
func TestExpire(t *testing.T) {
	var log Memory
	var mu sync.Mutex
	running := int64(0)
	start := func() *served {
		return serve(t, &Server{
			Log: &log, RetainSize: 10 << 10, Checkpoint: 20, retainTime: time.Millisecond, positionTime: time.Millisecond,
			now: func() (int64, int64) {
				mu.Lock()
				defer mu.Unlock()
				return 1_800_000_000_000 + running, running
			},
		})
	}
	up := start()
	up.submits(t, "a", 10)
	must(t, up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: "copy", Start: FromFirst, Expire: 2 * time.Hour}))
	for round := range 3 {
		for i := range 5 {
			up.submits(t, fmt.Sprint("c", i), 500)
		}
		held := up.state("copy").Holds
		if begins, _, _ := log.Bounds(); held != (round < 2) || held && begins != 1 {
			t.Fatalf("round %d: the reader holds the log: %v, which begins at %d", round, held, begins)
		}
		mu.Lock()
		running += hour + 1
		mu.Unlock()
		if err := up.Shutdown(soon(t)); err != nil { // with a checkpoint, which has the time away
			t.Fatal(err)
		}
		up = start()
		must(t, up.Recover(soon(t)))
	}
	waitFor(t, "the log to be trimmed", func() bool { begins, _, _ := log.Bounds(); return begins > 10 })
	if b, err := up.reader(t, "copy", Stored).Next(soon(t)); err != nil || b.Gap == nil {
		t.Errorf("%+v, %v", b, err)
	}
}

// aged is a log that checks that nothing is trimmed before its age.
type aged struct {
	*Memory
	t      *testing.T
	now    func() int64 // running time
	age    int64
	mu     sync.Mutex
	stored map[uint64]int64 // by position
}

func (a *aged) Append(ctx context.Context, envelope []byte) (uint64, error) {
	pos, err := a.Memory.Append(ctx, envelope)
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stored[pos] = now
	return pos, err
}

func (a *aged) Trim(ctx context.Context, to uint64) error {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.Read(ctx, 0, func(pos uint64, b []byte) error {
		e, err := journal.Decode(b)
		for range e.Records() {
			if ago := now - a.stored[pos]; pos < to && ago < a.age {
				a.t.Errorf("a record of %v ago is deleted, before its age of %v", time.Duration(ago)*time.Millisecond, time.Duration(a.age)*time.Millisecond)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Memory.Trim(ctx, to)
}

// TestRetainAge deletes by age while the wall clock jumps forward and back: nothing before its age in running
// time, and what is older goes.
func TestRetainAge(t *testing.T) {
	const age = 3 * hour
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	wall, mono := int64(1_800_000_000_000), int64(0)
	log := &aged{Memory: &Memory{}, t: t, age: age, stored: map[uint64]int64{}}
	s := &Server{Log: log, RetainAge: time.Duration(age) * time.Millisecond, Checkpoint: 1000, retainTime: time.Millisecond, positionTime: time.Millisecond,
		now: func() (int64, int64) {
			mu.Lock()
			defer mu.Unlock()
			return wall, mono
		}}
	log.now = func() int64 {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return s.readClock()
	}
	up := serve(t, s)
	deleted := uint64(0)
	for i := range testrun.Sized(60, 1000) {
		up.submits(t, fmt.Sprint("c", i%7), 3)
		mu.Lock()
		passed := random.Int64N(hour)
		mono += passed
		wall += passed
		switch random.IntN(8) {
		case 0:
			wall += 10 * day
		case 1:
			wall -= 30 * day
		case 2:
			wall = 1_800_000_000_000 + mono
		}
		mu.Unlock()
		deleted = max(deleted, up.Stats().Retention.First)
	}
	mu.Lock()
	wall, mono = 1_800_000_000_000+2*mono+100*day, mono+100*day // all clocks right again, and everything is old
	mu.Unlock()
	must(t, up.AcceptClock(soon(t)))
	mu.Lock()
	wall, mono = wall+day, mono+day
	mu.Unlock()
	s.readers.mu.Lock()
	newest := s.readers.newest // what follows it, such as a checkpoint, has no age
	s.readers.mu.Unlock()
	waitFor(t, "everything old to be deleted", func() bool {
		s.tick() // a quiet server stores a checkpoint a minute at most
		begins, _, _ := log.Bounds()
		return begins >= newest
	})
	up.submits(t, "c0", 1)
}

// TestSessionsOutliveRecords has many clients resume whose records are gone.
func TestSessionsOutliveRecords(t *testing.T) {
	clients := testrun.Sized(700, 100_000)
	var log Memory
	up := serve(t, &Server{Log: &log, RetainSize: 64 << 10, Checkpoint: 50, retainTime: time.Millisecond})
	epochs := make([]uint64, clients)
	for i := range clients {
		p := up.peer(t)
		epochs[i] = p.hello(first(fmt.Sprint("c", i))).epoch
		p.stores(1, 2)
		p.nc.Close()
	}
	up.submits(t, "last", 1000)
	waitFor(t, "the records to be deleted", func() bool { return up.Stats().Retention.First > uint64(clients) })
	if each := up.Stats().Bytes / uint64(clients); each > 1000 { // half of them records and what envelopes cost
		t.Errorf("%d bytes were stored for each client: checkpoints are too frequent", each)
	}
	up.Close()
	again := serve(t, &Server{Log: &log})
	for i := range clients {
		p := again.peer(t)
		if w := p.hello(hello{epoch: epochs[i], next: 3, client: fmt.Sprint("c", i)}); w.last != 2 {
			t.Fatalf("client %d: %+v", i, w)
		}
		p.nc.Close()
	}
}

// TestSharedRetention has two servers trim one log while a reader moves back at random: it gets everything that
// the log has, and is told of the rest.
func TestSharedRetention(t *testing.T) {
	var memory Memory
	var servers [2]*served
	open := views(&memory)
	for i := range servers {
		servers[i] = serve(t, &Server{
			Log: open(), Shared: true, Checkpoint: 10, RetainSize: 20 << 10, RetainHard: true, retainTime: time.Millisecond, positionTime: time.Millisecond,
		})
	}
	ctx, cancel := context.WithCancel(soon(t))
	var feeding sync.WaitGroup
	for i, up := range servers {
		feeding.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				up.submits(t, fmt.Sprint("c", i), 50)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	gaps := 0
	waitFor(t, "a trim", func() bool { begins, _, _ := memory.Bounds(); return begins > 1 })
	for range testrun.Sized(50, 1000) {
		up := servers[random.IntN(2)]
		begins, next, _ := memory.Bounds()
		r := up.reader(t, "copy", FromNumber)
		r.Anew, r.Number = true, (begins+random.Uint64N(next-begins))<<indexBits
		if random.IntN(2) == 0 {
			r.Number = 1 << indexBits
		}
		at := r.Number
		for range 3 {
			b, err := r.Next(soon(t))
			must(t, err)
			if b.Gap != nil {
				gaps++
				if b.Gap.From != at {
					t.Fatalf("the gap begins at %d, the reader is at %d", b.Gap.From, at)
				}
			} else if at>>indexBits < uint64(b.Messages[0].Number>>indexBits) { // only envelopes without records between
				e := uint64(0)
				memory.Read(ctx, 0, func(pos uint64, envelope []byte) error {
					if d, err := journal.Decode(envelope); err == nil && pos >= (at+lastIndex)>>indexBits && pos < b.Messages[0].Number>>indexBits {
						for range d.Records() {
							e++
						}
					}
					return nil
				})
				if e > 0 {
					t.Fatalf("%d records between %d and %d were left out", e, at>>indexBits, b.Messages[0].Number>>indexBits)
				}
			}
			at = b.Position.Number + 1
			r.Ack(b.Position)
		}
		r.Close()
	}
	cancel()
	feeding.Wait()
	if gaps == 0 {
		t.Error("no gap was told")
	}
}

// TestReaderWebSocket reads over a WebSocket.
func TestReaderWebSocket(t *testing.T) {
	up := serve(t, &Server{Log: &Memory{}, positionTime: time.Millisecond})
	up.submits(t, "a", 3)
	addr, ended := serveSockets(t, up.Server)
	t.Cleanup(func() { up.Close(); <-ended })
	p := dialSocket(t, addr)
	p.send(2, wire.Packet{Command: wire.Conn, ID: 5, Content: (&opening{start: FromFirst, name: "copy", shares: 1}).append(nil)})
	w, err := parseReadWelcome(p.must(wire.ConnAck, 5, wire.OK).Content)
	must(t, err)
	last, got := uint64(0), 0
	for got < 3 {
		_, msg, err := p.c.Read(soon(t), nil)
		must(t, err)
		d, err := wire.Parse(msg)
		var b Batch
		if err != nil || d.Command != wire.Deliver || !b.parse(d.Content) {
			t.Fatalf("%+v, %v", d, err)
		}
		got, last = got+len(b.Messages), d.ID
	}
	p.send(2, wire.Packet{Command: wire.Submit, ID: 6, Content: acknowledgement{w.generation, last, 0}.append(nil)})
	p.must(wire.SubmitAck, 6, wire.OK)
	up.placed(t, "copy", last)
	p.send(2, wire.Packet{Command: wire.Conn, ID: 7})
	p.must(wire.ConnAck, 7, wire.OK)
	p.send(2, wire.Packet{Command: wire.Submit, ID: 8, Content: acknowledgement{w.generation, last + 1, 0}.append(nil)})
	p.must(wire.SubmitAck, 8, resultAhead)
	p.closed()
}

// narrow is a log in memory that has no space beyond a size, but a reserve.
type narrow struct {
	*Memory
	t     *testing.T
	limit int64
	spent atomic.Bool  // the reserve has no space either
	tried atomic.Int64 // how often it was asked for then
}

func (n *narrow) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if n.spent.Load() || sizeOf(n.t, n.Memory)+int64(len(envelope)) > n.limit {
		return 0, journal.ErrNoSpace
	}
	return n.Memory.Append(ctx, envelope)
}

func (n *narrow) AppendReserved(ctx context.Context, envelope []byte) (uint64, error) {
	if n.spent.Load() {
		n.tried.Add(1)
		return 0, journal.ErrNoSpace
	}
	return n.Memory.Append(ctx, envelope)
}

// TestReaderFreesFullLog: a reader that is behind fills the log, and honed acknowledges nothing more. When the
// reader has caught up, retention deletes, and honed goes on.
func TestReaderFreesFullLog(t *testing.T) {
	log := &narrow{Memory: &Memory{}, t: t, limit: 400 << 10}
	up := serve(t, &Server{
		Log: log, RetainSize: 50 << 10, Checkpoint: 20, retry: time.Millisecond, retainTime: time.Millisecond, positionTime: time.Millisecond,
	})
	r := up.reader(t, "slow", FromFirst)
	if _, err := r.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	var feeding sync.WaitGroup
	feeding.Go(func() { up.submits(t, "a", 20_000) })
	waitFor(t, "the log to be full", func() bool { return up.Stats().Full })
	if n := len(r.take(t, 20_000)["a"]); n != 20_000 {
		t.Errorf("%d records", n)
	}
	feeding.Wait()
	if up.Stats().Retention.Trims == 0 {
		t.Error("nothing was deleted")
	}
}

// TestTrimOutlivesFullReserve: a Trim that came while not even the reserve had space is carried out when there is
// some again. Retention waits for it, and would else delete nothing more.
func TestTrimOutlivesFullReserve(t *testing.T) {
	log := &narrow{Memory: &Memory{}, t: t, limit: 1 << 30}
	up := serve(t, &Server{Log: log, RetainSize: 1 << 40, Checkpoint: 5, CheckpointBytes: 1 << 30, retry: time.Millisecond, retainTime: time.Hour})
	for i := range 20 {
		up.submits(t, fmt.Sprint("c", i), 1)
	}
	log.spent.Store(true)
	trimmed := make(chan error, 1)
	go func() { trimmed <- up.Trim(soon(t), 1<<60) }()
	waitFor(t, "attempts to make room", func() bool { return log.tried.Load() > 1 })
	log.spent.Store(false)
	if err := <-trimmed; err != nil {
		t.Error(err)
	}
}

// TestHeldByTheLog: what a reader has acknowledged, and the log does not know yet, is not deleted: after a crash
// it comes again.
func TestHeldByTheLog(t *testing.T) {
	var log Memory
	start := func() *served {
		return serve(t, &Server{Log: &log, RetainSize: 1 << 10, Checkpoint: 3, CheckpointBytes: 1 << 30, retainTime: time.Hour, positionTime: time.Hour})
	}
	up := start()
	r := up.reader(t, "copy", FromFirst)
	if _, err := r.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range 40 {
		up.submits(t, fmt.Sprint("c", i), 5)
		n += 5
	}
	r.take(t, n)
	waitFor(t, "the acknowledgement", func() bool { return up.state("copy").Position.Number == r.acked.Number })
	must(t, up.retain(soon(t)))
	up.Close()
	if b, err := start().reader(t, "copy", Stored).Next(soon(t)); err != nil || b.Gap != nil {
		t.Errorf("%+v, %v", b.Gap, err)
	}
}
