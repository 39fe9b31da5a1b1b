package torture

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// crowdScenarios attack any kind of server with good requests, or with none.
func crowdScenarios() []Scenario {
	return []Scenario{
		{Name: "segmentation", Kinds: AllKinds, Attack: segmentation,
			Title: "Clients send good requests cut at random places, or byte by byte, and check the answers."},
		{Name: "pipelining", Kinds: AllKinds, Whole: true, Attack: pipelining,
			Title: "Clients send 64 good requests at once and check the answers."},
		{Name: "half-close", Kinds: Messages | HTTP, Whole: true, Attack: halfClose,
			Title: "Clients send requests, close their sending side, and read the answers."},
		{Name: "reset-at-each-byte", Kinds: AllKinds, Attack: resetAtEachByte,
			Title: "Clients send a part of a request, one byte more each time, and reset the connection."},
		{Name: "reset-with-answers-due", Kinds: AllKinds, Attack: resetWithAnswersDue,
			Title: "Clients send requests and reset the connection before they read an answer."},
		{Name: "random-bytes", Kinds: AllKinds, Attack: randomBytes,
			Title: "Clients send random bytes."},
		{Name: "churn", Kinds: AllKinds, Attack: churn,
			Title: "Clients connect, ask once and leave, as fast as they can, in three equal rounds."},
		{Name: "connection-flood", Kinds: AllKinds, Attack: connectionFlood,
			Title: "A crowd connects at once, sends nothing and stays."},
		{Name: "request-flood", Kinds: AllKinds, Whole: true, Attack: requestFlood,
			Title: "Some clients keep many requests in flight, as fast as they can."},
		{Name: "never-reads", Kinds: AllKinds, Attack: neverReads,
			Title: "A client sends requests as fast as it can and reads none of the answers."},
		{Name: "never-reading-crowd", Kinds: AllKinds, Attack: neverReadingCrowd,
			Title: "A crowd sends requests and reads none of the answers."},
		{Name: "slow-reader", Kinds: AllKinds, Whole: true, Attack: slowReader,
			Title: "Honest clients send many requests and read the answers slowly, but do read them."},
		{Name: "silent", Kinds: AllKinds, Waits: true, Attack: waits("silent connections", (*Arena).DialPlain, saysNothing),
			Title: "Clients connect and never send a byte."},
		{Name: "silent-after-answer", Kinds: AllKinds, Whole: true, Waits: true, Attack: waits("connections that had asked once", (*Arena).Open, asksOnce),
			Title: "Clients ask once and then are silent."},
		{Name: "half-request", Kinds: AllKinds, Waits: true, Attack: waits("connections with half a request", (*Arena).Open, halfRequest),
			Title: "Clients send half a request and no more."},
		{Name: "trickle", Kinds: AllKinds, Waits: true, Attack: trickle,
			Title: "Clients send a request byte by byte, so slowly that it never ends."},
		{Name: "stops-reading", Kinds: AllKinds, Waits: true, Attack: stopsReading,
			Title: "Clients send requests until the server takes no more, read nothing, and stay."},
	}
}

const segmented = 60

func segmentation(ctx context.Context, a *Arena) Finding {
	return a.each(ctx, segmented, (*Arena).Open, survives("%d requests in pieces, all answered", segmented), func(i int, c *Conn) Finding {
		request := c.Request(nil)
		for len(request) > 0 {
			n := 1
			if i%4 > 0 {
				n = 1 + a.Rand.IntN(len(request))
			}
			if _, err := c.Write(request[:n]); err != nil {
				return falls("request %d was refused in the middle: %s", i+1, plain(err))
			}
			request = request[n:]
			pause(ctx, time.Duration(a.Rand.IntN(int(time.Millisecond))))
		}
		if err := c.Answers(1); err != nil {
			return falls("request %d of %d, sent in pieces: %s", i+1, segmented, plain(err))
		}
		c.Close()
		return Finding{}
	})
}

const pipelined = 64

func pipelining(ctx context.Context, a *Arena) Finding {
	const clients = 8
	return a.each(ctx, clients, (*Arena).Open, survives("%d × %d requests at once, all answered", clients, pipelined), func(_ int, c *Conn) Finding {
		_, err := c.Write(c.requests(pipelined))
		if err == nil {
			err = c.Answers(pipelined)
		}
		switch {
		case err != nil && c.client.closing:
			return doesNotApply("the server announces that it closes the connection after %d answers or fewer", pipelined)
		case err != nil:
			return falls("%d requests at once: %s", pipelined, plain(err))
		}
		return Finding{}
	})
}

