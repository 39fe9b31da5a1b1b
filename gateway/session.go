package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// session is one epoch of a client: a numbering of its records.
type session struct {
	client  string
	epoch   uint64
	durable atomic.Uint64 // the highest stored sequence number; the committer raises it

	// queue.mu guards the rest.
	accepted    uint64            // the highest sequence number that is stored or queued
	queued      int               // bytes in the queue
	pack        uint64            // the number of the pack with its newest record, as queue.taken counts
	link        *link             // the connection that may write; nil: none
	ended       bool              // the client has started a newer session
	dead        bool              // another server has taken the client: drop what is queued here
	seen        int64             // when the client was last connected, by clock.running
	away        bool              // the log says that it was not connected; only recovery uses it
	summed      bool              // sum is known: each record since the first one was numbered without a gap
	sum         uint32            // running checksum of the records up to accepted
	instance    uint64            // of the program that has the session; 0: unknown
	held        map[uint16]uint64 // by packet id: the records of messages at QoS 2 that the client may send again
	recordsLost bool              // the log has lost acknowledged records of it, and an operator has accepted that

	storedSum uint32 // like sum, up to durable; only the committer and recovery use it
}

func newSession(client string, epoch uint64, seen int64) *session {
	return &session{client: client, epoch: epoch, seen: seen, summed: true}
}

// sums computes the running checksum of a session: CRC-32C over the sequence number and the data
// of each record. It protects against accidents, such as two programs with one name, and not
// against attackers.
type sums struct {
	room  [8]byte
	table *crc32.Table // nil: as crc32.MakeTable says
}

func (s *sums) add(sum uint32, seq uint64, data []byte) uint32 {
	if s.table == nil {
		s.table = crc32.MakeTable(crc32.Castagnoli)
	}
	binary.BigEndian.PutUint64(s.room[:], seq)
	return crc32.Update(crc32.Update(sum, s.table, s.room[:]), s.table, data)
}

// link is one connection's hold on a session.
type link struct {
	session *session // nil until the hello is granted; queue.mu guards it
	gone    bool     // the connection has ended; queue.mu guards it
	conn    caller
	level   Level
	proof   proof // the token that authenticated the client
	posts   bool  // what comes over the connection are posts

	fenced chan struct{} // fence closes it; nil: no record of the connection waits for room. queue.mu guards it
}

// sessions is what the server remembers about its clients; queue.mu guards it.
type sessions struct {
	byClient map[string]*session
	highest  uint64 // epoch that any client ever got
}

// answer is a pending reply through any door.
type answer struct {
	frames framed.Reply
	other  replier // nil: frames, whose replies go in batches
}

func (a *answer) send(acks *framed.Batch, content []byte) {
	if a.other == nil {
		acks.Add(a.frames, content)
		return
	}
	a.other.send(content)
}

func (a *answer) fail(acks *framed.Batch, why error) {
	if a.other == nil {
		acks.Fail(a.frames, refusal(why))
		return
	}
	a.other.fail(why)
}

// caller is the connection that has a session, at any door.
type caller interface {
	Close()
	End(why error) error // closes, and first tells the client why, if it can
}

// frames is such a connection that speaks frames.
type frames struct{ framed.Conn }

// End sends why's result under id 0 and closes the connection.
func (f frames) End(why error) error { return f.Conn.End(refusal(why)) }

// request is a hello queued for the committer.
type request struct {
	client context.Context // ends with the client's connection
	came   time.Time
	reply  answer
	link   *link
	hello  hello
	waited bool // for the records of the connection before, in a queue again
	passed bool // on, to the queue
	// resumes reports, for a door for posts, whether it goes on in the known session; queue.mu is held. Nil: the hello says so.
	resumes func(known *session) bool

	granted *session // with refused, what was decided last; neither: it is passed on
	refused error
}

// helloTimeout is how old a hello may be where other servers share the log: a client that has lost this
// connection unnoticed may have a session on one of them by then, and the old hello must not take it away. One
// server alone answers hellos in their order, so a newer one wins there. It is shorter than Client.DialTime.
const helloTimeout = 8 * time.Second

// stale reports whether the client no longer waits for an answer.
func (r *request) stale(shared bool) bool {
	return r.link.gone || r.client.Err() != nil || shared && time.Since(r.came) > helloTimeout
}

// checkResume returns why h may not resume the session, or nil.
func (known *session) checkResume(h hello, level Level) error {
	switch {
	case known == nil || h.epoch > known.epoch:
		return ErrExpired
	case h.epoch < known.epoch:
		return ErrFenced
	case h.welcomed && known.instance != 0 && h.instance != known.instance:
		return fmt.Errorf("%w: another program has resumed this session", ErrFenced)
	case known.recordsLost && level != Received:
		return fmt.Errorf("%w: an operator has accepted that records of this session are lost", ErrRegressed)
	case h.next > known.accepted+1 && level != Received:
		return fmt.Errorf("%w: it ends at record %d, and records up to %d were acknowledged", ErrRegressed, known.durable.Load(), h.next-1)
	}
	return nil
}

