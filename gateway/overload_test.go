package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
)

// slow is a log that stores few records for one envelope's time.
type slow struct {
	Memory
	pace *time.Ticker
}

func (s *slow) Append(ctx context.Context, envelope []byte) (uint64, error) {
	<-s.pace.C
	return s.Memory.Append(ctx, envelope)
}

// TestOverload offers many times what the log takes: all of it is acknowledged in the end,
// nobody is refused, and never more waits than may.
func TestOverload(t *testing.T) {
	log := &slow{pace: time.NewTicker(5 * time.Millisecond)}
	defer log.pace.Stop()
	const most, clients, each = 512, 40, 500
	up := serve(t, &Server{Log: log, Limits: engine.Limits{TotalInFlight: most, InFlight: 100}})
	ctx, cancel := context.WithCancel(context.Background())
	var watching, feeding sync.WaitGroup
	worst := 0
	watching.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			worst = max(worst, up.Stats().Queued)
			<-tick.C
		}
	})
	for n := range clients {
		c := &Client{Addrs: []string{up.addr}, ID: fmt.Sprint("c", n)}
		feeding.Go(func() {
			for i := range each {
				if _, err := c.SubmitAsync(soon(t), fmt.Append(nil, i), nil); err != nil {
					t.Error(err)
					break
				}
			}
			reports(t, c.Close(soon(t)))
			if st := c.Stats(); st.Acknowledged != each || st.Connected != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
	feeding.Wait()
	cancel()
	watching.Wait()
	// A connection that has never asked may have a request taken beyond the limit, every
	// visit may promise some ahead (engine.Limits.TotalInFlight), and what has just been
	// acknowledged counts a moment longer.
	if worst > 2*most+most/4+8*clients {
		t.Errorf("%d records waited; %d may", worst, most)
	}
	t.Logf("%d records waited at most", worst)
	for client, got := range records(t, log) {
		for i, data := range got {
			if data != fmt.Sprint(i) {
				t.Fatalf("%s: record %d is %s", client, i, data)
			}
		}
		if len(got) != each {
			t.Errorf("%s: %d records", client, len(got))
		}
	}
}

// TestWaitForRoomEnds: while the log has no space, connections whose records wait for room in the queue end with their
// clients, and when they are revoked.
func TestWaitForRoomEnds(t *testing.T) {
	t.Parallel() // it waits more than it works
	const token = "the-token-of-the-client"
	left, none := "a "+token+"\n", "b "+token+"\n"
	tokens := tokensWith(t, left)
	for name, leave := range map[string]func(up *served, p *peer){
		"reset": func(_ *served, p *peer) {
			p.nc.(*net.TCPConn).SetLinger(0)
			p.nc.Close()
		},
		"closed": func(_ *served, p *peer) { p.nc.Close() },
		"revoked": func(up *served, p *peer) {
			tokens.replace(t, none)
			if n := up.revoke(); n != 1 {
				t.Errorf("%d connections ended", n)
			}
			p.closed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			tokens.replace(t, left)
			log := newGate()
			up := serve(t, &Server{Log: log, Tokens: tokens, QueueBytes: 1000, retry: time.Millisecond, Limits: engine.Limits{StallTime: time.Second}})
			p := up.peer(t)
			p.hello(hello{next: 1, client: "a", token: token})
			log.set(false, journal.ErrNoSpace)
			p.submit(1, strings.Repeat("x", 2000))
			p.submit(2, "y")
			waitFor(t, "a record that waits for room", up.locked(func() bool { return up.queue.drained != nil && up.full.Load() }))
			if leave(up, p); sys.Polls || name == "revoked" {
				waitFor(t, "the end of the connection", func() bool { return up.EngineStats().Open == 0 })
			}
			if !up.full.Load() {
				t.Error("the log has space")
			}
		})
	}
}

// TestHalfClosedWaitsForRoom: a client that has closed its side is owed its answers while the log stores, however slowly.
func TestHalfClosedWaitsForRoom(t *testing.T) {
	var full atomic.Bool
	q := queue{bytes: 1}
	q.prepare(1, full.Load, nil)
	l := &link{session: &session{}}
	l.session.link = l
	halfClosed, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct{ full, gone bool }{{false, false}, {true, true}} {
		gone := make(chan bool)
		go func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			gone <- q.awaitRoom(l, halfClosed)
		}()
		waitFor(t, "a record that waits", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.drained != nil
		})
		if full.Store(c.full); c.full {
			q.lookAgain()
		} else {
			q.release(&pack{bytes: 1})
		}
		if got := <-gone; got != c.gone {
			t.Errorf("full %v: gone %v", c.full, got)
		}
		q.mu.Lock()
		q.bytes = 1
		q.mu.Unlock()
	}
}

