package pace

import "time"

// Yield decides whether a loop that finds nothing yields to other goroutines before
// it waits. That helps the goroutines that produce replies for the loop's connections:
// they cannot run while the loop blocks in the kernel and keeps its processor. It also
// signals cooperation to the scheduler's monitor (sysmon): from a loop that has not
// yielded for 10 ms, it retakes the processor in each system call.
//
// Where processors are idle, each yield wakes a thread that finds nothing: two system
// calls for three requests of a single busy connection. So a loop whose requests are
// answered at once yields once per yieldEvery.
type Yield struct {
	alone int           // waits since another goroutine touched a connection of the loop
	last  time.Duration // time of the last yield while alone, since the server began
}

const (
	yieldEvery = time.Millisecond
	aloneAfter = 8 // waits
)

// Others records that another goroutine touches a connection of the loop, or is about to.
func (y *Yield) Others() { y.alone = 0 }

// Yields is called before each wait.
func (y *Yield) Yields(began time.Time) bool {
	if y.alone < aloneAfter {
		y.alone++
		return true
	}
	now := time.Since(began)
	if now-y.last < yieldEvery {
		return false
	}
	y.last = now
	return true
}