// requests returns n good requests.
func (c *Conn) requests(n int) (b []byte) {
	for range n {
		b = c.Request(b)
	}
	return b
}

const lateBy = 200 * time.Millisecond // reading, so that buffers have filled

// halfClose asks once, then often, then until the server takes no more.
func halfClose(ctx context.Context, a *Arena) Finding {
	for _, n := range []int{1, 100, 0} {
		if n > 1 && a.target.kind == HTTP {
			n = 8
		}
		c, err := a.Open(ctx)
		if err != nil {
			return unknown("%s", plain(err))
		}
		if n > 0 {
			_, err = c.Write(c.requests(n))
		} else {
			n, err = c.fill(ctx, 8<<20, func() []byte { return c.requests(64) })
		}
		if err == nil {
			err = c.CloseWrite()
		}
		if err != nil {
			return falls("the connection ended within %d requests: %s", n, plain(err))
		}
		if !pause(ctx, lateBy) {
			return unknown("interrupted")
		}
		if err := c.Answers(n); err != nil {
			if c.client.closing {
				a.Note("%d requests: the server announced that it closes the connection", n)
				continue
			}
			if ctx.Err() != nil {
				return unknown("the answers to %d requests took longer than the scenario", n)
			}
			return falls("%d requests, then the end of the sending side: %s", n, plain(err))
		}
		a.Note("%d requests before the end: all answered", n)
	}
	return survives("all requests before the end are answered")
}

// send sends what next returns until most bytes are sent, the server takes nothing for that long, or ctx
// ends. What is left of the last block is sent first by the next send.
func (c *Conn) send(ctx context.Context, most int, patience time.Duration, next func() []byte) (sent int, err error) {
	for sent < most && err == nil && ctx.Err() == nil {
		if len(c.rest) == 0 {
			c.rest = next()
		}
		n := 0
		if err = c.SetWriteDeadline(earlier(ctx, patience)); err == nil {
			n, err = c.Write(c.rest)
		}
		c.rest, sent = c.rest[n:], sent+n
	}
	return sent, err
}

// unread returns good requests, 64 KiB of them, and forgets those before: nobody reads the answers.
func (c *Conn) unread() []byte {
	c.client.codec = c.arena.target.Caller()
	return c.requests(max(1, (64<<10)/c.arena.target.size))
}

// fill sends whole requests until the server takes no more for a while, or most bytes, and returns
// how many it took. A request that it took in part is not counted.
func (c *Conn) fill(ctx context.Context, most int, next func() []byte) (n int, err error) {
	sent, err := c.send(ctx, most, lateBy, next)
	if isTimeout(err) {
		err = nil
	}
	return sent / c.client.size, err
}

func isTimeout(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

func resetAtEachByte(ctx context.Context, a *Arena) Finding {
	n := min(300, 2*a.target.size+1)
	return a.each(ctx, n, (*Arena).Open, survives("a reset after each of %d bytes", n), func(i int, c *Conn) Finding {
		_, err := c.Write(c.requests(2)[:i])
		if reset := c.Reset(); err != nil || reset != nil {
			a.Note("%d bytes: %s", i, plain(errors.Join(err, reset)))
		}
		return Finding{}
	})
}

func resetWithAnswersDue(ctx context.Context, a *Arena) Finding {
	const clients = 200
	return a.each(ctx, clients, (*Arena).Open, survives("%d clients reset their connections", clients), func(i int, c *Conn) Finding {
		_, err := c.Write(c.requests(32))
		if i%2 > 0 {
			pause(ctx, time.Duration(a.Rand.IntN(int(2*time.Millisecond))))
		}
		if reset := c.Reset(); err != nil || reset != nil {
			a.Note("client %d: %s", i, plain(errors.Join(err, reset)))
		}
		return Finding{}
	})
}

func randomBytes(ctx context.Context, a *Arena) Finding {
	const clients = 200
	turn := 0
	open := func(a *Arena, ctx context.Context) (*Conn, error) {
		turn++
		return []opener{(*Arena).Dial, (*Arena).Open}[turn%2](a, ctx)
	}
	return a.each(ctx, clients, open, survives("%d clients sent random bytes", clients), func(i int, c *Conn) Finding {
		if _, err := c.Write(a.junk(1 + a.Rand.IntN(4096))); err != nil {
			a.Note("client %d: %s", i, plain(err))
		}
		if i%8 > 0 {
			c.Close()
		}
		return Finding{}
	})
}

// junk returns n random bytes.
func (a *Arena) junk(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(a.Rand.Uint32())
	}
	return b
}