// TestQueueIsFair has heavy clients keep the queue full, and light ones send now and then: a light client's record is
// in one of the next two packs, each client's records stay in order, and the counts end at zero.
func TestQueueIsFair(t *testing.T) {
	for seed := range uint64(testrun.Sized(3, 10)) {
		r := rand.New(rand.NewPCG(seed, 26))
		var q queue
		q.prepare(64<<20, func() bool { return false }, func() (int64, int64) { return 0, 0 })
		links := make([]*link, 4+40) // the first four are heavy
		for i := range links {
			links[i] = &link{session: &session{client: fmt.Sprint(i)}, level: Level(int(Received) + r.IntN(2)*int(Disk-Received))}
			links[i].session.link = links[i]
		}
		stored := map[*session]uint64{}
		store := func() {
			p := q.take()
			for _, e := range p.entries {
				if e.seq != stored[e.session]+uint64(e.records) {
					t.Fatalf("seed %d: client %s: %d after %d", seed, e.session.client, e.seq, stored[e.session])
				}
				stored[e.session] = e.seq
			}
			q.release(p)
		}
		data := make([]byte, 60<<10)
		put := func(l *link, size int) {
			if err := q.accept(l, t.Context, l.session.accepted+1, data[:size], noAnswer); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		longest := 0
		for range 1000 {
			for _, l := range links[:4] {
				for !q.crowded(l.session) {
					put(l, 1+r.IntN(len(data)))
				}
			}
			light := links[4+r.IntN(40)]
			put(light, r.IntN(200))
			if at := int(light.session.pack - q.taken); at > 1 {
				t.Fatalf("seed %d: a light client's record waits for %d of %d envelopes", seed, at, len(q.waiting))
			}
			longest = max(longest, len(q.waiting))
			if r.IntN(3) == 0 {
				store()
			}
		}
		for len(q.waiting) > 0 {
			store()
		}
		if longest < 20 {
			t.Errorf("seed %d: only %d envelopes waited", seed, longest)
		}
		for _, l := range links {
			if s := l.session; s.queued != 0 || stored[s] != s.accepted {
				t.Errorf("seed %d: client %s: %d bytes are queued, %d of %d stored", seed, s.client, s.queued, stored[s], s.accepted)
			}
		}
		if q.bytes != 0 || q.records != 0 {
			t.Errorf("seed %d: %d bytes, %d records", seed, q.bytes, q.records)
		}
	}
}

// TestQueueKeepsRoom: what one client may have in a queue that is half full leaves the other half to others, and the
// client's next record waits until some are stored.
func TestQueueKeepsRoom(t *testing.T) {
	var q queue
	q.prepare(64<<20, func() bool { return false }, func() (int64, int64) { return 0, 0 })
	heavy, light := newSession("heavy", 1, 0), newSession("light", 1, 0)
	heavy.queued, q.bytes = q.mostOf()+1, q.most/2
	if !q.crowded(heavy) || q.crowded(light) {
		t.Error("a client that fills half of the queue goes on, or another does not")
	}
	if q.bytes--; q.crowded(heavy) {
		t.Error("one client alone may not fill half of the queue")
	}
	l := &link{session: heavy, level: Disk}
	heavy.link = l
	p := q.packFor(heavy, 1, 1)
	q.take()
	p.bytes, p.held = 1, []held{{heavy, 1}}
	q.bytes++
	accepted := make(chan error)
	go func() {
		accepted <- q.accept(l, t.Context, 1, nil, noAnswer)
	}()
	waitFor(t, "a record that waits for room", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.drained != nil
	})
	q.release(p)
	reports(t, <-accepted)
}

func noAnswer() (r framed.Reply) { return r }
