// Package ration divides what the connections of a server have in common: the memory for unsent
// output (Output, Spares) and the number of requests in flight (Requests). Share and Debt are
// one connection's part of each.
package ration

import (
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/fifo"
)

// Waiter owns connections that wait in line. Look makes the owner of one of them check it; it
// is called with the mutex of a budget held.
type Waiter interface{ Look(key uint64) }

// claim is a connection's place in line.
type claim struct {
	who     Waiter
	key     uint64
	amount  amount
	size    int64 // bytes to reserve
	since   timing.Tick
	granted atomic.Bool
	place   fifo.Member[*claim]
}

func (c *claim) waits() bool { return c != nil && !c.granted.Load() }

// waiters are the connections in line for a budget.
type waiters struct {
	mu    sync.Mutex // in the lock order, only what a Waiter locks comes after it
	count atomic.Int32
}

// Waiting returns how many connections wait in line.
func (w *waiters) Waiting() int { return int(w.count.Load()) }

// join puts a claim in line, and reports whether no other waits. mu held.
func (w *waiters) join(line *fifo.Queue[*claim], c *claim) (first bool) {
	c.place.Value = c
	line.Push(&c.place)
	return w.count.Add(1) == 1
}

// grant lets a waiting connection continue. mu held.
func (w *waiters) grant(c *claim) {
	c.place.Leave()
	w.count.Add(-1)
	c.granted.Store(true)
	c.who.Look(c.key)
}

// cancel removes a claim, in whatever state it is, and reports whether it was granted.
func (w *waiters) cancel(c *claim) (granted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.place.Leave() {
		w.count.Add(-1)
	}
	return c.granted.Load()
}
