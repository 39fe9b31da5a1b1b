package torture

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crowdScenarios attack any kind of server with good requests, or with none.
var crowdScenarios = []Scenario{
	{Name: "segmentation", Kinds: AllKinds, Attack: each(segmented, (*target).Dial, "%d requests in pieces, all answered", segmentation),
		Title: "Clients send good requests cut at random places, or byte by byte, and check the answers."},
	{Name: "pipelining", Kinds: AllKinds, Whole: true, Attack: each(8, (*target).Dial, "%d × 64 requests at once, all answered", pipelining),
		Title: "Clients send 64 good requests at once and check the answers."},
	{Name: "half-close", Kinds: Messages | HTTP, Whole: true, Attack: halfClose,
		Title: "Clients send requests, close their sending side, and read the answers."},
	{Name: "reset-at-each-byte", Kinds: AllKinds, Attack: resetAtEachByte,
		Title: "Clients send a part of a request, one byte more each time, and reset the connection."},
	{Name: "reset-with-answers-due", Kinds: AllKinds, Attack: resetWithAnswersDue,
		Title: "Clients send requests, or half of one, and reset the connection before they read an answer, in three equal rounds."},
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
	{Name: "silent", Kinds: AllKinds, Waits: true, Attack: waits("silent connections", (*target).Plain, saysNothing),
		Title: "Clients connect and never send a byte."},
	{Name: "silent-after-answer", Kinds: AllKinds, Whole: true, Waits: true, Attack: waits("connections that had asked once", (*target).Dial, asksOnce),
		Title: "Clients ask once and then are silent."},
	{Name: "half-request", Kinds: AllKinds, Waits: true, Attack: waits("connections with half a request", (*target).Dial, halfRequest),
		Title: "Clients send half a request and no more."},
	{Name: "time-outs", Kinds: AllKinds, Access: Watched, Waits: true, Attack: timedOut,
		Title: "Clients send half a request and wait until the server closes, in three equal rounds."},
	{Name: "trickle", Kinds: AllKinds, Waits: true, Attack: trickle,
		Title: "Clients send a request byte by byte, so slowly that it never ends."},
	{Name: "stops-reading", Kinds: AllKinds, Waits: true, Attack: stopsReading,
		Title: "Clients send requests until the server takes no more, read nothing, and stay."},
}

const segmented = 60

func segmentation(ctx context.Context, c *Conn, i int) Finding {
	a := c.arena
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
}

const pipelined = 64 // as its done words say, too

func pipelining(_ context.Context, c *Conn, _ int) Finding {
	_, err := c.Write(c.requests(pipelined))
	if err == nil {
		err = c.Answers(pipelined)
	}
	switch {
	case err != nil && c.closing:
		return doesNotApply("the server announces that it closes the connection after %d answers or fewer", pipelined)
	case err != nil:
		return falls("%d requests at once: %s", pipelined, plain(err))
	}
	return Finding{}
}

const lateBy = 200 * time.Millisecond // reading, so that buffers have filled

