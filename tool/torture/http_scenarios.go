package torture

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// httpScenarios attack HTTP/1.1, and the handshake of WebSocket with it.
var httpScenarios = []Scenario{
	{Name: "malformed-requests", Kinds: HTTP, Whole: true, Attack: sendMalformed(lineInputs, fieldInputs, hostInputs, lifeInputs),
		Title: "Malformed and unusual requests: request lines, fields, Hosts and the ends of connections."},
	{Name: "request-smuggling", Kinds: HTTP, Whole: true, Attack: sendMalformed(lengthInputs, codingInputs, chunkInputs),
		Title: "Requests whose length is ambiguous or malformed, with another request hidden in their bodies."},
	{Name: "endless-heads", Kinds: HTTP | WebSocket, Attack: pourAll((*target).Bare, headFloods),
		Title: "Heads without end: fields, one value, one name, a folded value, a method, a target, empty lines."},
	{Name: "large-heads", Kinds: HTTP | WebSocket, Attack: largeHeads,
		Title: "Complete heads of 60 KB to 1 MB with thousands of fields, beside heads as large with one long value."},
	{Name: "many-targets", Kinds: HTTP, Access: Watched, Attack: manyTargets,
		Title: "Clients ask for 21,000 different paths and queries, in three equal rounds."},
	{Name: "endless-chunk-parts", Kinds: HTTP, Attack: pourAll((*target).Bare, chunkFloods),
		Title: "Chunked bodies whose extensions, sizes or trailers have no end."},
	{Name: "huge-bodies", Kinds: HTTP, Attack: hugeLengths,
		Title: "Bodies and chunks of up to 2^63 - 1 bytes are announced, and 1 KiB of each is sent."},
	{Name: "expect-continue", Kinds: HTTP, Attack: expectNothing,
		Title: "Clients ask whether to send their bodies, and never send them."},
	{Name: "event-streams", Kinds: HTTP, Attack: streams,
		Title: "A crowd of event streams starts at once."},
	{Name: "slow-heads", Kinds: HTTP | WebSocket, Waits: true, Attack: waits("heads that trickle", (*target).Bare, slowHead),
		Title: "Heads without end trickle, a byte at a time."},
	{Name: "slow-bodies", Kinds: HTTP, Waits: true, Attack: waits("bodies that trickle", (*target).Bare, slowBody),
		Title: "Bodies trickle, with a length and in chunks, or never come after Expect: 100-continue."},
}

// head returns the start of a request, without the empty line.
func (t *target) head(method, lines string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, t.path, t.host, lines)
}

// slowHead begins with the request line or within a field, and never ends the head.
func slowHead(c *Conn, peer int) error {
	t := c.target
	beginnings := []string{"GET /", t.head("GET", ""), t.head("GET", "X-Slow: "), t.head("GET", "Accept: */*\r\n")}
	if c.rest = []byte("X-a: b\r\n"); peer%len(beginnings) == 0 {
		c.rest = []byte("a")
	}
	_, err := io.WriteString(c, beginnings[peer%len(beginnings)])
	return err
}

// slowBody promises a body and sends it a byte at a time, in chunks, or not at all.
func slowBody(c *Conn, peer int) error {
	ways := []struct{ lines, rest string }{
		{"Content-Length: 1000000\r\n\r\n", "x"},
		{"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
		{"Transfer-Encoding: chunked\r\n\r\n5000\r\n", "x"},
		{"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n", ""},
	}
	way := ways[peer%len(ways)]
	c.rest = []byte(way.rest)
	_, err := io.WriteString(c, c.target.head("POST", way.lines))
	return err
}

const (
	hugePeers  = 50
	hugeBody   = 1 << 10 // bytes that are sent of a body that is said to be huge
	expectMany = 20
)

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
	grew := a.growth()
	outcomes, err := a.hearAll(ctx, hugePeers, func(i int) string { return heads[i%len(heads)] + strings.Repeat("x", hugeBody) })
	if err != nil {
		return unknown("%v", err)
	}
	grown, watched := grew()
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
	crowd, err := a.Crowd(ctx, n, (*target).Bare, saysNothing)
	if err != nil {
		return nil, err
	}
	return atOnce(n, func(i int) heard {
		return crowd[i].hear(ctx, a.Answer/2, [][]byte{[]byte(a.target.head("POST", lines(i)))}, nil)
	}), nil
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
			if c, err = a.Open(ctx, (*target).Dial); err != nil {
				return // which the bystanders feel
			}
			c.renew(false)
		}
		if conns[worker] = c; c.asksFor(turn.Add(1)) != nil || c.closing {
			c.Close()
			conns[worker] = nil
		}
	})
	switch each := r.each(); {
	case !r.known || r.least < fewTargets:
		return unknown("%d requests for different targets are too few to judge its memory", r.made)
	case each >= keptAtLeast && r.both() >= keptInAll:
		return falls("its memory grows by %s for each request with a path or a query of its own", size(each))
	}
	return survives("%d requests with a path or a query of their own; its memory grew by %s in the third round of %d", r.made, size(r.third()), r.least)
}

