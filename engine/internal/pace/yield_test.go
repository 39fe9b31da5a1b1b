package pace

import (
	"testing"
	"time"
)

// A loop that is alone yields once per yieldEvery; one whose connections others touch
// yields before each wait.
func TestYieldPolicy(t *testing.T) {
	at := func(d time.Duration) (began time.Time) { return time.Now().Add(-d) }
	var y Yield
	waits := func(n int, d time.Duration) (yields int) {
		for range n {
			if y.Yields(at(d)) {
				yields++
			}
		}
		return yields
	}
	if n := waits(aloneAfter, time.Hour); n != aloneAfter {
		t.Errorf("%d yields before the first %d waits", n, aloneAfter)
	}
	if n := waits(1, 2*time.Hour) + waits(100, 2*time.Hour-time.Second); n != 1 {
		t.Errorf("%d yields of a loop that is alone, want 1", n)
	}
	if n := waits(100, 3*time.Hour); n != 1 {
		t.Errorf("%d yields an hour later, want 1", n)
	}
	y.Others()
	if n := waits(aloneAfter, 3*time.Hour); n != aloneAfter {
		t.Errorf("%d yields before %d waits after others touched a connection", n, aloneAfter)
	}
}
