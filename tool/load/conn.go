package load

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// conn is one connection: its reader, its window of outstanding requests, and its output buffer.
// The goroutine that appends to out while nobody writes becomes the writer, and writes until out
// is empty; so in a closed loop the reader sends all replacements of one read in one write.
type conn struct {
	run     *run
	counter *counter
	codec   codec.Codec
	socket  *socket
	number  uint64 // among all connections of the plan; part of every id, so that an answer on the wrong connection is detected

	mu         sync.Mutex
	slots      []slot               // outstanding requests, indexed by the low bits of their id; grows up to the plan's depth
	sizes      []int32              // content sizes, same index; nil: all requests carry the plan's Content
	clients    []*client            // sessions of the requests, same index; nil: the plan has no Traffic
	sessions                        // of the plan's Traffic
	left       sizeSum              // requests that were sent or given up
	free       []uint16             // free list of slots
	generation uint32               // part of every id, so that a duplicate answer is detected
	waiting    codec.Queue[arrival] // due requests without a free slot
	out        []byte               // encoded requests that the writer has not taken
	spare      []byte               // the writer's second buffer
	writing    bool                 // a goroutine is writing; stays true after a write error
	writeErr   error
	writerGone chan struct{} // closed when the writer is done; not nil while somebody waits for that
	reconnects int           // how often socket was replaced
	begun      bool          // the load has begun; only then is the counter's window known
	answeredAt int64         // when the last answer came
	closing                  // how the current socket ends

	look   int64        // used by the supervisor: when a request may have timed out
	batch  batch        // used by the reader
	answer codec.Answer // used by the reader: the answer being decoded, and what is to be said to the server
	reader *reader      // the shared reader of this socket; nil: it has its own goroutine
	held   []byte       // used by the shared reader: the first part of an incomplete answer
}

// slot is an outstanding request; id 0: free.
type slot struct {
	id                uint64
	intended, written int64
}

// newConn returns the run's connection of that number.
func newConn(r *run, number int, nc net.Conn) *conn {
	return &conn{
		run: r, counter: r.counters[number%len(r.counters)],
		codec: r.plan.Target.Codec(), socket: newSocket(nc), number: uint64(r.plan.Partition.number(number)),
	}
}

// sizeSum sums the sizes of requests.
type sizeSum struct {
	Requests uint64
	Bytes    uint64
	Counted  uint64 // number of requests in bytes
	Most     int
}

func (s *sizeSum) add(size int) {
	s.Bytes += uint64(size)
	s.Counted++
	s.Most = max(s.Most, size)
}

func (s *sizeSum) take(other sizeSum) {
	s.Requests += other.Requests
	s.Bytes += other.Bytes
	s.Counted += other.Counted
	s.Most = max(s.Most, other.Most)
}

// The sizes of a read buffer: it grows when a read fills it; beyond the last size it grows only
// for a longer answer.
const (
	leastRead   = 512
	firstRead   = 4 << 10
	defaultRead = 64 << 10
)

// read is the connection's reader goroutine. It returns when the connection ends.
func (c *conn) read() {
	in, held := make([]byte, min(max(leastRead, headroom*c.run.plan.Depth), firstRead)), 0
	for {
		n, err := c.socket.read(in[held:])
		if err != nil {
			if !c.ended(err, held > 0) || !c.reconnect() {
				return
			}
			held = 0
			continue
		}
		held += n
		used, closing, err := c.arrived(in[:held], c.run.now())
		if err != nil {
			c.run.fail(codec.Explain(err))
			return
		}
		if closing {
			if !c.reconnect() {
				return
			}
			held = 0
			continue
		}
		full := held == len(in)
		held = copy(in, in[used:held])
		if full && (len(in) < defaultRead || held == len(in)) {
			in = append(in, make([]byte, len(in))...)
		}
	}
}

