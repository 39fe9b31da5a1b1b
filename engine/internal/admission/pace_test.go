package admission

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Of 15,000 that come at once and come again as they are told, no second admits half more than its share, and
// the last comes soon after the earliest moment at which it could.
func TestPaceOfAStorm(t *testing.T) {
	const rate, crowd = 500, 15_000
	var p Pace
	p.Init(rate)
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	steps := map[int]int{0: crowd} // who comes when, in milliseconds
	admitted, tries, last := map[int]int{}, 0, 0
	for ms := 0; len(steps) > 0 && ms < 1_000_000; ms++ {
		now := start.Add(time.Duration(ms) * time.Millisecond)
		for range steps[ms] {
			if tries++; p.Admits(now) {
				admitted[ms/1000]++
				last = ms
				continue
			}
			steps[ms+1+r.IntN(int(p.Within(now).Milliseconds()))]++
		}
		delete(steps, ms)
	}
	sum := 0
	for second, n := range admitted {
		if sum += n; n > rate*3/2 {
			t.Errorf("%d were admitted in second %d", n, second)
		}
	}
	if sum != crowd || last > 50_000 || tries > 4*crowd {
		t.Errorf("%d were admitted after %d ms and %d tries", sum, last, tries)
	}
	t.Logf("all after %d ms and %d tries", last, tries)
}

// Who comes slowly is never refused, whatever came before.
func TestPaceForgets(t *testing.T) {
	var p Pace
	p.Init(10)
	now := time.Now()
	for range 1000 {
		p.Admits(now)
	}
	if d := p.Within(now); d != leastWait+mostWait {
		t.Errorf("after a storm: %v", d)
	}
	now = now.Add(time.Hour)
	for range 100 {
		if !p.Admits(now) {
			t.Fatal("refused")
		}
		now = now.Add(100 * time.Millisecond)
	}
	if d := p.Within(now); d != leastWait {
		t.Errorf("without a storm: %v", d)
	}
}