// granted returns the session for a request: the known one or a new one. An epoch is greater
// than all before, also than those of forgotten clients. queue.mu is held.
func (t *sessions) granted(r *request, now int64, most int) (*session, error) {
	known := t.byClient[r.hello.client]
	if r.resumes != nil {
		if r.hello.epoch = 0; r.resumes(known) {
			r.hello.epoch = known.epoch
			return known, nil
		}
	}
	if r.hello.epoch != 0 {
		err := known.checkResume(r.hello, r.link.level)
		if err == ErrExpired && r.hello.epoch > t.highest {
			err = fmt.Errorf("%w: it has never given an epoch as high as %d", ErrRegressed, r.hello.epoch)
		}
		return known, err
	}
	if known == nil && len(t.byClient) >= most {
		return nil, fmt.Errorf("%w: %d", ErrTooMany, most)
	}
	t.highest = max(uint64(now), t.highest+1)
	next := newSession(r.hello.client, t.highest, 0)
	next.instance, next.summed = r.hello.instance, r.link.level != Received
	return next, nil
}

// take makes l the only connection that may write to the session.
func (l *link) take(known *session, now int64) {
	known.fence(ErrMoved)
	known.link, known.seen = l, now
	l.session = known
}

// fence closes the connection that may write to the session, and tells the client why, if the
// connection is able to take it.
func (known *session) fence(why error) {
	if l := known.link; l != nil {
		l.conn.End(why)
		if known.link = nil; l.fenced != nil {
			close(l.fenced)
			l.fenced = nil
		}
	}
}

// settle attaches a stored session to a connection, unless the connection has ended or its token was
// revoked in the meantime; queue.mu is held.
func (t *sessions) settle(r *request, known *session, revoked bool, now int64) error {
	if before := t.byClient[known.client]; before != nil && before != known {
		if before.epoch > known.epoch { // a post has come meanwhile
			return ErrFenced
		}
		before.ended = true
		before.fence(ErrFenced)
	}
	t.byClient[known.client] = known
	switch {
	case r.stale(false):
		return errTooSlow
	case revoked:
		return ErrUnauthorised
	}
	if r.hello.next > known.accepted+1 { // at level received: skip what a crash lost
		known.accepted = r.hello.next - 1
	}
	if other := known.instance; other != 0 && r.hello.instance != 0 && other != r.hello.instance {
		known.fence(ErrFenced)
	}
	known.instance = cmp.Or(r.hello.instance, known.instance)
	r.link.take(known, now)
	return nil
}

// learn returns the session to which an entry of the log applies; nil: the entry says nothing
// new. queue.mu is held.
func (t *sessions) learn(client string, epoch uint64, seen int64, claimed bool) *session {
	t.highest = max(t.highest, epoch)
	known := t.byClient[client]
	switch {
	case known == nil:
		known = newSession(client, epoch, seen)
	case epoch < known.epoch:
		return nil
	case known.link != nil || known.accepted > known.durable.Load():
		if !claimed && epoch == known.epoch {
			return nil // a checkpoint that repeats what this server stored
		}
		known.dead, known.ended = true, epoch > known.epoch
		if known.ended {
			known.fence(ErrFenced)
		}
		known.fence(ErrMoved)
		next := newSession(client, epoch, known.seen)
		if epoch == known.epoch {
			next.summed, next.sum, next.instance = known.summed, known.storedSum, known.instance
			next.reach(known.durable.Load())
		}
		known = next
	case epoch > known.epoch:
		known = newSession(client, epoch, known.seen)
	}
	known.seen = max(known.seen, seen)
	t.byClient[client] = known
	return known
}

// reach notes that the log has the session's records up to seq; queue.mu is held.
func (known *session) reach(seq uint64) {
	known.accepted = max(known.accepted, seq)
	known.durable.Store(max(known.durable.Load(), known.accepted))
	known.storedSum = known.sum
}

// restore applies a state of the log; queue.mu is held.
func (known *session) restore(state *journal.State) {
	if state.Last > known.accepted || state.Last == known.accepted && state.Summed {
		known.summed, known.sum = state.Summed, state.Sum
	}
	known.instance = state.Instance
	known.away = !state.Claim && !state.Connected
	known.recordsLost = known.recordsLost || state.RecordsLost
	known.reach(state.Last)
}

// hold notes which record has the message with a packet id; queue.mu is held.
func (known *session) hold(id uint16, seq uint64) {
	if known.held == nil {
		known.held = map[uint16]uint64{}
	}
	known.held[id] = max(known.held[id], seq)
}

// learnPackets applies what the log says of packet ids; queue.mu is held.
func (known *session) learnPackets(released bool, seqs map[uint16]uint64) {
	for id, seq := range seqs {
		switch {
		case !released:
			known.hold(id, seq)
		case known.held[id] <= seq:
			delete(known.held, id)
		}
	}
}

// packets are packet ids of a session.
type packets struct {
	client string
	epoch  uint64
	seqs   map[uint16]uint64
}

// packets returns the packet ids of the records up to last, as the log stores them; queue.mu is held.
func (known *session) packets(last uint64) packets {
	seqs := maps.Clone(known.held)
	maps.DeleteFunc(seqs, func(_ uint16, seq uint64) bool { return seq > last })
	return packets{known.client, known.epoch, seqs}
}

// state returns a session as the log stores it. Seen is relative: appendStates adds the time.
func (known *session) state(age int64, claim bool) journal.State {
	return journal.State{
		Client: known.client, Epoch: known.epoch, Last: known.durable.Load(), Claim: claim,
		Connected: known.link != nil, Seen: -age, Summed: known.summed, Sum: known.storedSum, Instance: known.instance, RecordsLost: known.recordsLost,
	}
}
