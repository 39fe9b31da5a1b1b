package ration

import (
	"testing"

	"github.com/hone-go/hone/engine/internal/timing"
)

// Memory is returned in the second sweep in which less than half of a large peak is held, and not
// again for some time.
func TestSurplus(t *testing.T) {
	const small, large = worthReturning / 4, 2 * worthReturning
	var r Surplus
	for i, x := range []struct {
		now                  timing.Tick
		held, peak, released int64
		due, soon            bool
	}{
		{1, small, small, 0, false, false}, // not worth it
		{2, large, large, 0, false, false},
		{3, large/2 - 1, large, 0, false, true},
		{4, large / 2, large, 0, false, false}, // it is needed again
		{5, small, large, 0, false, true},
		{6, small, large, 0, true, true},
		{7, 0, large, 0, false, true},
		{8, 0, large, 0, false, true}, // too soon
		{6 + betweenReturns, 0, large, 0, true, true},
		{7 + betweenReturns, 0, small, worthReturning, false, true}, // what closed connections had held
		{9 + 2*betweenReturns, 0, small, worthReturning, true, true},
		{20 + 4*betweenReturns, 0, small, worthReturning, false, false}, // which counts once
	} {
		if due, soon := r.Review(x.now, x.held, x.peak, x.released); due != x.due || soon != x.soon {
			t.Errorf("sweep %d: due %v, soon %v, want %v, %v", i, due, soon, x.due, x.soon)
		}
	}
}

// Output of visits whose connections had ended is memory that no budget has counted.
func TestSurplusOfWaste(t *testing.T) {
	const part = worthReturning / 4
	var r Surplus
	for i := range 8 {
		if soon := r.Waste(part); soon != (i%4 == 3) {
			t.Errorf("part %d: check soon is %v", i, soon)
		}
	}
	for now, want := range []bool{false, true, false} {
		if due, _ := r.Review(timing.Tick(1+now), 0, 0, 0); due != want {
			t.Errorf("sweep %d: due %v, want %v", now, due, want)
		}
	}
}