// arrived settles the answers in what was read at now, and sends further requests in the freed
// slots. It reports whether the socket must be replaced.
func (c *conn) arrived(in []byte, now int64) (used int, closing bool, err error) {
	c.mu.Lock()
	used, err = c.settle(in, now)
	if c.batch.count > 0 {
		c.answeredAt = now
		if !c.ending {
			c.trouble = nil
			c.refill(now)
		}
	}
	closing = c.ending
	if words := c.answer.Reply; len(words) > 0 && !closing {
		c.out, c.answer.Reply = append(c.out, words...), words[:0]
	}
	c.unlock()
	if c.batch.count > 0 {
		c.counter.record(&c.batch, now)
	}
	return used, closing, err
}

// settle verifies the complete answers of in and frees their slots.
func (c *conn) settle(in []byte, now int64) (used int, err error) {
	for used < len(in) && !c.ending {
		n, err := codec.Next(c.codec, &c.answer, in[used:])
		used += n
		switch {
		case err != nil:
			return used, err
		case c.answer.ID != 0:
			if err := c.accept(now); err != nil {
				return used, err
			}
		case c.answer.Last:
			c.dismiss()
		default:
			return used, nil
		}
	}
	return used, nil
}

// accept settles the answer that was decoded.
func (c *conn) accept(now int64) error {
	a := &c.answer
	place := int(a.ID & mostDepth)
	if place >= len(c.slots) || c.slots[place].id != a.ID {
		return wrongID(a.ID)
	}
	s := &c.slots[place]
	c.batch.add(s.intended, s.written, c.stepAt(place))
	expect := c.run.plan.Expect
	if (c.sizes != nil || c.clients != nil) && c.run.plan.Echo {
		expect = c.content(place)
	}
	if c.clients != nil && a.Err == nil {
		a.Err = c.ask(place)
		a.Wrong = a.Err != nil
	}
	well := false
	switch {
	case a.Wrong:
		c.batch.complain(codec.WrongContent, c.counter.window.has(s.intended), a.Err)
	case a.Err != nil:
		c.batch.complain(Failed, c.counter.window.has(s.intended), c.ofStep(place, a.Err))
	case expect != nil && !bytes.Equal(a.Content, expect):
		c.batch.complain(codec.WrongContent, c.counter.window.has(s.intended), nil)
	default:
		well = true
	}
	if a.Code != 0 && a.Code < codec.Codes && c.counter.window.has(s.intended) {
		c.batch.code(a.Code)
	}
	client := c.release(place)
	if client != nil {
		c.follow(client, now, well)
	}
	c.served = true
	if a.Last {
		c.announced, c.polite = true, true
		c.beginClosing(nil)
	}
	return nil
}

// ofStep names the step of a failure that may become the example.
func (c *conn) ofStep(place int, err error) error {
	if c.clients == nil || c.batch.example != nil {
		return err
	}
	return fmt.Errorf("step %s: %w", c.clients[place].Request().Name, err)
}

// release frees a slot, and returns its session, if any.
func (c *conn) release(place int) (of *client) {
	c.slots[place].id = 0
	c.free = append(c.free, uint16(place))
	if c.clients != nil {
		of, c.clients[place] = c.clients[place], nil
	}
	return of
}

// lose gives up the request in a slot after it was sent, and ends its session.
func (c *conn) lose(kind Kind, place int, now int64, why error) {
	c.counter.lose(kind, c.stepAt(place), c.slots[place].intended, now, why)
	if client := c.release(place); client != nil {
		c.retire(client)
	}
}

func wrongID(id uint64) *Error {
	return &Error{
		Kind: codec.WrongID,
		What: fmt.Sprintf("the server answers id %#x, which is not outstanding on that connection", id),
		Try:  "check that it answers every request once, with the request's own id",
	}
}

// refill sends requests in the freed slots: in a closed loop as many as fit, in an open loop those
// that are due and waiting.
func (c *conn) refill(now int64) {
	c.goOn(now)
	if !c.run.paced {
		if now < c.counter.window.till {
			c.fill(now)
		}
		return
	}
	for c.waiting.Len() > 0 && c.room() {
		next := c.waiting.Pop()
		if now-next.moment > c.counter.timeout {
			c.drop(next, now)
		} else {
			c.send(next, now)
		}
	}
}

