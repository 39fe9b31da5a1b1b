package gateway

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/sys"
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
			if err := c.Close(soon(t)); err != nil {
				t.Error(err)
			}
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
			waitFor(t, "a record that waits for room", func() bool {
				up.queue.mu.Lock()
				defer up.queue.mu.Unlock()
				return up.queue.drained != nil && up.full.Load()
			})
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
			q.logIsFull()
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