const (
	churnRound   = 600                     // connections
	leakAtLeast  = 2 << 10                 // bytes for each connection, in both later rounds
	roundWorkers = 8                       // at the same time
	roundTime    = 2500 * time.Millisecond // at most
)

// rounds is what three equal rounds have made, and by how much the process's memory grew in the second
// and the third.
type rounds struct {
	made, least   int64 // in all, and in the shortest round
	known         bool
	second, third int64
}

// each returns by how much memory grew for each of what was made, in both later rounds.
func (r rounds) each() int64 { return min(r.second, r.third) / max(1, r.least) }

// rounds does something n times in each of three rounds, or less often when that takes too long.
func (a *Arena) rounds(ctx context.Context, n int, do func(worker int)) rounds {
	r := rounds{least: int64(n), known: true}
	var made atomic.Int64
	var memory [3]int64
	for i := range memory {
		before := made.Load()
		round, cancel := context.WithTimeout(ctx, roundTime)
		var workers sync.WaitGroup
		for worker := range roundWorkers {
			workers.Go(func() {
				for i := 0; i < n/roundWorkers && round.Err() == nil; i++ {
					do(worker)
					made.Add(1)
				}
			})
		}
		workers.Wait()
		cancel()
		pause(ctx, lateBy)
		now, ok := a.Server.memory()
		memory[i], r.known = now, r.known && ok
		r.least = min(r.least, made.Load()-before)
	}
	r.made, r.second, r.third = made.Load(), memory[1]-memory[0], memory[2]-memory[1]
	return r
}

func churn(ctx context.Context, a *Arena) Finding {
	var lost atomic.Int64
	r := a.rounds(ctx, churnRound, func(int) {
		if err := a.Healthy(ctx); err != nil && ctx.Err() == nil {
			lost.Add(1)
			a.Note("%s", plain(err))
		}
	})
	switch {
	case lost.Load() > 0:
		return falls("%d of %d newcomers were not served", lost.Load(), r.made)
	case !r.known || r.least == 0:
		return survives("%d connections, all served", r.made)
	case r.each() >= leakAtLeast:
		return falls("its memory grows by %s for each connection, although all have left", size(r.each()))
	}
	return survives("%d connections, all served; its memory grew by %s in the third round of %d", r.made, size(r.third), r.least)
}

func connectionFlood(ctx context.Context, a *Arena) Finding {
	crowd, err := a.Crowd(ctx, a.Conns-1, (*Arena).DialPlain)
	if err != nil {
		a.Note("%v", err)
	}
	pause(ctx, a.Answer/2)
	return a.serves(ctx, "beside %d silent connections", len(crowd)).or(survives("newcomers are served beside %d silent connections", len(crowd)))
}

