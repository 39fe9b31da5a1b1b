package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A queue is a slice from which any element can be removed.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q Queue[int]
	var model []int
	members := make([]Member[int], 20)
	for i := range members {
		members[i].Value = i + 1
	}
	for range 10_000 {
		m := &members[r.IntN(len(members))]
		at := slices.Index(model, m.Value)
		if m.IsQueued() != (at >= 0) {
			t.Fatalf("member %d is queued: %v", m.Value, m.IsQueued())
		}
		if at < 0 && r.IntN(2) == 0 {
			q.Push(m)
			model = append(model, m.Value)
		} else if m.Leave() != (at >= 0) {
			t.Fatalf("member %d has left: %v", m.Value, at < 0)
		} else if at >= 0 {
			model = slices.Delete(model, at, at+1)
		}
		first, last := 0, 0
		if len(model) > 0 {
			first, last = model[0], model[len(model)-1]
		}
		if q.First() != first || q.Last() != last || q.Len() != len(model) {
			t.Fatalf("%d to %d, %d members, want %v", q.First(), q.Last(), q.Len(), model)
		}
	}
}
