package pace

import "testing"

// An idle loop waits in Go's poller after a window of much work per wait, or of slow
// handlers beside half of the waits, and in the kernel after a window of little of both.
// Between the two it does what it did before.
func TestSleepPolicy(t *testing.T) {
	const n = policyWindow
	for _, c := range []struct {
		name          string
		work, offLoop int // per window
		parked, after bool
	}{
		{"much work", 4 * n, 0, false, true},
		{"hardly less", 4*n - 1, 0, false, false},
		{"hardly less, while parked", 2 * n, 0, true, true},
		{"little work", 2*n - 1, 0, true, false},
		{"slow handlers beside half of the waits", 0, n / 2, false, true},
		{"beside fewer", 0, n/2 - 1, false, false},
		{"beside a quarter, while parked", 0, n / 4, true, true},
		{"beside fewer, while parked", 0, n/4 - 1, true, false},
	} {
		p, want := Sleep{Parked: c.parked}, c.parked
		for window := range 3 { // each is judged alone
			for i := range n {
				if p.Parked != want {
					t.Fatalf("%s: parked is %v after %d windows and %d waits, want %v", c.name, p.Parked, window, i, want)
				}
				work := c.work / n
				if i < c.work%n {
					work++
				}
				p.Slept(work, i < c.offLoop)
			}
			want = c.after
		}
	}
}