// halfClose asks once, then often, then until the server takes no more, or for as much as the scenario may send.
func halfClose(ctx context.Context, a *Arena) Finding {
	most := 8 << 20 // bytes of requests, and of those only as many as have a.Bytes of answers
	for _, n := range []int{1, 100, 0} {
		if n > 1 && a.target.kind == HTTP {
			n = 8
		}
		c, err := a.Open(ctx, (*target).Dial)
		if err != nil {
			return unknown("%s", plain(err))
		}
		if n > 0 {
			_, err = c.Write(c.requests(n))
		} else {
			n, err = c.fill(ctx, most, func() []byte { return c.requests(64) })
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
		switch err := c.Answers(n); {
		case err == nil:
			most = min(most, int(a.Bytes)/max(1, len(c.raw))*c.size)
			a.Note("%d requests before the end: all answered", n)
		case c.closing:
			a.Note("%d requests: the server announced that it closes the connection", n)
		case ctx.Err() != nil, isTimeout(err) && c.within(0).Equal(c.until):
			return unknown("the answers to %d requests took longer than the scenario", n)
		default:
			return falls("%d requests, then the end of the sending side: %s", n, plain(err))
		}
	}
	return survives("all requests before the end are answered")
}

func resetAtEachByte(ctx context.Context, a *Arena) Finding {
	n := min(300, 2*a.target.size+1)
	return each(n, (*target).Dial, "a reset after each of %d bytes", func(_ context.Context, c *Conn, i int) Finding {
		_, err := c.Write(c.requests(2)[:i])
		a.noteError(errors.Join(err, c.Reset()), "%d bytes", i)
		return Finding{}
	})(ctx, a)
}

func resetWithAnswersDue(ctx context.Context, a *Arena) Finding {
	var turn atomic.Int64
	r := a.rounds(ctx, churnRound, func(int) {
		i := turn.Add(1)
		c, err := a.Open(ctx, (*target).Dial)
		if err != nil {
			return // which the bystanders feel
		}
		requests := c.requests(8)
		if i%4 == 0 {
			requests = requests[:c.size/2]
		}
		_, err = c.Write(requests)
		if i%2 > 0 {
			pause(ctx, time.Duration(i%20)*time.Millisecond/10)
		}
		a.noteError(errors.Join(err, c.Reset()), "client %d", i)
	})
	return r.leaks("connection that was reset").or(survives("%d clients reset their connections", r.made))
}

// timedOut leaves half a request on each connection until the server closes it, in three equal rounds.
func timedOut(ctx context.Context, a *Arena) Finding {
	const clients = 200
	a.Wait /= 3 // for each round
	grew, stay := a.growth(), a.stay(ctx)
	r := rounds{known: true, least: int64(min(clients, a.Conns))}
	for i := range r.grown {
		crowd, err := a.Crowd(ctx, int(r.least), (*target).Dial, halfRequest)
		if err != nil {
			return unknown("%v", err)
		}
		if slices.Min(a.Closings(ctx, crowd)) < 0 {
			return doesNotApply("half a request may wait for longer than %v, a third of --wait", a.Wait)
		}
		for _, c := range crowd {
			c.Close()
		}
		pause(ctx, lateBy)
		now, known := grew()
		r.grown[i], r.known, r.made = now, r.known && known, r.made+r.least
	}
	r.stay = stay(r.made)
	return r.leaks("connection that timed out").or(survives("%d connections timed out; its memory grew by %s in the third round of %d", r.made, size(r.third()), r.least))
}

func randomBytes(ctx context.Context, a *Arena) Finding {
	turn := 0
	open := func(t *target, ctx context.Context) (net.Conn, error) {
		turn++
		return []opener{(*target).Bare, (*target).Dial}[turn%2](t, ctx)
	}
	return each(200, open, "%d clients sent random bytes", func(_ context.Context, c *Conn, i int) Finding {
		_, err := c.Write(a.junk(1 + a.Rand.IntN(4096)))
		a.noteError(err, "client %d", i)
		if i%8 > 0 {
			c.Close()
		}
		return Finding{}
	})(ctx, a)
}

const (
	churnRound   = 600                     // connections
	leakAtLeast  = 2 << 10                 // bytes for each connection, in both later rounds
	roundWorkers = 8                       // at the same time
	roundTime    = 2500 * time.Millisecond // at most
)

// rounds is what three equal rounds have made.
type rounds struct {
	made, least int64 // in all, and in the shortest round
	known       bool
	grown       [3]int64 // by how much the process's memory has grown, after each
	stay        int64    // goroutines that it has more than before
}

func (r rounds) third() int64 { return r.grown[2] - r.grown[1] }

// both returns by how much memory grew in both later rounds.
func (r rounds) both() int64 { return min(r.grown[1]-r.grown[0], r.third()) }

// each is both for each of what was made.
func (r rounds) each() int64 { return r.both() / max(1, r.least) }

// leaks returns a finding if something of each connection stays. What names one.
func (r rounds) leaks(what string) Finding {
	switch {
	case r.stay >= r.made/2 && r.stay > 0:
		return falls("%d goroutines stay of %d times a %s", r.stay, r.made, what)
	case r.known && r.least > 0 && r.each() >= leakAtLeast:
		return falls("its memory grows by %s for each %s, although all have left", size(r.each()), what)
	}
	return Finding{}
}

// stay returns what says how many goroutines the server has more than now, once those of clients that have left had
// time to end. Zero: it does not tell.
func (a *Arena) stay(ctx context.Context) func(of int64) int64 {
	before, known := a.target.goroutines(ctx)
	return func(of int64) (more int64) {
		for until := time.Now().Add(a.Gone); known; {
			var now int64
			if now, known = a.target.goroutines(ctx); !known {
				return 0
			}
			if more = now - before; more < of/2 || time.Now().After(until) || !pause(ctx, lookEvery) {
				break
			}
		}
		return more
	}
}

// rounds does something n times in each of three rounds, or less often when that takes too long.
func (a *Arena) rounds(ctx context.Context, n int, do func(worker int)) rounds {
	r := rounds{least: int64(n), known: true}
	grew, stay := a.growth(), a.stay(ctx)
	for i := range r.grown {
		round, cancel := context.WithTimeout(ctx, roundTime)
		made := int64(0)
		for _, of := range atOnce(roundWorkers, func(worker int) (made int64) {
			for made < int64(n/roundWorkers) && round.Err() == nil {
				do(worker)
				made++
			}
			return made
		}) {
			made += of
		}
		cancel()
		pause(ctx, lateBy)
		now, known := grew()
		r.grown[i], r.known = now, r.known && known
		r.made, r.least = r.made+made, min(r.least, made)
	}
	r.stay = stay(r.made)
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
		return r.leaks("connection").or(survives("%d connections, all served", r.made))
	}
	return r.leaks("connection").or(survives("%d connections, all served; its memory grew by %s in the third round of %d", r.made, size(r.third()), r.least))
}

