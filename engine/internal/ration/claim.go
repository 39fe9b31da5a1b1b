// Package ration divides what the connections of a server have in common: the memory for unsent
// output (Output, Spares) and the number of requests in flight (Requests). Share and Debt are
// one connection's part of each.
package ration

import (
	"sync/atomic"

	"github.com/hone-go/hone/engine/internal/timing"
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
	in      *line // nil while it does not wait
	before  *claim
	behind  *claim
}

// line is a FIFO queue from which any claim can be removed.
type line struct{ first, last *claim }

func (l *line) push(c *claim) {
	c.in, c.before = l, l.last
	if l.last != nil {
		l.last.behind = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *line) remove(c *claim) {
	if c.before != nil {
		c.before.behind = c.behind
	} else {
		l.first = c.behind
	}
	if c.behind != nil {
		c.behind.before = c.before
	} else {
		l.last = c.before
	}
	c.in, c.before, c.behind = nil, nil, nil
}

func (c *claim) waits() bool { return c != nil && !c.granted.Load() }