// drop gives up a request that has waited unsent for the time-out.
func (c *conn) drop(a arrival, now int64) {
	c.left.Requests++
	c.counter.drop(Timeout, c.run.firstStep(a.flow), a.moment, now)
}

// fill sends as many requests as there are free slots.
func (c *conn) fill(now int64) {
	for c.room() && (c.clients == nil || c.live < c.run.plan.Depth) {
		next, ok := c.run.another(now)
		if !ok {
			return
		}
		c.send(next, now)
	}
}

// room reports whether there is a free slot. It adds slots up to the plan's depth, so memory grows
// only with the largest number of requests in flight.
func (c *conn) room() bool {
	if c.ending {
		return false
	}
	if len(c.free) > 0 {
		return true
	}
	before := len(c.slots)
	after := min(c.run.plan.Depth, max(8, 2*before))
	c.slots = append(c.slots, make([]slot, after-before)...)
	for place := after - 1; place >= before; place-- {
		c.free = append(c.free, uint16(place))
	}
	if c.run.sized {
		c.sizes = append(c.sizes, make([]int32, after-before)...)
	}
	if c.run.plan.Traffic != nil {
		c.clients = append(c.clients, make([]*client, after-before)...)
	}
	return after > before
}

// send encodes a request into a free slot.
func (c *conn) send(a arrival, now int64) {
	place := c.occupy(a.moment, now)
	if c.clients != nil {
		c.clients[place] = c.admit(a)
	}
	if c.sizes != nil {
		c.measure(place)
	}
	c.left.Requests++
	c.encode(place)
}

// occupy takes a free slot.
func (c *conn) occupy(intended, now int64) (at int) {
	last := len(c.free) - 1
	place := c.free[last]
	c.free = c.free[:last]
	if c.generation++; c.generation == 0 {
		c.generation = 1
	}
	id := uint64(c.generation)<<32 | c.number&0xffff<<16 | uint64(place)
	c.slots[place] = slot{id, intended, now}
	return int(place)
}

// encode appends the request in a slot to the output buffer.
func (c *conn) encode(place int) {
	var of *traffic.Session
	if c.clients != nil {
		of = &c.clients[place].Session
	}
	var content []byte
	if !c.run.plan.route.Whole {
		content = c.content(place)
	}
	c.out = c.codec.AppendRequest(c.out, c.slots[place].id, content, of)
}

// content returns the content of the request in a slot.
func (c *conn) content(place int) []byte {
	if c.clients != nil {
		client := c.clients[place]
		c.message = client.Request().Body.Append(c.message[:0], &client.Session)
		return c.message
	}
	if c.sizes == nil {
		return c.run.plan.Content
	}
	return c.run.plan.Content[:c.sizes[place]]
}

// measure chooses the size of the next request in a slot.
func (c *conn) measure(place int) {
	n := c.left.Requests*uint64(c.run.plan.Conns) + c.number
	size := c.run.plan.Sizes.At(c.run.plan.Seed, n)
	c.sizes[place] = int32(size)
	c.left.add(size)
}

// begin starts the load on this connection; in a closed loop it sends the first requests.
func (c *conn) begin(now int64) {
	c.mu.Lock()
	c.begun = true
	if !c.run.paced {
		c.fill(now)
	}
	c.unlock()
}

// due takes every stride-th of the due requests of an open loop. Requests without a free slot
// wait, but no longer than the time-out, which also bounds the queue.
func (c *conn) due(all []arrival, stride int, now int64) {
	c.mu.Lock()
	for i := 0; i < len(all); i += stride {
		if c.waiting.Len() == 0 && c.later.Len() == 0 && c.room() {
			c.send(all[i], now)
		} else {
			c.waiting.Push(all[i])
		}
	}
	for c.waiting.Len() > 0 && now-c.waiting.First().moment > c.counter.timeout {
		c.drop(c.waiting.Pop(), now)
	}
	c.refill(now)
	c.unlock()
}

