package framed

import (
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// Batch collects late replies and sends them together, grouped by connection: each
// connection is locked and written to once for all of its replies. It suits handlers
// whose work ends in batches, such as a commit to a disk. The zero value is ready, and
// is best used again after Send. One goroutine at a time may use it.
//
// Cost of a reply among many to each connection: half of what Reply.Send from another
// goroutine costs, the hand-over included (BenchmarkLate), and no allocations.
type Batch struct {
	groups []batchGroup
	used   int                 // of groups
	last   int                 // the group that the last reply went to
	places map[engine.Conn]int // of the used groups
	length int
}

// batchGroup is the replies to one connection.
type batchGroup struct {
	conn     engine.Conn
	replies  []engine.Reply
	out      []byte
	ends     []int      // of each reply in out
	outcomes []batchEnd // of each reply, where somebody wants to know
	trust    bool       // one accepts who asks
}

// batchEnd is what OnRequest is told of a reply.
type batchEnd struct {
	reply  Reply
	result wire.Result
	why    error // what it failed of
	sent   error // why it could not be sent
}

// What a Batch keeps for its next use.
const (
	keptGroups = 1 << 10
	keptOut    = 64 << 10
)

// Add is Reply.Send at the time of Send. The content is copied now.
func (b *Batch) Add(r Reply, content []byte) { b.add(&r, wire.OK, content, nil) }

// Fail is Reply.Fail at the time of Send.
func (b *Batch) Fail(r Reply, err error) { b.add(&r, resultOf(err), contentOf(err), err) }

// Len is how many replies wait for Send.
func (b *Batch) Len() int { return b.length }

func (b *Batch) add(r *Reply, result wire.Result, content []byte, why error) {
	g := b.group(r.reply.Conn())
	start, dialect := len(g.out), r.dialect()
	g.out = append(dialect.BeginAck(g.out, r.request(), r.id), content...)
	g.out = dialect.EndAck(g.out, start, result)
	g.ends = append(g.ends, len(g.out))
	g.replies = append(g.replies, r.reply)
	g.trust = g.trust || r.request() == wire.Conn && result == wire.OK
	if r.observed() {
		g.outcomes = append(g.outcomes, batchEnd{*r, result, why, nil})
	}
	b.length++
}

// group is where replies to a connection go.
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

// Send sends what was added, each connection's replies in the order of their Add, and
// returns how many were sent. The others had been answered before, or their connection
// had ended.
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
	if len(g.outcomes) == 0 {
		sent = g.conn.SendAll(g.replies, g.out, g.ends, nil)
	} else {
		sent = g.conn.SendAll(g.replies, g.out, g.ends, func(i int, err error) { g.outcomes[i].sent = err })
		for i := range g.outcomes {
			o := &g.outcomes[i]
			o.reply.report(o.result, o.why, o.sent)
		}
		clear(g.outcomes)
	}
	if g.trust {
		g.trust = false
		g.conn.Trust()
	}
	if cap(g.out) > keptOut {
		g.out = nil
	}
	clear(g.replies)
	g.conn = engine.Conn{}
	g.replies, g.out, g.ends, g.outcomes = g.replies[:0], g.out[:0], g.ends[:0], g.outcomes[:0]
	return sent
}
