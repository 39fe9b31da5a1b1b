package torture

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	pourShare  = 16 // of the bytes that a scenario may send, that are poured into one connection
	pourBlock  = 64 << 10
	pourPeers  = 2 // connections of each kind
	hugePeers  = 50
	hugeBody   = 1 << 10 // bytes that are sent of a body that is said to be huge
	expectMany = 20
)

// poured is what became of a flood on one connection.
type poured struct {
	sent    int
	stalled bool // the server read no more
	heard
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
		p.heard = c.collect(ctx, c.arena.Within, func([]byte) bool { enough(); return false })
	}()
	var err error
	p.sent, err = c.send(pouring, most, 2*c.arena.Answer, f.blocks())
	p.stalled = isTimeout(err)
	answer := time.NewTimer(c.arena.Answer / 2)
	defer answer.Stop()
	select {
	case <-read:
		return p
	case <-answer.C:
	}
	c.Close()
	<-read
	p.closed = false // by the server
	return p
}

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

// pourAll returns an attack that pours floods. Where a server takes all of one, it has no limit for
// it; if its memory grows with it, it falls.
func pourAll(open opener, floods func(a *Arena) []flood) func(context.Context, *Arena) Finding {
	return func(ctx context.Context, a *Arena) Finding {
		var endless, forgotten []string
		most := 0
		all := floods(a)
		for i, p := range a.pourEach(ctx, open, all) {
			f := all[i]
			switch {
			case p.err != nil:
				return unknown("%s: %v", f.what, p.err)
			case p.busy:
				return falls("reads no more of %s, and uses %.0f %% of a CPU", f.what, 100*p.share)
			case p.swallowed == 0:
				most = max(most, p.taken)
			case p.grown > int64(p.swallowed*a.pourMost())*3/4:
				return falls("its memory grew by %s with %d connections that sent %s each of %s", size(p.grown), p.swallowed, size(int64(a.pourMost())), f.what)
			case f.forgotten:
				forgotten = append(forgotten, f.what)
			default:
				endless = append(endless, f.what)
			}
		}
		words := fmt.Sprintf("stopped floods after %d KiB at most", most>>10)
		if len(endless) > 0 {
			return unknown("took %s without an answer of %s: no limit up to then", size(int64(a.pourMost())), strings.Join(endless, ", and of "))
		}
		if len(forgotten) > 0 {
			words += fmt.Sprintf(", and read %s of %s, which it need not keep", size(int64(a.pourMost())), strings.Join(forgotten, ", and of "))
		}
		return survives("%s", words)
	}
}

func (a *Arena) pourMost() int { return int(a.Bytes / pourShare) }

// floodResult is what became of a flood on several connections.
type floodResult struct {
	taken     int     // the most that the server took on a connection
	swallowed int     // connections on which it took all
	grown     int64   // its memory, if that is watched
	share     float64 // of a CPU, when it reads no more
	busy      bool    // that is more than before
	err       error
}

// pourEach pours floods: at the same time, or one by one where the server's memory is watched.
func (a *Arena) pourEach(ctx context.Context, open opener, floods []flood) []floodResult {
	results := make([]floodResult, len(floods))
	_, watched := a.Server.memory()
	var turn sync.Mutex
	var pourers sync.WaitGroup
	for i, f := range floods {
		pourers.Go(func() {
			if watched {
				turn.Lock()
				defer turn.Unlock()
			}
			results[i] = a.pourOne(ctx, open, f)
		})
	}
	pourers.Wait()
	return results
}

