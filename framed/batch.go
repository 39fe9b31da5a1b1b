package framed

import (
	"slices"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// Batch collects late replies and sends them together, grouped by connection: each
// connection is locked and written to once for all of its replies. It suits handlers
// whose work completes in batches, such as a commit to disk. The zero value is ready;
// reuse a Batch after Send. One goroutine at a time may use it.
//
// Cost per reply, with many replies for each connection: half of a Reply.Send from
// another goroutine, hand-over included, and no allocations (TestBatchAllocations).
type Batch struct {
	groups []batchGroup
	used   int                 // number of groups in use
	last   int                 // index of the group of the last reply
	places map[engine.Conn]int // index of each group in use
	length int
}

// batchGroup holds the replies to one connection.
type batchGroup struct {
	conn     engine.Conn
	replies  []engine.Reply
	out      []byte
	ends     []int      // end of each reply in out
	outcomes []batchEnd // of each reply, if OnRequest is set
	proofs   []int      // replies that authenticate the client once they are sent
}

// batchEnd is what OnRequest gets about a reply.
type batchEnd struct {
	reply  Reply
	result wire.Result
	why    error // error given to Fail
	sent   error // why sending failed
}

// Limits on what a Batch keeps for its next use.
const (
	keptGroups = 1 << 10
	keptOut    = 64 << 10
)

// Add queues a reply, which Send then sends as Reply.Send does. It copies content.
func (b *Batch) Add(r Reply, content []byte) { b.add(&r, wire.OK, content, nil) }

// Fail queues a failure, which Send then sends as Reply.Fail does.
func (b *Batch) Fail(r Reply, err error) { b.add(&r, resultOf(err), contentOf(err), err) }

// Len returns the number of replies queued for Send.
func (b *Batch) Len() int { return b.length }

func (b *Batch) add(r *Reply, result wire.Result, content []byte, why error) {
	g := b.group(r.reply.Conn())
	start := len(g.out)
	g.out = append(wire.BeginAck(g.out, r.request(), r.id), content...)
	g.out = wire.EndAck(g.out, start, result)
	g.ends = append(g.ends, len(g.out))
	if r.request() == wire.Conn && result == wire.OK {
		g.proofs = append(g.proofs, len(g.replies))
	}
	g.replies = append(g.replies, r.reply)
	if r.observed() {
		g.outcomes = append(g.outcomes, batchEnd{*r, result, why, nil})
	}
	b.length++
}

// group returns the group for replies to a connection.
func (b *Batch) group(c engine.Conn) *batchGroup {
	if b.last < b.used && b.groups[b.last].conn == c {
		return &b.groups[b.last]
	}
	at, ok := b.places[c]
	if !ok {
		if b.places == nil {
			b.places = map[engine.Conn]int{}
		}
		if at = b.used; at == len(b.groups) {
			b.groups = append(b.groups, batchGroup{})
		}
		b.used++
		b.groups[at].conn, b.places[c] = c, at
	}
	b.last = at
	return &b.groups[at]
}

// Send sends the queued replies, each connection's in the order of Add, and returns how
// many were sent. The others were answered before, or their connection has ended.
func (b *Batch) Send() (sent int) {
	for i := range b.groups[:b.used] {
		sent += b.groups[i].send()
	}
	clear(b.places)
	b.used, b.last, b.length = 0, 0, 0
	if len(b.groups) > keptGroups {
		b.groups, b.places = nil, nil
	}
	return sent
}

func (g *batchGroup) send() (sent int) {
	sent = g.conn.SendAll(g.replies, g.out, g.ends, g.failed)
	if len(g.proofs) > 0 {
		g.conn.Trust()
	}
	for i := range g.outcomes {
		o := &g.outcomes[i]
		o.reply.report(o.result, o.why, o.sent)
	}
	clear(g.outcomes)
	if cap(g.out) > keptOut {
		g.out = nil
	}
	clear(g.replies)
	g.conn = engine.Conn{}
	g.replies, g.out, g.ends, g.outcomes, g.proofs = g.replies[:0], g.out[:0], g.ends[:0], g.outcomes[:0], g.proofs[:0]
	return sent
}

// failed records why a reply was not sent.
func (g *batchGroup) failed(i int, err error) {
	if len(g.outcomes) > 0 {
		g.outcomes[i].sent = err
	}
	g.proofs = slices.DeleteFunc(g.proofs, func(proof int) bool { return proof == i })
}
