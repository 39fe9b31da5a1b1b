package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
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
	works(t)(r.Open(soon(t)))
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

// TestRetainAge: what is older than its age in running time is deleted, also where nothing comes any more, and nothing before.
// TestClockHistories knows what is older while the wall clock jumps.
func TestRetainAge(t *testing.T) {
	var log Memory
	var ran atomic.Int64
	up := serve(t, &Server{
		Log: &log, RetainAge: 3 * time.Hour, retainTime: time.Hour, positionTime: time.Millisecond,
		now: func() (int64, int64) { return 1_800_000_000_000 + ran.Load(), ran.Load() },
	})
	up.submits(t, "a", 3)
	begins := func() uint64 { first, _, _ := log.Bounds(); return first }
	stored := up.newest()
	for range 12 {
		ran.Add(hour / 2)
		before := up.Stats().Envelopes
		up.tick()
		waitFor(t, "the clock", func() bool { return ran.Load()%hour > 0 || up.Stats().Envelopes > before })
		must(t, up.retain(soon(t)))
		if gone := begins() > stored; gone && ran.Load() < 3*hour {
			t.Errorf("after %v the record is deleted", time.Duration(ran.Load())*time.Millisecond)
		}
	}
	waitFor(t, "the record to be deleted", func() bool {
		up.tick()
		must(t, up.retain(soon(t)))
		return begins() > stored
	})
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
	works(t)(r.Open(soon(t)))
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
	reports(t, <-trimmed)
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
	works(t)(r.Open(soon(t)))
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

// TestReaderExpires: a reader without a time of its own keeps the log for Server.ReaderExpiry of running time, by
// default 30 days, over restarts.
func TestReaderExpires(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ expiry, own, want time.Duration }{
		{want: 30 * day},
		{expiry: 8 * day, want: 8 * day},
		{expiry: 8 * day, own: 40 * day, want: 40 * day},
		{expiry: -1},
		{expiry: -1, own: 4 * time.Hour, want: 4 * time.Hour},
	} {
		t.Run(fmt.Sprint(c.expiry, c.own), func(t *testing.T) {
			var ran atomic.Int64
			var log Memory
			start := func() *served {
				return serve(t, &Server{Log: &log, ReaderExpiry: c.expiry, now: func() (int64, int64) { return 1_800_000_000_000 + ran.Load(), ran.Load() }})
			}
			up := start()
			must(t, up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: "copy", Start: FromFirst, Expire: c.own}))
			at := func(away time.Duration, holds bool) {
				t.Helper()
				ran.Store(away.Milliseconds())
				up.tick()
				if st := up.state("copy"); st.Holds != holds || st.Expire != c.want || st.Away != away {
					t.Errorf("after %v: %+v", away, st)
				}
			}
			if c.want == 0 {
				at(10_000*day, true)
				return
			}
			at(c.want/2, true)
			must(t, up.Shutdown(soon(t))) // the checkpoint has the time away
			up = start()
			must(t, up.Recover(soon(t)))
			at(c.want-time.Second, true)
			at(c.want, false)
			if _, err := up.reader(t, "copy", Stored).Open(soon(t)); err != nil { // back again
				t.Fatal(err)
			}
			up.tick()
			if st := up.state("copy"); !st.Holds || !st.Connected {
				t.Errorf("connected again: %+v", st)
			}
		})
	}
}

// TestReadersAreLimited: what is one share too many is refused.
func TestReadersAreLimited(t *testing.T) {
	up := serve(t, &Server{Log: &Memory{}})
	create := func(name string, shares int) error {
		return up.OrderReader(soon(t), ReaderOrder{Do: "create", Name: name, Shares: shares, Start: FromFirst})
	}
	for i := range mostCursors/maxShares - 1 {
		must(t, create(fmt.Sprint("kept", i), maxShares))
	}
	must(t, create("a", maxShares-1))
	if err := create("b", 2); !errors.Is(err, ErrTooMany) {
		t.Errorf("an order: %v", err)
	}
	must(t, create("b", 1))
	if _, err := up.reader(t, "c", FromFirst).Open(soon(t)); !errors.Is(err, ErrTooMany) {
		t.Errorf("a reader: %v", err)
	}
	must(t, up.OrderReader(soon(t), ReaderOrder{Do: "remove", Name: "b"}))
	if _, err := up.reader(t, "d", FromFirst).Open(soon(t)); err != nil {
		t.Error(err)
	}
}
