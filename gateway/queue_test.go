package gateway

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestQueueIsFair has heavy clients keep the queue full, and light ones send now and then: a light client's record is
// in one of the next two packs, each client's records stay in order, and the counts end at zero.
func TestQueueIsFair(t *testing.T) {
	for seed := range uint64(10) {
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
			if _, err := q.accept(l, t.Context, l.session.accepted+1, data[:size], noAnswer); err != nil {
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
		_, err := q.accept(l, t.Context, 1, nil, noAnswer)
		accepted <- err
	}()
	waitFor(t, "a record that waits for room", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.drained != nil
	})
	q.release(p)
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

func noAnswer(*answer) {}
