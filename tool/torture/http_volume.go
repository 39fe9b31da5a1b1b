package torture

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	targetsRound = 7000    // requests
	fewTargets   = 500     // in a round: too few to judge it
	keptAtLeast  = 512     // bytes for each request, in both later rounds
	keptInAll    = 2 << 20 // bytes, in each of them: a collector's rhythm is less
)

// manyTargets asks for paths and queries that nobody has asked for before. A cache or a metric that
// keeps each of them grows without bound.
func manyTargets(ctx context.Context, a *Arena) Finding {
	turn := atomic.Uint64{}
	turn.Store(a.Rand.Uint64())
	conns := make([]*Conn, roundWorkers)
	r := a.rounds(ctx, targetsRound, func(worker int) {
		c := conns[worker]
		if c == nil {
			var err error
			if c, err = a.Open(ctx); err != nil {
				return // which the bystanders feel
			}
			c.client = a.target.plain()
		}
		if conns[worker] = c; c.asksFor(ctx, turn.Add(1)) != nil || c.client.closing {
			c.Close()
			conns[worker] = nil
		}
	})
	switch each := r.each(); {
	case !r.known || r.least < fewTargets:
		return unknown("%d requests for different targets are too few to judge its memory", r.made)
	case each >= keptAtLeast && min(r.second, r.third) >= keptInAll:
		return falls("its memory grows by %s for each request with a path or a query of its own", size(each))
	}
	return survives("%d requests with a path or a query of their own; its memory grew by %s in the third round of %d", r.made, size(r.third), r.least)
}

// asksFor sends the good request with a path or a query of its own, to which any answer will do.
func (c *Conn) asksFor(ctx context.Context, n uint64) error {
	path := c.arena.target.path
	separator := "/"
	if n%2 > 0 || strings.Contains(path, "?") {
		separator = "?" // a second one belongs to the query
	}
	own := fmt.Sprintf(" %s%s%016x ", path, separator, n)
	_, err := c.Write(bytes.Replace(c.Request(nil), []byte(" "+path+" "), []byte(own), 1))
	if err == nil {
		err = c.SetReadDeadline(earlier(ctx, c.arena.Answer))
	}
	if err == nil {
		_, err = c.client.read(c.Conn)
	}
	return err
}

const (
	headCPU   = 500 * time.Millisecond // for a fall
	headTimes = 20                     // of what one long value takes, for a fall
)

// largeHeads sends complete heads, whose cost should grow with their size and no faster.
func largeHeads(ctx context.Context, a *Arena) Finding {
	var most time.Duration
	for _, bytes := range []int{60_000, 250_000, 1_000_000} {
		var fields strings.Builder
		n := 0
		for ; fields.Len() < bytes; n++ {
			fmt.Fprintf(&fields, "%x:1\r\n", n)
		}
		value, _, err := a.headCost(ctx, "X-Large: "+strings.Repeat("a", bytes)+"\r\n")
		many, words, err2 := a.headCost(ctx, fields.String())
		if err != nil || err2 != nil || ctx.Err() != nil {
			return unknown("heads of %s: %v %v", size(int64(bytes)), err, err2)
		}
		a.Note("%d fields: %s, %s of CPU; one value of that size: %s", n, words, elapsed(many), elapsed(value))
		switch most = max(most, many); {
		case many >= headCPU && many >= headTimes*value:
			return falls("a complete head of %s takes %s of CPU with %d fields, and %s with one long value", size(int64(bytes)), elapsed(many), n, elapsed(value))
		case words == "":
			return falls("a complete head of %s with %d fields gets neither an answer nor an end in %v", size(int64(bytes)), n, 3*a.Answer)
		}
	}
	return survives("complete heads of up to 1 MB cost up to %s of CPU", elapsed(most))
}

// headCost sends a head with lines, and returns the CPU time that the process used until it answered or
// closed, as far as that is known, and what it did.
func (a *Arena) headCost(ctx context.Context, lines string) (cpu time.Duration, words string, err error) {
	c, err := a.Dial(ctx)
	if err != nil {
		return 0, "", err
	}
	before, _ := a.Server.Used()
	got := poured{heard: c.hear(ctx, 3*a.Answer, [][]byte{[]byte(a.head("GET", lines+"\r\n"))}, func([]byte) bool { return true })}
	after, _ := a.Server.Used()
	if len(got.bytes) > 0 || got.closed {
		words = got.end()
	}
	besides := time.Duration(a.spins * float64(got.took)) // for the bystanders
	return max(0, after.CPU-before.CPU-besides), words, nil
}
