package torture

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	pourShare      = 16 // of the bytes that a scenario may send, that are poured into one connection
	pourBlock      = 64 << 10
	pourPeers      = 2       // connections of each kind
	floodMost      = 8 << 20 // bytes of control frames on one connection
	pingFloodPeers = 8
)

// flood is something without end that is sent on a connection.
type flood struct {
	what             string
	beginning, block string // the block is repeated
	forgotten        bool   // a server may read it for ever without keeping it
}

// blocks returns what sends it.
func (f flood) blocks() func() []byte {
	next, block := []byte(f.beginning), bytes.Repeat([]byte(f.block), pourBlock/len(f.block))
	return func() (now []byte) {
		if now, next = next, nil; len(now) == 0 {
			now = block
		}
		return now
	}
}

// headFloods are heads without end.
func headFloods(t *target) []flood {
	return []flood{
		{"fields in a head", t.head("GET", ""), "X-Flood: b\r\n", false},
		{"one value", t.head("GET", "X-Flood: "), "abcdefgh", false},
		{"one name", t.head("GET", ""), "abcdefgh", false},
		{"a folded value", t.head("GET", "X-Flood: b\r\n"), " c\r\n", false},
		{"a method", "", "ABCDEFGH", false},
		{"a target", "GET /", "abcdefgh", false},
		{"empty lines", "", "\r\n", true},
	}
}

// chunkFloods are the parts of a chunked body without end that are not the body.
func chunkFloods(t *target) []flood {
	chunked := t.head("POST", "Transfer-Encoding: chunked\r\n\r\n")
	return []flood{
		{"an extension", chunked + "1;a=", "abcdefgh", true},
		{"zeros before a size", chunked, "00000000", true},
		{"a trailer's fields", chunked + "0\r\n", "X-Flood: b\r\n", true},
		{"a trailer's value", chunked + "0\r\nX-Flood: ", "abcdefgh", true},
	}
}

// fragmentFloods are messages without end.
func fragmentFloods(*target) []flood {
	part := strings.Repeat("a", fragmentSize)
	return []flood{
		{"a message in fragments of 4 KiB", maskedFrame(binaryOp, part), maskedFrame(contOp, part), false},
		{"a message in fragments of a byte", maskedFrame(binaryOp, "a"), maskedFrame(contOp, "a"), false},
		{"a frame", maskedHead(finBit|binaryOp, 8, 1<<40), part, false},
	}
}

// poured is what became of a flood on one connection.
type poured struct {
	sent    int
	stalled bool // the server read no more
	heard
}

// end says how a flood ended.
func (p *poured) end() string {
	all, err := httpAnswers(p.bytes)
	switch {
	case err == nil && len(all) > 0:
		return fmt.Sprintf("answers %d", all[0].status)
	case p.closed:
		return "closes"
	case p.stalled:
		return "reads no more"
	}
	return "says nothing"
}

// pour sends a flood until the server answers, closes or reads no more, or most bytes are sent. Then it
// waits for an answer.
func (c *Conn) pour(ctx context.Context, f flood, most int) poured {
	var p poured
	read := make(chan struct{})
	pouring, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		defer close(read)
		p.heard = c.collect(c.arena.Within, func([]byte) bool { enough(); return false })
	}()
	var err error
	p.sent, err = c.send(pouring, most, 2*c.arena.Answer, f.blocks())
	p.stalled = isTimeout(err)
	select {
	case <-read:
		return p
	case <-time.After(c.arena.Answer / 2):
	}
	c.Close()
	<-read
	p.closed = false // by the server
	return p
}

// pouredAll is what became of a flood on several connections.
type pouredAll struct {
	found     Finding // nothing: see swallowed
	taken     int     // the most that the server took on a connection
	swallowed bool    // on one it took all
}

