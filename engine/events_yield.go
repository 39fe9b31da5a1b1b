package engine

import "time"

// yieldPolicy decides whether a loop that finds nothing lets other goroutines run before
// it waits. That serves those that are to answer for the loop's connections: nobody else
// may run them while the loop waits in the kernel and keeps its processor. It also tells
// the scheduler's monitor that the loop lets others run: from a loop that has not yielded
// for 10 ms, the monitor takes the processor away within each system call.
//
// Where processors are idle, each yield wakes a thread, which finds nothing: two system
// calls for three requests of a single busy connection. So a loop whose requests are
// answered at once yields once in yieldEvery.
type yieldPolicy struct {
	alone int           // waits since others had to do with a connection of the loop
	last  time.Duration // when the loop yielded while it was alone, since the server began
}

const (
	yieldEvery = time.Millisecond
	aloneAfter = 8 // waits
)

// others notes that another goroutine has had to do with a connection of the loop, or is
// about to.
func (y *yieldPolicy) others() { y.alone = 0 }

// yields is asked before each wait.
func (y *yieldPolicy) yields(began time.Time) bool {
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
