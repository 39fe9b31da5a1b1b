package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// view is one server's side of a log in memory that others append to as well.
type view struct {
	*Memory
	all  *sync.Mutex // of all views
	next uint64      // what this one has read to
	gate *gate       // what Append waits for
}

func (v *view) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if _, err := v.gate.Append(ctx, envelope); err != nil {
		return 0, err
	}
	v.all.Lock()
	defer v.all.Unlock()
	if _, next, _ := v.Bounds(); next != v.next {
		return 0, journal.ErrConflict
	}
	v.next++
	return v.Memory.Append(ctx, envelope)
}

func (v *view) Follow(ctx context.Context, from uint64, each func(uint64, []byte) error) error {
	v.all.Lock()
	defer v.all.Unlock()
	_, v.next, _ = v.Bounds()
	return v.Memory.Read(ctx, from, each)
}

// views makes views of a log.
func views(memory *Memory) func() *view {
	var all sync.Mutex
	return func() *view { return &view{Memory: memory, all: &all, next: 1, gate: newGate()} }
}

// twoOf serves a log by two servers.
func twoOf(t *testing.T, memory *Memory) (a *view, left, taken *served) {
	open := views(memory)
	a = open()
	return a, serve(t, &Server{Log: a, Shared: true}), serve(t, &Server{Log: open(), Shared: true})
}

// TestShared has clients move between two servers of one log at any moment, also while
// the one that they leave still has records that it has not stored, and stores them later.
func TestShared(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var (
		memory  Memory
		open    = views(&memory)
		servers [2]*served
		logs    [2]*view
	)
	for i := range servers {
		logs[i] = open()
		servers[i] = serve(t, &Server{Log: logs[i], Shared: true, Checkpoint: 7})
	}
	clients, each := 4, testrun.Sized(2000, 10000)
	ctx, cancel := context.WithCancel(soon(t))
	var feeding, moving sync.WaitGroup
	for n := range clients {
		var at atomic.Int32
		at.Store(int32(n % 2)) // so that both have some, however quick the clients are
		var mu sync.Mutex
		var open net.Conn
		c := &Client{ID: fmt.Sprint("c", n), Addrs: []string{"either"}, Window: 50}
		c.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			nc, err := dial(ctx, servers[at.Load()].addr)
			mu.Lock()
			defer mu.Unlock()
			open = nc
			return nc, err
		}
		feeding.Go(func() {
			for i := range each {
				if _, err := c.SubmitAsync(soon(t), fmt.Append(nil, i), nil); err != nil {
					t.Error(err)
					break
				}
			}
			reports(t, c.Close(soon(t)))
		})
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		moving.Go(func() {
			for moved := 0; ctx.Err() == nil; moved++ {
				to := at.Load()
				if random.IntN(3) > 0 {
					to = 1 - to
					logs[1-to].gate.set(random.IntN(2) == 0, nil) // the one that is left may hang
					logs[to].gate.set(false, nil)
				}
				at.Store(to)
				mu.Lock()
				if open != nil {
					open.Close()
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(5+random.IntN(20)) * time.Millisecond):
				}
				logs[0].gate.set(false, nil)
				logs[1].gate.set(false, nil)
			}
		})
	}
	feeding.Wait()
	cancel()
	moving.Wait()
	for _, up := range servers {
		reports(t, up.Shutdown(soon(t)))
	}
	got := records(t, &memory)
	for n := range clients {
		of := got[fmt.Sprint("c", n)]
		if len(of) != each {
			t.Errorf("client %d: %d records of %d", n, len(of), each)
		}
		for i, data := range of {
			if data != fmt.Sprint(i) {
				t.Fatalf("client %d: record %d is %s", n, i, data)
			}
		}
	}
	a, b := servers[0].Stats(), servers[1].Stats()
	t.Logf("%d and %d records stored, %d and %d duplicates", a.Records, b.Records, a.Duplicates, b.Duplicates)
	if a.Records == 0 || b.Records == 0 {
		t.Error("one server has done all the work")
	}
}