func requestFlood(ctx context.Context, a *Arena) Finding {
	const clients, depth = 32, 32
	until := time.Now().Add(a.Answer)
	var answered atomic.Int64
	var failed atomic.Pointer[error]
	var flood sync.WaitGroup
	for range clients {
		flood.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				n, err := a.burst(ctx, depth, until)
				answered.Add(int64(n))
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	flood.Wait()
	if err := failed.Load(); err != nil {
		return falls("%d requests were answered, and then: %s", answered.Load(), plain(*err))
	}
	return survives("%d requests from %d clients answered", answered.Load(), clients)
}

// burst keeps depth requests in flight on one connection until then, or until the server announces
// its end.
func (a *Arena) burst(ctx context.Context, depth int, until time.Time) (answered int, err error) {
	c, err := a.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for time.Now().Before(until) && ctx.Err() == nil {
		if _, err := c.Write(c.requests(depth)); err != nil {
			return answered, notAnnounced(c, err)
		}
		for range depth {
			if err := c.Answers(1); err != nil {
				return answered, notAnnounced(c, err)
			}
			answered++
		}
	}
	return answered, nil
}

// notAnnounced returns err unless the server has announced that it closes the connection, or the
// scenario may send no more.
func notAnnounced(c *Conn, err error) error {
	if c.client.closing || errors.Is(err, errTooMuch) {
		return nil
	}
	return err
}

const mostHeld = 64 << 20 // bytes that a server may hold for one client

// stall is how long a server that takes nothing is waited for: so long that a bystander's silence
// counts.
func (a *Arena) stall() time.Duration { return 2*time.Second + a.Answer/4 }

func neverReads(ctx context.Context, a *Arena) Finding {
	c, err := a.Open(ctx)
	if err != nil {
		return unknown("%s", plain(err))
	}
	before, watched := a.Server.memory()
	blocks, grown := 0, int64(0)
	look := func() {
		now, _ := a.Server.memory()
		grown = max(grown, now-before)
	}
	sent, err := c.send(ctx, math.MaxInt, a.stall(), func() []byte {
		if blocks++; blocks%128 == 0 {
			look()
		}
		return c.unread()
	})
	look()
	how := "closes the connection after " + size(int64(sent))
	switch {
	case errors.Is(err, errTooMuch), ctx.Err() != nil:
		how = "takes all of " + size(int64(sent))
	case isTimeout(err):
		how = "stops reading after " + size(int64(sent))
	}
	if watched && grown > mostHeld {
		return falls("%s of requests whose answers are not read, and holds %s for one client", how, size(grown))
	}
	if share, yes := a.Server.busy(ctx, a.spins); yes {
		return falls("%s, and then uses %.0f %% of a CPU", how, 100*share)
	}
	if !watched && errors.Is(err, errTooMuch) && c.SetReadDeadline(earlier(ctx, a.stall())) == nil {
		most := min(mostHeld, a.Bytes/2) // far more than the kernels hold
		if held, _ := io.CopyN(io.Discard, c.Conn, most+1); held > most {
			return falls("%s of requests whose answers are not read, and held more than %s of answers", how, size(most))
		}
	}
	return survives("%s", how)
}

func neverReadingCrowd(ctx context.Context, a *Arena) Finding {
	const clients = 32
	each := int(min(2<<20, a.Bytes/2/clients))
	crowd, err := a.Crowd(ctx, clients, (*Arena).Open)
	if err != nil {
		a.Note("%v", err)
	}
	var sent atomic.Int64
	var all sync.WaitGroup
	for _, c := range crowd {
		all.Go(func() {
			n, _ := c.fill(ctx, each, c.unread) // that it fails is what servers may do
			sent.Add(int64(n))
		})
	}
	all.Wait()
	pause(ctx, a.stall())
	return a.serves(ctx, "beside %d clients that do not read", len(crowd)).or(
		survives("took %d requests of %d clients that do not read, and serves newcomers", sent.Load(), len(crowd)))
}

func slowReader(ctx context.Context, a *Arena) Finding {
	const clients, rate = 4, 128 << 10 // bytes a second
	most := int64(rate * a.Within.Seconds() / 3)
	asked := int(max(1, min(8000, most/max(1, a.target.known.whole))))
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range clients {
		c, err := a.Open(ctx)
		if err != nil {
			return unknown("%s", plain(err))
		}
		slow := &slowly{ctx: ctx, from: c.Conn, every: time.Second / 16, part: rate / 16}
		all.Go(func() {
			requests := c.requests(asked)
			var writing sync.WaitGroup
			writing.Go(func() { _, _ = c.Write(requests) }) // reading reports that it failed
			for range asked {
				if err := c.client.answer(slow); err != nil && notAnnounced(c, err) != nil {
					failed.CompareAndSwap(nil, &err)
					break
				} else if err != nil {
					break
				}
			}
			c.Close()
			writing.Wait()
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return unknown("the answers took longer than the scenario")
	}
	if err := failed.Load(); err != nil {
		return falls("answers to clients that read %d KiB a second are lost: %s", rate>>10, plain(*err))
	}
	return survives("%d × %d answers, read at %d KiB a second", clients, asked, rate>>10)
}

// slowly reads a part at a time, with pauses.
type slowly struct {
	ctx   context.Context
	from  io.Reader
	every time.Duration
	part  int
}

// Read reads after a pause.
func (s *slowly) Read(p []byte) (int, error) {
	if !pause(s.ctx, s.every) {
		return 0, s.ctx.Err()
	}
	return s.from.Read(p[:min(len(p), s.part)])
}

const drip = 500 * time.Millisecond // between two bytes of those that trickle

// beginning is what a peer of a scenario that waits does first. It returns what is then sent a byte at
// a time, over and over; empty: nothing.
type beginning func(c *Conn, peer int) (more string, err error)

// waits returns an attack whose peers begin and then wait until the server has closed them. What names
// their connections, in the plural.
func waits(what string, open opener, begin beginning) func(context.Context, *Arena) Finding {
	return func(ctx context.Context, a *Arena) Finding { return a.waits(ctx, what, open, drip, begin) }
}

func (a *Arena) waits(ctx context.Context, what string, open opener, every time.Duration, begin beginning) Finding {
	var more []string
	crowd, err := a.Crowd(ctx, a.Few, func(a *Arena, ctx context.Context) (*Conn, error) {
		c, err := open(a, ctx)
		if err != nil {
			return nil, err
		}
		text, err := begin(c, len(more)) // at once: the server's time limit runs
		more = append(more, text)
		return c, err
	})
	if err != nil && len(crowd) == 0 {
		return unknown("%v", err)
	}
	dripping, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		for at := 0; pause(dripping, every); at++ {
			for peer, c := range crowd {
				if text := more[peer]; text != "" {
					_, _ = io.WriteString(c, text[at%len(text):][:1]) // Closings notices that the server has closed
				}
			}
		}
	})
	took := a.Closings(ctx, crowd)
	stop()
	writer.Wait()
	return a.closed(what, took)
}

func saysNothing(*Conn, int) (more string, err error) { return "", nil }

func asksOnce(c *Conn, _ int) (more string, err error) { return "", c.Ask() }

func halfRequest(c *Conn, _ int) (more string, err error) {
	request := c.Request(nil)
	_, err = c.Write(request[:len(request)/2])
	return "", err
}

// trickle sends all but the last byte of a request, over more than the whole wait if it is short.
func trickle(ctx context.Context, a *Arena) Finding {
	every := max(a.Wait/time.Duration(max(1, a.target.size-2)), a.Wait/300) * 11 / 10
	return a.waits(ctx, "connections with a request that trickles", (*Arena).Open, every, func(c *Conn, _ int) (more string, err error) {
		request := c.Request(nil)
		_, err = c.Write(request[:1])
		return string(request[1:max(1, len(request)-1)]), err
	})
}

// endsWhenRead reports whether a connection ends once what has come is read: then the server had
// closed it, and the kernel could not say so, as there was no room.
func (c *Conn) endsWhenRead(within time.Duration) bool {
	if c.tcp.SetReadDeadline(time.Now().Add(within)) != nil {
		return true
	}
	_, err := io.Copy(io.Discard, io.LimitReader(c.tcp, c.arena.Bytes))
	return !isTimeout(err)
}

// stopsReading waits for the server to reset the connection.
func stopsReading(ctx context.Context, a *Arena) Finding {
	crowd, err := a.Crowd(ctx, max(1, a.Few/8), (*Arena).Open)
	if err != nil && len(crowd) == 0 {
		return unknown("%s", plain(err))
	}
	began := time.Now()
	took := make([]time.Duration, len(crowd))
	var full atomic.Bool
	var all sync.WaitGroup
	for i, c := range crowd {
		all.Go(func() {
			took[i] = -1
			for until := began.Add(a.Wait + a.Wait/50); time.Now().Before(until) && ctx.Err() == nil; {
				n, err := c.fill(ctx, int(a.Bytes)/4/len(crowd), c.unread)
				switch {
				case errors.Is(err, errTooMuch):
					return
				case err != nil:
					took[i] = time.Since(began)
					return
				case n == 0:
					full.Store(true)
					if a.target.tls != nil { // TLS cannot go on after a write that timed out
						pause(ctx, time.Until(until))
					}
				}
			}
		})
	}
	all.Wait()
	for i, c := range crowd {
		if took[i] < 0 && c.endsWhenRead(a.Answer) {
			took[i] = time.Since(began)
		}
	}
	if !full.Load() && took[0] < 0 {
		return unknown("the server never stopped taking requests of clients that read nothing, up to %s", size(a.sent.Load()))
	}
	return a.closed("connections that read nothing", took)
}
