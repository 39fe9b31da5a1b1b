package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/hone-go/hone/engine/internal/ration"
	"github.com/hone-go/hone/engine/internal/timing"
)

// Late replies and pushes, from any goroutine. How posted output is written is in late_write.go.

// post queues a late reply or a push.
func (c Conn) post(ticket uint64, parts [][]byte) error {
	k, x, err := c.lockToPost(ticket == noTicket)
	if err != nil {
		return err
	}
	if ticket == noTicket {
		k.sh.counts.pushes.Add(1)
	} else if x.promises.Settle(ticket) {
		x.late++
	} else {
		k.s.mu.Unlock()
		return ErrSettled
	}
	return k.held().finishPost(x, parts, length(parts), ticket == noTicket)
}

func length(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// postAll queues late replies of the connection, as many as fit into one post, and
// returns how many it has processed, and which of them were not open.
func (c Conn) postAll(replies []Reply, out []byte, ends []int, from int) (n int, settled []int, err error) {
	for n = 1; n < len(replies) && ends[n]-from <= maxSend; n++ {
	}
	k, x, err := c.lockToPost(false)
	if err != nil {
		return n, nil, err
	}
	good := 0
	for good < n && replies[good].conn == c && x.promises.Settle(replies[good].ticket) {
		good++
	}
	x.late += uint64(good)
	if good == n {
		return n, nil, k.held().finishPost(x, [][]byte{out[from:ends[n-1]]}, ends[n-1]-from, false)
	}
	var parts [][]byte
	size := 0
	for i := range n {
		switch {
		case i < good:
		case replies[i].conn == c && x.promises.Settle(replies[i].ticket):
			x.late++
		default:
			settled = append(settled, i)
			from = ends[i]
			continue
		}
		parts = append(parts, out[from:ends[i]])
		size += ends[i] - from
		from = ends[i]
	}
	return n, settled, k.held().finishPost(x, parts, size, false)
}

// Offer is Push for output that may be dropped, such as the state of something that changes:
// while the peer reads too slowly, up to a quarter of Limits.HighWater of it waits in its place
// in the queue, and above that the oldest pieces are dropped, whole (Stats.Dropped). So a slow
// peer is still read. Offer itself disconnects nobody, but Limits.StallTime and
// Limits.TotalOutput do.
func (c Conn) Offer(parts ...[]byte) error {
	k, x, err := c.lockToPost(true)
	if err != nil {
		return err
	}
	n := length(parts)
	k.sh.counts.pushes.Add(1)
	if n == 0 || x.queue.IsVisiting() || x.goal != noGoal || x.unwritten() {
		return k.held().finishPost(x, parts, n, true)
	}
	defer k.s.mu.Unlock()
	memory, limits := &k.sh.srv.buffers, &k.sh.srv.limits
	x.waiting += int64(n)
	x.queue.Offer(memory, parts, n)
	for x.queue.Offered() > min(limits.HighWater, limits.HardCap)/4 {
		dropped := x.queue.DropOffer(memory)
		if dropped == 0 {
			break
		}
		x.waiting -= int64(dropped)
		k.sh.counts.dropped.Add(1)
	}
	k.held().recount(x)
	return k.held().enqueue(x, nil, 0, true)
}

// lockToPost locks the connection, if posting to it is allowed.
func (c Conn) lockToPost(push bool) (k connRef, x *inflight, err error) {
	k, ok := c.lock()
	if !ok {
		return k, nil, ErrClosed
	}
	s := k.s
	if s.dead || s.marks.has(isShut) || push && s.marks.has(isSaid) {
		s.mu.Unlock()
		return k, nil, ErrClosed
	}
	x = k.held().attach()
	if x.queue.Len() > k.sh.srv.limits.HardCap && !k.held().relieve(x) {
		k.held().abort(SlowReader)
		s.mu.Unlock()
		return k, nil, SlowReader
	}
	return k, x, nil
}

// finishPost queues parts, n bytes in total, and triggers a write. It unlocks.
func (k held) finishPost(x *inflight, parts [][]byte, n int, push bool) error {
	endContext := k.unwatch(x)
	err := k.enqueue(x, parts, n, push)
	k.s.mu.Unlock()
	if endContext != nil {
		endContext()
	}
	return err
}

// enqueue is finishPost with mu kept.
func (k held) enqueue(x *inflight, parts [][]byte, n int, push bool) error {
	s, srv := k.s, k.sh.srv
	if n > 0 {
		x.waiting += int64(n)
		grown, memory := false, &srv.buffers
		if x.queue.IsVisiting() {
			grown = x.queue.PostHeld(memory, parts, n, push)
		} else {
			grown = x.queue.Add(memory, parts, n)
		}
		if grown {
			k.recount(x)
		}
	} else if x.queue.IsEmpty() {
		k.countLate(x) // nothing will be written for it
	}
	if !s.marks.has(isDirty) && !x.queue.Waits() && !x.writing && !x.front.Lent() && !k.inVisit() {
		k.list()
	}
	if srv.output.Over() > 0 && k.burdens(x) {
		k.abort(OutputBudget)
		return OutputBudget
	}
	if s.marks.has(isWaiting) {
		k.resume(x)
	}
	return nil
}

// inVisit reports whether the loop is in a visit of the connection right now: what is posted
// then is written with the visit's own output.
func (k held) inVisit() bool {
	return k.sh.visiting.Load()&visitSlots == uint64(uint32(k.key))+1
}

// relieve is called when more is queued than the hard cap: a queue that merely has not been
// written yet is not the peer's fault, and is written here. It reports whether the queue may
// grow.
func (k held) relieve(x *inflight) bool {
	limits := &k.sh.srv.limits
	switch {
	case x.writing && x.stall.Load() != 0 && !x.queue.IsVisiting(): // a writer is blocked, and nothing else holds the queue
		return false
	case x.writing, x.queue.IsVisiting(), !k.link().IsPlain():
		return x.queue.Len() <= limits.hardest()
	}
	k.write(x, true)
	if x.front.Lent() && x.cut { // the peer reads all that it is sent
		return x.queue.Len() <= limits.hardest()
	}
	return !k.s.dead && x.queue.Len() <= limits.HardCap
}

// burdens reports whether a connection to which something was posted must be closed because
// the output budget is exceeded: it has much unsent output although it was just written, and
// its peer has read nothing for some sweeps, or, when the budget is far exceeded, now.
func (k held) burdens(x *inflight) bool {
	srv := k.sh.srv
	far := srv.output.Over() > srv.output.Limit()/8
	much := int64(srv.limits.HighWater)
	if far {
		much = ration.SmallVisit
	}
	if x.waiting <= much {
		return false
	}
	if !x.writing && !x.queue.IsVisiting() && k.link().IsPlain() {
		k.write(x, true)
	}
	stall := x.stall.Load()
	age := srv.clock.Read() - stall
	return x.waiting > much && stall != 0 && !x.cut && (far || age > 4*srv.rules.Hurried() && age < timing.Ahead)
}

// hardest is how much may be queued while a write is in progress that the socket has not
// refused yet.
func (l *Limits) hardest() int { return int(min(2*int64(l.HardCap), math.MaxInt32)) }

// Push appends parts to the connection's output queue, as one piece. It copies the bytes.
// If the peer does not read fast enough (Limits.HardCap), Push disconnects it and returns
// SlowReader.
func (c Conn) Push(parts ...[]byte) error {
	return c.post(noTicket, parts)
}

// SendAll sends several replies of this connection like Reply.Send, but locks the
// connection only once. The reply to replies[i] begins where the previous one ends, and
// ends at out[ends[i]]. It copies the bytes. It returns how many were sent; afterwards it
// calls failed, if not nil, for each of the others.
func (c Conn) SendAll(replies []Reply, out []byte, ends []int, failed func(i int, err error)) (sent int) {
	from := 0
	for at := 0; at < len(replies); {
		n, settled, err := c.postAll(replies[at:], out, ends[at:], from)
		if err == nil {
			sent += n - len(settled)
		}
		for i := 0; failed != nil && err != nil && i < n; i++ {
			if !slices.Contains(settled, i) {
				failed(at+i, err)
			}
		}
		for _, i := range settled {
			if failed != nil {
				failed(at+i, ErrSettled)
			}
		}
		at += n
		from = ends[at-1]
	}
	return sent
}

// ErrSettled is returned by a second Send on one Reply, and by a Send after the message
// that promised it has panicked.
var ErrSettled = errors.New("engine: reply already settled")

// Reply is a handle to one promised reply: a small value, safe to keep, to be sent once
// and from any goroutine.
type Reply struct {
	conn   Conn
	ticket uint64
}

// Send sends parts as the reply, and copies them. With no parts it settles the promise
// without output. It returns ErrClosed when the connection has ended and ErrSettled when
// the promise is no longer open.
func (r Reply) Send(parts ...[]byte) error {
	return r.conn.post(r.ticket, parts)
}

// Context is Turn.Context between the visit and Send: it lasts as long as the reply is owed, and is
// cancelled from the start if the reply is not owed any more.
func (r Reply) Context(parent context.Context) context.Context {
	ctx, end := context.WithCancel(parent)
	if k, ok := r.conn.lock(); ok {
		if x := k.x.Load(); x != nil && x.promises.IsOpen(r.ticket) {
			k.touch() // wakes the sweeper
			ctx, end = k.held().adopt(x, ctx, end)
		}
		k.s.mu.Unlock()
	}
	end()
	return ctx
}

// Conn returns the reply's connection.
func (r Reply) Conn() Conn { return r.conn }

// noTicket marks a push: output that settles no promise.
const noTicket = ^uint64(0)
