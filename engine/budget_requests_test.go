package engine

import (
	"testing"

	"github.com/hone-go/hone/engine/internal/ration"
)

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
				k.held().attach().promises.Settle(r.ticket)
				k.s.mu.Unlock()
			}
		}
		k.s.mu.Lock()
		if x := k.x.Load(); x != nil {
			turn.giveBack(x) // as flush does
		}
		k.held().visitOwes(k.x.Load(), &turn)
		k.s.mu.Unlock()
		turn.end(0)
	}
	for _, x := range []struct {
		promised, answered int
		owed               int64
	}{{5, 5, 0}, {3, 1, 2}, {0, 0, 2}, {4, 4, 2}} {
		if visit(x.promised, x.answered); s.requests.Owed() != x.owed {
			t.Errorf("%d promised and %d answered: %d are counted, want %d", x.promised, x.answered, s.requests.Owed(), x.owed)
		}
	}
	k.s.mu.Lock()
	k.held().drop(k.x.Load())
	k.s.mu.Unlock()
	if owed := s.requests.Owed(); owed != 0 {
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
			k.held().visitOwes(k.x.Load(), &turn)
			k.s.mu.Unlock()
			turn.end(0)
			return room
		}
		k.s.own.set(isLate)
		var others ration.Debt
		others.Recount(b, 8)
		if visit(true) || b.Waiting() != 1 {
			t.Fatalf("%d connections wait at the limit, want 1", b.Waiting())
		}
		if others.Recount(b, 0); b.Waiting() != 0 || b.Owed() != 1 || b.IsFull() {
			t.Fatalf("%d wait and %d is owed without replies, want 0 and the place that was granted", b.Waiting(), b.Owed())
		}
		visit(asks)
		if b.Owed() != 0 || !k.x.Load().debt.IsZero() {
			t.Errorf("%d is owed after the visit, and the connection has a place: %v; asks is %v", b.Owed(), !k.x.Load().debt.IsZero(), asks)
		}
	}
}
