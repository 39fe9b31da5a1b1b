package ration

import (
	"runtime"
	"slices"
	"testing"

	"github.com/hone-go/hone/engine/internal/timing"
	"pgregory.net/rapid"
)

// nobody waits in line.
type nobody struct{}

func (nobody) Look(uint64) {}

func newClock() *timing.Clock {
	c := new(timing.Clock)
	c.Init()
	return c
}

func newOutput(limit int) *Output {
	b := new(Output)
	b.Init(limit, new(Spares), newClock())
	return b
}

// TestOutputBudgetModel runs random visits against a budget, and a model of it: the bytes
// held are those reserved by running visits and those retained by connections, nothing is
// granted without room, and nothing waits while there is room.
func TestOutputBudgetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newOutput(1 << 20)
		type visit struct {
			*claim
			trial bool
		}
		var running []visit
		var waiting []*claim
		retained := int64(0)
		collect := func() { // granted claims start
			waiting = slices.DeleteFunc(waiting, func(c *claim) bool {
				if c.granted.Load() {
					running = append(running, visit{c, c.amount == unknown})
				}
				return c.granted.Load()
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				weight := rapid.SampledFrom([]Weight{0, SmallWeight, 14, 17, 19, 30}).Draw(t, "weight")
				amount, size := b.expect(weight)
				c := &claim{who: nobody{}, amount: amount, size: size}
				if b.admit(amount, size) {
					running = append(running, visit{c, amount == unknown})
					return
				}
				b.wait(c)
				waiting = append(waiting, c)
			},
			"return": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				v := running[i]
				running = slices.Delete(running, i, i+1)
				produced := rapid.SampledFrom([]int{0, 100, 5_000, 300_000}).Draw(t, "produced")
				if v.trial {
					b.tried(produced)
				}
				retained += int64(produced)
				b.add(int64(produced))
				b.giveBack(v.trial, v.size)
			},
			"take": func(t *rapid.T) { // a peer reads
				n := rapid.Int64Range(0, retained).Draw(t, "bytes")
				retained -= n
				b.add(-n)
			},
			"leave": func(t *rapid.T) {
				if len(waiting) > 0 {
					i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
					b.drop(waiting[i])
					waiting = slices.Delete(waiting, i, i+1)
				}
			},
			"sweep":  func(t *rapid.T) { b.Review() },
			"hasten": func(t *rapid.T) { b.Hasten() },
			"": func(t *rapid.T) {
				collect()
				held, trials := retained, 0
				for _, v := range running {
					held += v.size
					if v.trial {
						trials++
					}
				}
				if b.held.Load() != held || int(b.trials.Load()) != trials || b.Waiting() != len(waiting) {
					t.Fatalf("%d held, %d trials, %d waiting; want %d, %d, %d", b.held.Load(), b.trials.Load(), b.Waiting(), held, trials, len(waiting))
				}
				for i := range b.line {
					if c := b.line[i].First(); c != nil {
						if b.take(c.amount, c.size) {
							t.Fatalf("a claim of %d bytes waits although only %d of %d are held", c.size, held, b.limit)
						}
					}
				}
			},
		})
	})
}

// When handlers block in the first visits, more and more others may start; when first
// visits produce much, fewer.
func TestTrialsWidenAndNarrow(t *testing.T) {
	b := newOutput(64 << 20)
	few := runtime.GOMAXPROCS(0)
	for range few {
		if !b.admit(unknown, 0) {
			t.Fatal("a first visit must wait")
		}
	}
	crowd := make([]*claim, 10_000)
	for i := range crowd {
		crowd[i] = &claim{who: nobody{}, amount: unknown}
		if b.admit(unknown, 0) {
			t.Fatalf("more than %d first visits run at once", few)
		}
		b.wait(crowd[i])
	}
	sweeps := 0
	for ; b.Waiting() > 0; sweeps++ {
		if sweeps > 100 {
			t.Fatalf("%d still waiting after %d sweeps", b.Waiting(), sweeps)
		}
		b.Review()
	}
	t.Logf("%d blocking handlers start within %d sweeps", len(crowd), sweeps)
	b.tried(16 << 20)
	if most := int(b.most.Load()); most != few {
		t.Errorf("%d first visits may run after one of 16 MiB, want %d", most, few)
	}
	for range 1000 {
		b.tried(64 << 10)
	}
	if most := int(b.most.Load()); most != 64 {
		t.Errorf("%d first visits of 64 KiB may run at once, want a sixteenth of the budget", most)
	}
}

func TestWeightIsLearnt(t *testing.T) {
	b, weight := newOutput(128<<20), Weight(0)
	if a, _ := b.expect(weight); a != unknown {
		t.Error("a new connection has a known weight")
	}
	for _, x := range []struct {
		size   int
		weight Weight
	}{{10, SmallWeight}, {100_000, 17}, {10, 16}, {10, 15}, {50_000, 16}, {16_000_000, 24}} {
		if b.Learn(&weight, x.size); weight != x.weight {
			t.Errorf("after %d bytes the weight is %d, want %d", x.size, weight, x.weight)
		}
	}
	if a, size := b.expect(20); a != much || size != 1<<20 {
		t.Errorf("of weight 20 it expects %d bytes", size)
	}
	if a, size := b.expect(40); a != much || size != b.limit/2 {
		t.Errorf("of weight 40 it expects %d bytes, want no more than half of the budget", size)
	}
}