// asksFor sends the good request with a path or a query of its own, to which any answer will do.
func (c *Conn) asksFor(n uint64) error {
	path := c.target.path
	separator := "/"
	if n%2 > 0 || strings.Contains(path, "?") {
		separator = "?" // a second one belongs to the query
	}
	own := fmt.Sprintf(" %s%s%016x ", path, separator, n)
	_, err := c.exchange(bytes.Replace(c.Request(nil), []byte(" "+path+" "), []byte(own), 1), c.within(c.arena.Answer))
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
	c, err := a.Open(ctx, (*target).Bare)
	if err != nil {
		return 0, "", err
	}
	before, _ := a.Server.Used()
	got := poured{heard: c.hear(ctx, 3*a.Answer, [][]byte{[]byte(a.target.head("GET", lines+"\r\n"))}, func([]byte) bool { return true })}
	after, _ := a.Server.Used()
	if len(got.bytes) > 0 || got.closed {
		words = got.end()
	}
	besides := time.Duration(a.spins * float64(got.took)) // for the bystanders
	return max(0, after.CPU-before.CPU-besides), words, nil
}

const (
	aloneStreams = 3               // before the crowd
	streamCrowd  = 500             // that starts at once
	lateStream   = 2 * time.Second // until the first event, for a fall
	lateTimes    = 10              // of one stream alone
)

// streams starts a crowd of event streams at once.
func streams(ctx context.Context, a *Arena) Finding {
	var alone time.Duration
	for range aloneStreams {
		c, err := a.Open(ctx, (*target).Bare)
		if err != nil {
			return unknown("%v", err)
		}
		first := c.firstEvent(time.Now())
		c.Close()
		switch {
		case first.kind != "" && !strings.HasPrefix(first.kind, "text/event-stream"):
			return doesNotApply("the answer is %s, not text/event-stream", first.kind)
		case first.err != nil:
			return unknown("a single stream: %v", first.err)
		}
		alone = min(cmp.Or(alone, first.took), first.took)
	}
	crowd, err := a.Crowd(ctx, min(streamCrowd, a.Conns-1), (*target).Bare, saysNothing)
	if err != nil {
		return unknown("%v", err)
	}
	began := time.Now()
	all := atOnce(len(crowd), func(i int) firstEvent { return crowd[i].firstEvent(began) })
	late := 0
	for _, first := range all {
		if first.err != nil {
			late++
		}
	}
	slices.SortFunc(all, func(a, b firstEvent) int { return cmp.Compare(a.took, b.took) })
	worst, half := all[len(all)-1].took, all[len(all)/2].took
	switch {
	case late > 0:
		return falls("%d of %d streams that start at once have no event after %s; one alone has it after %s", late, len(crowd), elapsed(worst), elapsed(alone))
	case worst >= lateStream && worst >= lateTimes*alone:
		return falls("%d streams that start at once have their first event after up to %s, half of them after %s; one alone after %s", len(crowd), elapsed(worst), elapsed(half), elapsed(alone))
	}
	return survives("%d streams that started at once had their first event after up to %s; one alone after %s", len(crowd), elapsed(worst), elapsed(alone))
}

// firstEvent is the beginning of an event stream.
type firstEvent struct {
	took time.Duration // until it came, or until nothing came
	kind string        // of the answer, as far as it is known
	err  error
}

// firstEvent asks for the target's path and waits for the first byte of its body.
func (c *Conn) firstEvent(began time.Time) (first firstEvent) {
	c.Request(nil) // of which this is a variant
	_, first.err = c.exchange([]byte(c.target.head("GET", "Accept: text/event-stream\r\n\r\n")), c.within(c.arena.Within))
	first.took = time.Since(began)
	if head, _, found := bytes.Cut(slices.Concat(c.raw, c.in), []byte("\r\n\r\n")); found {
		first.kind = contentType(head)
	}
	return first
}

// contentType returns the Content-Type of an answer, given its head.
func contentType(head []byte) string {
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(line, ":")
		if textproto.CanonicalMIMEHeaderKey(name) == "Content-Type" {
			return strings.TrimSpace(value)
		}
	}
	return "of no type"
}