// pourAll returns an attack that pours floods: at the same time, or one by one where the server's memory
// is watched. Where a server takes all of one, it has no limit for it; if its memory grows with it, it
// falls.
func pourAll(open opener, floods func(*target) []flood) attackFunc {
	return func(ctx context.Context, a *Arena) Finding {
		all, most := floods(a.target), int(a.Bytes/pourShare)
		_, watched := a.Server.Used()
		var turn sync.Mutex
		results := atOnce(len(all), func(i int) pouredAll {
			if watched {
				turn.Lock()
				defer turn.Unlock()
			}
			return a.pour(ctx, open, all[i], most)
		})
		var endless, forgotten []string
		stopped := 0
		for i, r := range results {
			switch {
			case r.found != (Finding{}):
				return r.found
			case !r.swallowed:
				stopped = max(stopped, r.taken)
			case all[i].forgotten:
				forgotten = append(forgotten, all[i].what)
			default:
				endless = append(endless, all[i].what)
			}
		}
		words := fmt.Sprintf("stopped floods after %d KiB at most", stopped>>10)
		if len(endless) > 0 {
			return unknown("took %s without an answer of %s: no limit up to then", size(int64(most)), strings.Join(endless, ", and of "))
		}
		if len(forgotten) > 0 {
			words += fmt.Sprintf(", and read %s of %s, which it need not keep", size(int64(most)), strings.Join(forgotten, ", and of "))
		}
		return survives("%s", words)
	}
}

// pour pours one flood into several connections.
func (a *Arena) pour(ctx context.Context, open opener, f flood, most int) (r pouredAll) {
	crowd, err := a.Crowd(ctx, pourPeers, open, saysNothing)
	if err != nil {
		return pouredAll{found: unknown("%s: %v", f.what, err)}
	}
	grew := a.growth()
	outcomes := atOnce(len(crowd), func(i int) poured { return crowd[i].pour(ctx, f, most) })
	swallowed, stalled := 0, false
	for _, p := range outcomes {
		stalled = stalled || p.stalled
		r.taken = max(r.taken, p.sent)
		if p.sent >= most && !p.closed && len(p.bytes) == 0 {
			swallowed++
		}
	}
	r.swallowed = swallowed > 0
	a.Note("%s: %s, after %d KiB at most", f.what, outcomes[pourPeers-1].end(), r.taken>>10)
	grown, _ := grew()
	share, busy := 0.0, false
	if stalled {
		share, busy = a.Server.busy(ctx, a.spins, 3*idleFor)
	}
	for _, c := range crowd {
		c.Close()
	}
	switch {
	case ctx.Err() != nil:
		r.found = unknown("%s: %v", f.what, ctx.Err())
	case busy:
		r.found = falls("reads no more of %s, and uses %.0f %% of a CPU", f.what, 100*share)
	case r.swallowed && grown > int64(swallowed*most)*3/4:
		r.found = falls("its memory grew by %s with %d connections that sent %s each of %s", size(grown), swallowed, size(int64(most)), f.what)
	}
	return r
}

// floodControl sends control frames and fragments that cost the server time
// and output, and reads nothing meanwhile.
func floodControl(ctx context.Context, a *Arena) Finding {
	floods := []flood{
		{"pings", "", maskedFrame(finBit|pingOp, strings.Repeat("a", 125)), true},
		{"empty pings", "", maskedFrame(finBit|pingOp, ""), true},
		{"pongs", "", maskedFrame(finBit|pongOp, ""), true},
		{"empty fragments", maskedFrame(binaryOp, ""), maskedFrame(contOp, ""), true},
	}
	crowd, err := a.Crowd(ctx, pingFloodPeers, (*target).Dial, saysNothing)
	if err != nil {
		return unknown("%v", err)
	}
	ends := make([]string, pingFloodPeers)
	taken := atOnce(pingFloodPeers, func(i int) int {
		sent, err := crowd[i].send(ctx, floodMost, a.Answer/2, floods[i%len(floods)].blocks())
		switch {
		case isTimeout(err):
			ends[i] = "the server reads no more"
		case err != nil:
			ends[i] = "the server closes"
		default:
			ends[i] = "the server takes all"
		}
		crowd[i].Close()
		return sent
	})
	for i, f := range floods {
		a.Note("%s, %d KiB: %s", f.what, taken[i]>>10, ends[i])
	}
	if ctx.Err() != nil {
		return unknown("the floods did not end in time")
	}
	return survives("%d peers flood it with control frames and empty fragments, up to %d KiB each", pingFloodPeers, slices.Max(taken)>>10)
}