// unlock releases the connection, and writes the output if nobody else does.
func (c *conn) unlock() {
	var out []byte
	if !c.writing && !c.ending && len(c.out) > 0 {
		c.writing = true
		out = c.exchange()
	}
	c.mu.Unlock()
	if out != nil {
		c.write(out)
	}
}

func (c *conn) exchange() []byte {
	out := c.out
	c.out, c.spare = c.spare[:0], nil
	return out
}

// next returns the written buffer for reuse and takes the output that has come meanwhile; nil ends
// the caller's turn as the writer.
func (c *conn) next(written []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare = written
	if len(c.out) == 0 || c.ending {
		c.stopWriting()
		return nil
	}
	return c.exchange()
}

// write writes out and all further output, and never blocks on the server: a goroutine waits for
// what the kernel does not accept, so that answers are read and other connections served
// meanwhile.
func (c *conn) write(out []byte) {
	for out != nil {
		var n int
		var err error
		switch {
		case c.socket.writesWithoutWaiting():
			n, err = c.socket.tryWrite(out)
		case c.run.smallWindow:
			n, err = c.socket.nc.Write(out)
		}
		if err != nil {
			c.cannotWrite(err)
			return
		}
		if n < len(out) {
			c.hand(out, n)
			return
		}
		out = c.next(out)
	}
}

// hand passes the rest to a goroutine, which may block.
func (c *conn) hand(out []byte, done int) {
	c.run.goroutines.Go(func() {
		for out != nil {
			if _, err := c.socket.nc.Write(out[done:]); err != nil {
				c.cannotWrite(err)
				return
			}
			out, done = c.next(out), 0
		}
	})
}

// lastWords is how long hone still reads answers, or the server's reason, from a connection that
// it cannot write to.
const lastWords = 250 * time.Millisecond

func (c *conn) cannotWrite(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		c.stopWriting()
		return
	}
	c.writeErr = err
	if reconnects := c.reconnects; c.reader != nil {
		c.run.goroutines.Go(func() { c.cutAfter(lastWords, reconnects) })
		return
	}
	// If even this fails, the connection is closed and the reader returns.
	_ = c.socket.nc.SetReadDeadline(time.Now().Add(lastWords))
}

// cutAfter closes the socket after d unless it has ended or was replaced by then.
func (c *conn) cutAfter(d time.Duration, reconnects int) {
	select {
	case <-time.After(d):
	case <-c.run.dialing.Done():
		return // the run is over
	}
	c.mu.Lock()
	socket, done := c.socket, c.ending || c.reconnects != reconnects
	c.mu.Unlock()
	if !done {
		socket.cut()
	}
}

// idle reports whether nothing is outstanding and nothing waits.
func (c *conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.free) == len(c.slots) && c.waiting.Len() == 0 && c.live == 0
}

// unanswered returns since when an answer is missing, and the reason if known; ok is false if none
// is missing.
func (c *conn) unanswered() (since int64, why *Error, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble != nil {
		return c.since, c.trouble, true
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.id != 0 && (!ok || s.written < since) {
			since, ok = s.written, true
		}
	}
	return since, nil, ok
}

// abandon counts the requests that are unanswered at the end, when all goroutines have returned.
func (c *conn) abandon(now int64) {
	for i := range c.slots {
		if s := &c.slots[i]; s.id != 0 {
			c.counter.lose(codec.Unanswered, c.stepAt(i), s.intended, now, nil)
		}
	}
	for c.later.Len() > 0 {
		client := c.later.Pop()
		c.counter.drop(codec.Unanswered, client.step(), client.due, now)
	}
	for c.waiting.Len() > 0 {
		next := c.waiting.Pop()
		c.counter.drop(codec.Unanswered, c.run.firstStep(next.flow), next.moment, now)
	}
}