// TestSharedDropsReceived is the same at level received, which loses what was acknowledged and not
// stored: the first server stores none of it behind the second's back, and all of its others'.
func TestSharedDropsReceived(t *testing.T) {
	var memory Memory
	a, left, taken := twoOf(t, &memory)
	p, stays := left.peer(t), left.peer(t)
	w := p.hello(hello{client: "moves", next: 1, level: Received})
	stays.hello(hello{client: "stays", next: 1, level: Received})
	a.gate.set(true, nil)
	p.submit(1, "lost")
	<-a.gate.tried
	for _, next := range []struct {
		from *peer
		seq  uint64
		data string
	}{{p, 2, "lost"}, {p, 3, "lost"}, {stays, 1, "x"}, {stays, 2, "y"}, {p, 4, "lost"}, {stays, 3, "z"}} {
		next.from.submit(next.seq, next.data)
		if next.seq == 2 && next.from == p {
			p.must(wire.SubmitAck, 1, wire.OK)
		}
		next.from.must(wire.SubmitAck, next.seq, wire.OK)
	}
	q := taken.peer(t)
	if v := q.hello(hello{epoch: w.epoch, next: 5, client: "moves", level: Received}); v.last != 0 {
		t.Fatalf("%+v", v)
	}
	q.stored(5, "stored")
	a.gate.set(false, nil)
	p.closed()
	waitFor(t, "the rest", func() bool { return left.Stats().Queued == 0 && taken.Stats().Queued == 0 })
	if got := fmt.Sprint(records(t, &memory)); got != "map[moves:[stored] stays:[x y z]]" {
		t.Error(got)
	}
}

// stores has a client submit and wait for n records.
func (p *peer) stores(from, n uint64) {
	p.t.Helper()
	for seq := from; seq < from+n; seq++ {
		p.stored(seq, fmt.Sprint(seq))
	}
}

// sharing makes servers of one log.
func sharing(memory *Memory) func() *Server {
	open := views(memory)
	return func() *Server { return &Server{Log: open(), Shared: true, Checkpoint: 5} }
}

// TestTrimOvertakes trims a log beyond what another server has read of it. That one may have missed
// anything: it stores nothing more, and a start knows everything.
func TestTrimOvertakes(t *testing.T) {
	var memory Memory
	open := sharing(&memory)
	trims, behind := serve(t, open()), serve(t, open())
	q := behind.peer(t)
	q.hello(first("b"))
	p := trims.peer(t)
	p.hello(first("a"))
	p.stores(1, 20)
	must(t, trims.Trim(soon(t), 1<<60))
	_, before, _ := memory.Bounds()
	q.submit(1, "x")
	q.closed()
	var trimmed *journal.TrimmedError
	if err := behind.ended(t); !errors.As(err, &trimmed) {
		t.Errorf("the server that is behind ends with %v", err)
	}
	if _, now, _ := memory.Bounds(); now != before {
		t.Errorf("it has stored something: the next position was %d and is %d", before, now)
	}
	starts := open()
	must(t, starts.Recover(soon(t)))
	defer starts.Close()
}

// overtaken is a log that is trimmed after a start has asked for its bounds.
type overtaken struct {
	*view
	once sync.Once
	trim func()
}

func (o *overtaken) Bounds() (first, next uint64, err error) {
	first, next, err = o.view.Bounds()
	o.once.Do(o.trim)
	return first, next, err
}

// TestStartWhileTrimmed: a start that another server's Trim overtakes begins again.
func TestStartWhileTrimmed(t *testing.T) {
	var memory Memory
	open := views(&memory)
	trims := serve(t, &Server{Log: open(), Shared: true, Checkpoint: 5})
	p := trims.peer(t)
	p.hello(first("a"))
	p.stores(1, 3)
	log := &overtaken{view: open(), trim: func() {
		p.stores(4, 20)
		reports(t, trims.Trim(soon(t), 1<<60))
	}}
	starts := &Server{Log: log, Shared: true}
	must(t, starts.Recover(soon(t)))
	defer starts.Close()
	if known := starts.sessions.byClient["a"]; known == nil || known.durable.Load() != 23 {
		t.Errorf("%+v", known)
	}
}