// pourOne pours one flood into several connections.
func (a *Arena) pourOne(ctx context.Context, open opener, f flood) (r floodResult) {
	crowd, err := a.Crowd(ctx, pourPeers, open)
	if err != nil {
		return floodResult{err: err}
	}
	before, watched := a.Server.memory()
	outcomes := make([]poured, len(crowd))
	var pourers sync.WaitGroup
	for i, c := range crowd {
		pourers.Go(func() { outcomes[i] = c.pour(ctx, f, a.pourMost()) })
	}
	pourers.Wait()
	end, stalled := "", false
	for _, p := range outcomes {
		stalled = stalled || p.stalled
		end = p.end()
		r.taken = max(r.taken, p.sent)
		if p.sent >= a.pourMost() && !p.closed && len(p.bytes) == 0 {
			r.swallowed++
		}
	}
	a.Note("%s: %s, after %d KiB at most", f.what, end, r.taken>>10)
	if now, ok := a.Server.memory(); ok && watched {
		r.grown = now - before
	}
	if stalled {
		r.share, r.busy = a.Server.busy(ctx, a.spins)
	}
	for _, c := range crowd {
		c.Close()
	}
	r.err = ctx.Err()
	return r
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

// headFloods are heads without end.
func headFloods(a *Arena) []flood {
	return []flood{
		{"fields in a head", a.head("GET", ""), "X-Flood: b\r\n", false},
		{"one value", a.head("GET", "X-Flood: "), "abcdefgh", false},
		{"one name", a.head("GET", ""), "abcdefgh", false},
		{"a folded value", a.head("GET", "X-Flood: b\r\n"), " c\r\n", false},
		{"a method", "", "ABCDEFGH", false},
		{"a target", "GET /", "abcdefgh", false},
		{"empty lines", "", "\r\n", true},
	}
}

// chunkFloods are the parts of a chunked body without end that are not the body.
func chunkFloods(a *Arena) []flood {
	chunked := a.head("POST", "Transfer-Encoding: chunked\r\n\r\n")
	return []flood{
		{"an extension", chunked + "1;a=", "abcdefgh", true},
		{"zeros before a size", chunked, "00000000", true},
		{"a trailer's fields", chunked + "0\r\n", "X-Flood: b\r\n", true},
		{"a trailer's value", chunked + "0\r\nX-Flood: ", "abcdefgh", true},
	}
}

// hugeLengths sends the beginnings of bodies that are said to be huge. Memory that a server reserves
// for what is only announced shows in what the process uses.
func hugeLengths(ctx context.Context, a *Arena) Finding {
	heads := []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n", int64(math.MaxInt64)),
		"Content-Length: 1099511627776\r\n\r\n",
		"Content-Length: 2147483648\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n",
		"Transfer-Encoding: chunked\r\n\r\n80000000\r\n",
	}
	before, watched := a.Server.memory()
	outcomes, err := a.hearAll(ctx, hugePeers, func(i int) string { return heads[i%len(heads)] + strings.Repeat("x", hugeBody) })
	if err != nil {
		return unknown("%v", err)
	}
	now, _ := a.Server.memory()
	grown := now - before
	answered, closed := 0, 0
	for _, got := range outcomes {
		if len(got.bytes) > 0 {
			answered++
		}
		if got.closed {
			closed++
		}
	}
	words := fmt.Sprintf("of %d bodies of up to 2^63 - 1 bytes it answered %d at once and closed %d", hugePeers, answered, closed)
	if watched && grown > hugePeers<<20 {
		return falls("%s; its memory grew by %s", words, size(grown))
	}
	return survives("%s", words)
}

// hearAll sends the beginning of a POST on each of n connections, and returns what came back.
func (a *Arena) hearAll(ctx context.Context, n int, lines func(i int) string) ([]heard, error) {
	crowd, err := a.Crowd(ctx, n, (*Arena).Dial)
	if err != nil {
		return nil, err
	}
	outcomes := make([]heard, n)
	var peers sync.WaitGroup
	for i, c := range crowd {
		peers.Go(func() { outcomes[i] = c.hear(ctx, a.Answer/2, [][]byte{[]byte(a.head("POST", lines(i)))}, nil) })
	}
	peers.Wait()
	return outcomes, nil
}

// expectNothing asks whether to send a body, as some clients do, and never sends it.
func expectNothing(ctx context.Context, a *Arena) Finding {
	outcomes, err := a.hearAll(ctx, expectMany, func(int) string { return "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n" })
	if err != nil {
		return unknown("%v", err)
	}
	asked, answered := 0, 0
	for _, got := range outcomes {
		switch {
		case bytes.HasPrefix(got.bytes, []byte("HTTP/1.1 100")):
			asked++
		case len(got.bytes) > 0:
			answered++
		}
	}
	if silent := expectMany - asked - answered; silent > 0 {
		a.Note("neither the body is asked for nor an answer given on %d connections; RFC 9110 §10.1.1 wants one of both", silent)
	}
	return survives("asked %d of %d clients for their bodies and answered %d without", asked, expectMany, answered)
}