func connectionFlood(ctx context.Context, a *Arena) Finding {
	crowd, err := a.Crowd(ctx, a.Conns-1, (*target).Plain, saysNothing)
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
	err := cmp.Or(atOnce(clients, func(int) (err error) {
		for err == nil && time.Now().Before(until) && ctx.Err() == nil {
			err = a.burst(ctx, depth, until, &answered)
		}
		return err
	})...)
	if err != nil {
		return falls("%d requests were answered, and then: %s", answered.Load(), plain(err))
	}
	return survives("%d requests from %d clients answered", answered.Load(), clients)
}

// burst keeps depth requests in flight on one connection until then, or until the server announces
// its end.
func (a *Arena) burst(ctx context.Context, depth int, until time.Time, answered *atomic.Int64) error {
	c, err := a.Open(ctx, (*target).Dial)
	if err != nil {
		return err
	}
	defer c.Close()
	for err == nil && time.Now().Before(until) && ctx.Err() == nil {
		_, err = c.Write(c.requests(depth))
		for i := 0; i < depth && err == nil; i++ {
			if err = c.Answers(1); err == nil {
				answered.Add(1)
			}
		}
	}
	return c.notAnnounced(err)
}

// notAnnounced returns err unless the server has announced that it closes the connection, or the
// scenario may send no more.
func (c *Conn) notAnnounced(err error) error {
	if c.closing || errors.Is(err, errTooMuch) {
		return nil
	}
	return err
}

const mostHeld = 64 << 20 // bytes that a server may hold for one client

// stall is how long a server that takes nothing is waited for: so long that a bystander's silence
// counts.
func (a *Arena) stall() time.Duration { return 2*time.Second + a.Answer/4 }

