package ticket

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// none is a ticket that is never taken: it marks output that settles no promise.
const none = ^uint64(0)

// TestTickets takes and settles at random and compares with a plain set: a ticket settles
// once, whatever happens to its slot before and after.
func TestTickets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tickets Set
		var open, used []uint64
		most := 0
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := tickets.Take()
				if n == none || slices.Contains(open, n) || slices.Contains(used, n) {
					t.Fatalf("took %#x, which was used before", n)
				}
				open = append(open, n)
				most = max(most, len(open))
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				n := open[i]
				open = slices.Delete(open, i, i+1)
				used = append(used, n)
				if !tickets.Settle(n) {
					t.Fatalf("%#x is open but cannot be settled", n)
				}
				if tickets.Settle(n) {
					t.Fatalf("%#x was settled twice", n)
				}
			},
			"settle again": func(t *rapid.T) {
				if len(used) == 0 {
					t.Skip("nothing is settled")
				}
				if n := rapid.SampledFrom(used).Draw(t, "which"); tickets.Settle(n) {
					t.Fatalf("%#x was settled again after its slot was reused", n)
				}
			},
			"settle what nobody took": func(t *rapid.T) {
				n := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 10), rapid.Just(none)).Draw(t, "n")
				if !slices.Contains(open, n) && tickets.Settle(n) {
					t.Fatalf("%#x was settled but never taken", n)
				}
			},
			"": func(t *rapid.T) {
				if int(tickets.open) != len(open) {
					t.Fatalf("%d open, want %d", tickets.open, len(open))
				}
				if free := tickets.freeSlots(); len(tickets.slots) != most || free != most-len(open) {
					t.Fatalf("%d slots, %d free; want %d, the most that were open at once, and %d", len(tickets.slots), free, most, most-len(open))
				}
			},
		})
	})
}

func TestTicketsAllocate0(t *testing.T) {
	var tickets Set
	var all [64]uint64
	n := testing.AllocsPerRun(100, func() {
		for i := range all {
			all[i] = tickets.Take()
		}
		for _, n := range all {
			tickets.Settle(n)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for 64 tickets, want 0", n)
	}
}

// freeSlots returns the length of the list of free slots.
func (t *Set) freeSlots() (n int) {
	for slot := t.free; slot != 0 && n <= len(t.slots); n++ {
		slot = t.slots[slot-1].next
	}
	return n
}
