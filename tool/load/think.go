package load

import (
	"sync"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// thoughts holds the sessions in their think time, as a heap by when they continue. One goroutine
// waits for the first of them.
type thoughts struct {
	run   *run
	timer *sys.Timer
	lag   histogram // how late they continued, which is the generator's own delay

	mu  sync.Mutex
	all []thought // a binary heap by moment
}

// thought is a session that continues at a moment.
type thought struct {
	moment int64
	conn   *conn
	client *client
}

// mostThinking bounds the memory of thinking sessions.
const mostThinking = 1 << 20

// begin starts the goroutine.
func (t *thoughts) begin() (err error) {
	if t.timer, err = t.run.newTimer(); err != nil {
		return err
	}
	t.run.goroutines.Go(t.wake)
	return nil
}

// push adds a thought, and reports whether there was room. The caller may hold the lock of its
// connection.
func (t *thoughts) push(next thought) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == mostThinking {
		return false
	}
	t.all = append(t.all, next)
	at := len(t.all) - 1
	for up := (at - 1) / 2; at > 0 && t.all[at].moment < t.all[up].moment; up = (at - 1) / 2 {
		t.all[at], t.all[up] = t.all[up], t.all[at]
		at = up
	}
	if at == 0 {
		t.set()
	}
	return true
}

// pop removes the first thought. t.mu is held.
func (t *thoughts) pop() thought {
	first, last := t.all[0], len(t.all)-1
	t.all[0], t.all[last] = t.all[last], thought{}
	t.all = t.all[:last]
	for at := 0; ; {
		least := at
		for down := 2*at + 1; down <= 2*at+2 && down < last; down++ {
			if t.all[down].moment < t.all[least].moment {
				least = down
			}
		}
		if least == at {
			return first
		}
		t.all[at], t.all[least] = t.all[least], t.all[at]
		at = least
	}
}

// set sets the timer for the first thought. t.mu is held.
func (t *thoughts) set() {
	if len(t.all) == 0 {
		return
	}
	// If it fails, the timer is closed because the run is over.
	_ = t.timer.Set(time.Duration(t.all[0].moment - t.run.now()))
}

// wake returns sessions to their connections after their think time.
func (t *thoughts) wake() {
	for t.timer.Wait() == nil {
		for {
			next, now, ok := t.take()
			if !ok {
				break
			}
			t.lag.record(now-next.moment, 1)
			t.run.lagged(now-next.moment, 1)
			next.conn.wake(next.client, now)
		}
	}
}

// take removes the first thought if it is due; else it sets the timer.
func (t *thoughts) take() (next thought, now int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.run.now()
	if len(t.all) == 0 || t.all[0].moment > now {
		t.set()
		return thought{}, now, false
	}
	return t.pop(), now, true
}