func neverReads(ctx context.Context, a *Arena) Finding {
	c, err := a.Open(ctx, (*target).Dial)
	if err != nil {
		return unknown("%s", plain(err))
	}
	grew := a.growth()
	most, watched := grew()
	blocks := 0
	sent, err := c.send(ctx, math.MaxInt, a.stall(), func() []byte {
		if blocks++; blocks%128 == 0 {
			grown, _ := grew()
			most = max(most, grown)
		}
		return c.unread()
	})
	grown, _ := grew()
	most = max(most, grown)
	how := "closes the connection after " + size(int64(sent))
	switch {
	case errors.Is(err, errTooMuch), ctx.Err() != nil:
		how = "takes all of " + size(int64(sent))
	case isTimeout(err):
		how = "stops reading after " + size(int64(sent))
	}
	if watched && most > mostHeld {
		return falls("%s of requests whose answers are not read, and holds %s for one client", how, size(most))
	}
	if share, yes := a.Server.busy(ctx, a.spins, 3*idleFor); yes {
		return falls("%s, and then uses %.0f %% of a CPU", how, 100*share)
	}
	if !watched && errors.Is(err, errTooMuch) && c.SetReadDeadline(c.within(a.stall())) == nil {
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
	crowd, err := a.Crowd(ctx, clients, (*target).Dial, saysNothing)
	if err != nil {
		a.Note("%v", err)
	}
	sent := 0
	for _, n := range atOnce(len(crowd), func(i int) int {
		n, _ := crowd[i].fill(ctx, each, crowd[i].unread) // that it fails is what servers may do
		return n
	}) {
		sent += n
	}
	pause(ctx, a.stall())
	return a.serves(ctx, "beside %d clients that do not read", len(crowd)).or(
		survives("%d requests from %d clients that do not read, and newcomers are served", sent, len(crowd)))
}

func slowReader(ctx context.Context, a *Arena) Finding {
	const clients, rate = 4, 128 << 10 // bytes a second
	most := int64(rate * a.Within.Seconds() / 3)
	asked := int(max(1, min(8000, most/max(1, a.target.known.whole))))
	crowd, err := a.Crowd(ctx, clients, (*target).Dial, saysNothing)
	if err != nil {
		return unknown("%v", err)
	}
	err = cmp.Or(atOnce(clients, func(i int) (err error) {
		c := crowd[i]
		requests := c.requests(asked)
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = c.Write(requests) }) // reading reports that it failed
		slow := &slowly{ctx: ctx, from: c.Conn, every: time.Second / 16, part: rate / 16}
		for n := 0; n < asked && err == nil; n++ {
			err = c.answer(slow)
		}
		c.Close()
		writing.Wait()
		return c.notAnnounced(err)
	})...)
	switch {
	case ctx.Err() != nil:
		return unknown("the answers took longer than the scenario")
	case err != nil:
		return falls("answers to clients that read %d KiB a second are lost: %s", rate>>10, plain(err))
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

// waits returns an attack whose peers begin and then wait until the server has closed them. Meanwhile
// they send a byte of their rest at a time, over and over. What names their connections, in the plural.
func waits(what string, open opener, begin beginning) attackFunc {
	return func(ctx context.Context, a *Arena) Finding { return a.waits(ctx, what, open, drip, begin) }
}

func (a *Arena) waits(ctx context.Context, what string, open opener, every time.Duration, begin beginning) Finding {
	crowd, err := a.Crowd(ctx, a.Few, open, begin) // at once: the server's time limit runs
	if err != nil && len(crowd) == 0 {
		return unknown("%v", err)
	}
	dripping, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		for at := 0; pause(dripping, every); at++ {
			for _, c := range crowd {
				if n := len(c.rest); n > 0 {
					_, _ = c.Write(c.rest[at%n:][:1]) // Closings notices that the server has closed
				}
			}
		}
	})
	took := a.Closings(ctx, crowd)
	stop()
	writer.Wait()
	return a.closed(what, took)
}

func asksOnce(c *Conn, _ int) error { return c.Ask() }

func halfRequest(c *Conn, _ int) error {
	request := c.Request(nil)
	_, err := c.Write(request[:len(request)/2])
	return err
}

// trickle sends all but the last byte of a request, over more than the whole wait if it is short.
func trickle(ctx context.Context, a *Arena) Finding {
	every := max(a.Wait/time.Duration(max(1, a.target.size-2)), a.Wait/300) * 11 / 10
	return a.waits(ctx, "connections with a request that trickles", (*target).Dial, every, func(c *Conn, _ int) error {
		request := c.Request(nil)
		c.rest = request[1:max(1, len(request)-1)]
		_, err := c.Write(request[:1])
		return err
	})
}

// stopsReading waits for the server to reset the connection.
func stopsReading(ctx context.Context, a *Arena) Finding {
	crowd, err := a.Crowd(ctx, max(1, a.Few/8), (*target).Dial, saysNothing)
	if err != nil && len(crowd) == 0 {
		return unknown("%v", err)
	}
	began := time.Now()
	var full atomic.Bool
	took := atOnce(len(crowd), func(i int) time.Duration {
		for until := began.Add(a.Wait + a.Wait/50); time.Now().Before(until) && ctx.Err() == nil; {
			n, err := crowd[i].fill(ctx, int(a.Bytes)/4/len(crowd), crowd[i].unread)
			switch {
			case errors.Is(err, errTooMuch):
				return -1
			case err != nil:
				return time.Since(began)
			case n == 0:
				full.Store(true)
				if a.target.tls != nil { // TLS cannot go on after a write that timed out
					pause(ctx, time.Until(until))
				}
			}
		}
		return -1
	})
	for i, c := range crowd {
		if took[i] < 0 && ctx.Err() == nil && c.endsWhenRead(a.Answer) {
			took[i] = time.Since(began)
		}
	}
	if !full.Load() && took[0] < 0 {
		return unknown("the server never stopped taking requests of clients that read nothing, up to %s", size(a.sent.Load()))
	}
	return a.closed("connections that read nothing", took)
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
