package ration

import (
	"math/rand/v2"
	"sync"
	"testing"
)

func newRequests(limit int) *Requests {
	b := new(Requests)
	b.Init(limit, newClock())
	return b
}

// inPlaces returns claims of connections without an owner.
func inPlaces(b *Requests, n int) (all []*claim) {
	for i := range n {
		c := &claim{who: nobody{}, key: uint64(i), since: 1}
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
	b := newRequests(10)
	if b.add(9); b.full.Load() {
		t.Fatal("full below the limit")
	}
	if b.wait(&claim{who: nobody{}}) {
		t.Fatal("a claim waits although there is room")
	}
	if b.add(2); !b.full.Load() {
		t.Fatal("not full at the limit")
	}
	all := inPlaces(b, 12)
	if b.add(-5); granted(all) != 0 {
		t.Errorf("%d continue with 6 owed, want none before half is free", granted(all))
	}
	if b.add(-1); granted(all) != 5 || b.owed.Load() != 10 || !b.full.Load() {
		t.Errorf("%d continue with 5 owed, want 5 in FIFO order; %d are owed then, want 10", granted(all), b.owed.Load())
	}
	b.drop(all[5])
	b.drop(all[0]) // frees its permit
	if int32(b.Waiting()) != 6 || b.owed.Load() != 9 {
		t.Errorf("%d waiting, want 6; %d owed, want 9", int32(b.Waiting()), b.owed.Load())
	}
	if b.Review(250, 250); granted(all[6:]) != 0 {
		t.Error("the sweeper released a claim that has not waited for a period")
	}
	if b.Review(252, 250); granted(all[6:]) != 1 {
		t.Errorf("the sweeper released %d with room for one", granted(all[6:]))
	}
	if b.add(-10); granted(all[6:]) != 6 || b.full.Load() || b.Review(1000, 250) {
		t.Errorf("%d of the last 6 continue when all is answered", granted(all[6:]))
	}
}

// Whatever concurrent goroutines do, no claim is left in line when nothing is owed.
func TestRequestBudgetLeavesNobodyInLine(t *testing.T) {
	for round := range 50 {
		b := newRequests(1 + round%7)
		var all sync.WaitGroup
		var mu sync.Mutex
		var claims []*claim
		for i := range 4 {
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			all.Go(func() {
				for range 200 {
					b.add(1)
					c := &claim{who: nobody{}, since: 1}
					if waits := b.wait(c); waits && random.IntN(3) == 0 {
						b.drop(c)
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
		if b.owed.Load() != 0 || int32(b.Waiting()) != 0 || len(claims) != 0 || b.full.Load() {
			t.Fatalf("round %d: %d owed, %d waiting, full is %v; want nothing", round, b.owed.Load(), int32(b.Waiting()), b.full.Load())
		}
	}
}
