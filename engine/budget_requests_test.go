package engine

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// inPlaces returns claims of connections without an owner.
func inPlaces(b *requestBudget, sh *shard, n int) (all []*claim) {
	for i := range n {
		c := &claim{sh: sh, key: uint64(i), since: 1}
		if !b.wait(c) {
			panic("inPlaces needs an exhausted budget")
		}
		all = append(all, c)
	}
	return all
}

func granted(all []*claim) (n int) {
	for i, c := range all {
		if !c.waits() {
			if n != i {
				return -1 // an earlier one waits
			}
			n++
		}
	}
	return n
}

// No claim continues before half of the limit is free, then those that have waited
// longest continue, as many as there is room for.
func TestRequestBudget(t *testing.T) {
	s := bare(Limits{TotalInFlight: 10})
	b, sh := &s.requests, s.bareShard()
	if b.add(9); b.full.Load() {
		t.Fatal("full below the limit")
	}
	if b.wait(&claim{sh: sh}) {
		t.Fatal("a claim waits although there is room")
	}
	if b.add(2); !b.full.Load() {
		t.Fatal("not full at the limit")
	}
	all := inPlaces(b, sh, 12)
	if b.add(-5); granted(all) != 0 {
		t.Errorf("%d continue with 6 owed, want none before half is free", granted(all))
	}
	if b.add(-1); granted(all) != 5 || b.owed.Load() != 10 || !b.full.Load() {
		t.Errorf("%d continue with 5 owed, want 5 in FIFO order; %d are owed then, want 10", granted(all), b.owed.Load())
	}
	b.cancel(all[5])
	b.cancel(all[0]) // frees its permit
	if b.waiting.Load() != 6 || b.owed.Load() != 9 {
		t.Errorf("%d waiting, want 6; %d owed, want 9", b.waiting.Load(), b.owed.Load())
	}
	if b.review(250, 250); granted(all[6:]) != 0 {
		t.Error("the sweeper released a claim that has not waited for a period")
	}
	if b.review(252, 250); granted(all[6:]) != 1 {
		t.Errorf("the sweeper released %d with room for one", granted(all[6:]))
	}
	if b.add(-10); granted(all[6:]) != 6 || b.full.Load() || b.review(1000, 250) {
		t.Errorf("%d of the last 6 continue when all is answered", granted(all[6:]))
	}
}

// Whatever concurrent goroutines do, no claim is left in line when nothing is owed.
func TestRequestBudgetLeavesNobodyInLine(t *testing.T) {
	for round := range 50 {
		s := bare(Limits{TotalInFlight: 1 + round%7})
		b, sh := &s.requests, s.bareShard()
		var all sync.WaitGroup
		var mu sync.Mutex
		var claims []*claim
		for i := range 4 {
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			all.Go(func() {
				for range 200 {
					b.add(1)
					c := &claim{sh: sh, since: 1}
					if waits := b.wait(c); waits && random.IntN(3) == 0 {
						b.cancel(c)
					} else if waits {
						mu.Lock()
						claims = append(claims, c)
						mu.Unlock()
					}
					b.add(-1)
				}
			})
		}
		all.Wait()
		for again := true; again; { // those that continued have sent a request, and were answered
			mu.Lock()
			some := claims
			claims, again = nil, false
			mu.Unlock()
			for _, c := range some {
				if c.waits() {
					claims = append(claims, c)
				} else {
					again = true
					b.add(-1)
				}
			}
		}
		if b.owed.Load() != 0 || b.waiting.Load() != 0 || len(claims) != 0 || b.full.Load() {
			t.Fatalf("round %d: %d owed, %d waiting, full is %v; want nothing", round, b.owed.Load(), b.waiting.Load(), b.full.Load())
		}
	}
}

// A request that is answered within its visit does not touch the counter that all
// processors share, and one that is not is counted once.
func TestRequestsAnsweredAtOnceAreNotCounted(t *testing.T) {
	s := bare(Limits{TotalInFlight: 1000})
	d := &workspace{ref: *s.bareConn()}
	k := &d.ref
	var turn Turn
	visit := func(promised, answered int) {
		turn.begin(d)
		turn.Room()
		turn.Mark(0)
		for i := range promised {
			if r := turn.Later(); i < answered {
				k.s.mu.Lock()
				k.attach().promises.Settle(r.ticket)
				k.s.mu.Unlock()
			}
		}
		k.s.mu.Lock()
		if x := k.x.Load(); x != nil {
			turn.giveBack(x) // as flush does
		}
		k.visitOwes(k.x.Load(), &turn)
		k.s.mu.Unlock()
		turn.end(0)
	}
	for _, x := range []struct {
		promised, answered int
		owed               int64
	}{{5, 5, 0}, {3, 1, 2}, {0, 0, 2}, {4, 4, 2}} {
		if visit(x.promised, x.answered); s.requests.owed.Load() != x.owed {
			t.Errorf("%d promised and %d answered: %d are counted, want %d", x.promised, x.answered, s.requests.owed.Load(), x.owed)
		}
	}
	k.s.mu.Lock()
	k.drop(k.x.Load())
	k.s.mu.Unlock()
	if owed := s.requests.owed.Load(); owed != 0 {
		t.Errorf("%d are counted when the connection has ended", owed)
	}
}

// A place in line counts until its connection has used it, also when the budget has room
// again by then; and one that it does not use is free at the end of the visit.
func TestAGrantedPlaceIsSettledByTheNextVisit(t *testing.T) {
	for _, asks := range []bool{true, false} {
		s := bare(Limits{TotalInFlight: 8})
		b := &s.requests
		d := &workspace{ref: *s.bareConn()}
		k := &d.ref
		var turn Turn
		visit := func(asks bool) (room bool) {
			turn.begin(d)
			if room = asks && turn.Room(); room {
				turn.Mark(0)
			}
			k.s.mu.Lock()
			k.visitOwes(k.x.Load(), &turn)
			k.s.mu.Unlock()
			turn.end(0)
			return room
		}
		k.s.own.set(isLate)
		b.add(8)
		if visit(true) || b.waiting.Load() != 1 {
			t.Fatalf("%d connections wait at the limit, want 1", b.waiting.Load())
		}
		if b.add(-8); b.waiting.Load() != 0 || b.owed.Load() != 1 || b.full.Load() {
			t.Fatalf("%d wait and %d is owed without replies, want 0 and the place that was granted", b.waiting.Load(), b.owed.Load())
		}
		visit(asks)
		if b.owed.Load() != 0 || k.x.Load().place != nil {
			t.Errorf("%d is owed after the visit, and the connection has a place: %v; asks is %v", b.owed.Load(), k.x.Load().place != nil, asks)
		}
	}
}
