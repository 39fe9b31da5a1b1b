package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// queue holds what waits for the log, in envelopes that grow while the previous one is in
// flight. Its mutex is the gateway's only lock: it orders the records of all clients.
type queue struct {
	mu      sync.Mutex
	filled  sync.Cond     // there is a pack to commit, or the queue has ended
	drained chan struct{} // closed when those that wait for room have to look again; nil: nobody waits
	full    func() bool   // the log has no space
	most    int           // maximum bytes
	waiting []*pack       // in order
	taken   uint64        // how many packs were taken, ever: the number of waiting[0]
	free    []*pack
	delayed []answer // to records at level received that came while too many waited, in order
	sending []answer // those that release has returned
	bytes   int      // that are not stored yet
	records int
	ended   bool                            // the queue accepts no more records
	err     error                           // why it ended; nil: a shutdown
	base    uint64                          // where the newest complete checkpoint begins in the log
	now     func() (logTime, running int64) // of the clock; mu is held
	storing *pack                           // that was taken and not released yet
	trims   trims
	sums    sums
	posts   []*post // that wait for room, in order
	posted  int     // bytes of those that wait
	retry   func()  // queues them; mu is held
}

// trims is up to where the log may be trimmed. queue.mu guards it.
type trims struct {
	wanted  uint64 // ever, by a Trim
	logged  uint64 // by the log
	waiting []trim
}

// trim is a call of Trim that waits until the log says that it may be trimmed up to a position.
type trim struct {
	to     uint64
	logged chan error
}

// want returns a channel that gets nil when the log says that it may be trimmed up to a position.
func (t *trims) want(to uint64) <-chan error {
	logged := make(chan error, 1)
	t.wanted, t.waiting = max(t.wanted, to), append(t.waiting, trim{to, logged})
	t.done(t.logged)
	return logged
}

// done notes what the log says.
func (t *trims) done(to uint64) {
	t.logged = max(t.logged, to)
	t.wanted = max(t.wanted, t.logged)
	t.waiting = slices.DeleteFunc(t.waiting, func(w trim) bool {
		if w.to <= t.logged {
			w.logged <- nil // it has room
		}
		return w.to <= t.logged
	})
}

// pack is an envelope and the requests to answer when it is stored.
type pack struct {
	records  journal.Encoder
	began    int64     // log time of the arrival of its first record
	restamp  bool      // its records have the time of a stretch before
	ran      int64     // running time of the servers then
	entries  []entry   // in the order of the records
	held     []held    // what its records add to their sessions' queued
	requests []request // hellos to answer when the records are stored
	messages int       // accepted, duplicates included
	begins   bool      // it has states of new sessions
	tick     bool      // the clock or a checkpoint may be due
	bytes    int       // of the records' data

	checkpoint bool // one is due
	saved      bool // its envelope has a part of one
	follow     bool // read what other servers have appended

	count     int      // records
	changes   []change // of readers, to make when the records are stored
	moves     []move   // positions in the envelope
	positions bool     // positions may be due
}

// entry is one action to take when the pack is stored.
type entry struct {
	session *session
	seq     uint64 // of its newest record
	sum     uint32 // of its session up to seq
	records int    // how many records it covers: a run of them where no reply is due; 0: a duplicate
	reply   answer
	durable bool // reply is due when the pack is stored; at level received there is none
}

// held are bytes of a run of a session's records.
type held struct {
	session *session
	bytes   int
}

// Limits of one envelope, and of the free list. A client with more than lightBytes in the queue leaves an eighth
// of each envelope to those with less: what they send does not wait behind all of its records.
const (
	packRecords = 8192
	keptPacks   = 16
	lightBytes  = journal.MaxEnvelope / 8
)

// mostOf returns how many bytes a client may have in the queue while that is half full. The other half is for
// clients with less.
func (q *queue) mostOf() int { return max(q.most/64, lightBytes) }

// crowded reports whether a record of the client has to wait until less waits for the log; mu is held.
func (q *queue) crowded(of *session) bool {
	return q.bytes >= q.most || q.bytes >= q.most/2 && of.queued > q.mostOf()
}

func (q *queue) prepare(most int, full func() bool, now func() (logTime, running int64)) {
	q.most, q.full, q.now = most, full, now
	q.filled.L = &q.mu
}

// errDuplicate means that the record is stored already: it may be acknowledged now.
var errDuplicate = errors.New("gateway: the record is stored already")

// accept queues a record, unless it is queued or stored already. If its acknowledgement waits, accept promises that with later,
// with mu held. When too much waits for the log, accept blocks: backpressure, since the connection is not read meanwhile.
// client returns a context that ends with the connection.
func (q *queue) accept(l *link, client func() context.Context, seq uint64, data []byte, later func() framed.Reply) (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := l.session
	if known == nil {
		return fmt.Errorf("%w: the client sent a record before the welcome", ErrHandshake)
	}
	gone := q.crowded(known) && q.awaitRoom(l, client())
	switch {
	case gone:
		return errGone
	case q.ended:
		return ErrServerClosed
	case known.ended:
		return ErrFenced
	case known.link != l:
		return ErrMoved
	case seq > known.accepted+1 || seq == 0:
		return fmt.Errorf("%w: %d came after %d", ErrGap, seq, known.accepted)
	case seq <= known.durable.Load() || seq <= known.accepted && l.level == Received:
		return errDuplicate
	}
	p, records := q.packFor(known, len(data), 1), 0
	if seq > known.accepted { // else it is queued already
		if known.summed = known.summed && l.level != Received; known.summed {
			known.sum = q.sums.add(known.sum, seq, data)
		}
		if records, err = 1, q.add(p, known, nil, data); err != nil {
			return err
		}
	}
	if l.level != Received {
		p.enter(known, records).frames = later()
		return nil
	}
	if p.addSilent(known, seq); !q.hasRoom() {
		q.delayed = append(q.delayed, answer{frames: later()})
	}
	return nil
}

// enter adds an entry for the newest records of a session, whose reply is due when the pack is stored; mu is held.
func (p *pack) enter(of *session, records int) *answer {
	p.messages += max(records, 1)
	p.entries = append(p.entries, entry{})
	e := &p.entries[len(p.entries)-1] // filled in place: copies of it for each record showed in profiles
	e.session, e.seq, e.sum, e.records, e.durable = of, of.accepted, of.sum, records, true
	return &e.reply
}

// note has the log say how the session is now; mu is held.
func (p *pack) note(of *session) error {
	state := of.state(0, true)
	state.Seen, p.begins = p.began, true
	return p.records.State(&state)
}

// hasRoom reports whether records at level received may be acknowledged at once. Without this
// bound a fast client would fill the memory.
func (q *queue) hasRoom() bool { return q.records <= receivedRecords && q.bytes <= q.most/4 }

// receivedRecords is how many records may wait before those at level received are
// acknowledged only when fewer wait.
const receivedRecords = 1 << 16

// addSilent notes a record that needs no reply. At level received a client's records come in
// runs, and an entry for each would cost more than the record.
func (p *pack) addSilent(of *session, seq uint64) {
	p.messages++
	if n := len(p.entries); n > 0 {
		if last := &p.entries[n-1]; !last.durable && last.session == of {
			last.seq = seq
			last.records++
			return
		}
	}
	p.entries = append(p.entries, entry{session: of, seq: seq, records: 1})
}

// add adds a session's next record to a pack; mu is held.
func (q *queue) add(p *pack, known *session, attributes []journal.Attribute, data []byte) error {
	record := journal.Record{Client: known.client, Epoch: known.epoch, Seq: known.accepted + 1, Time: p.began, Attributes: attributes, Data: data}
	if err := p.records.Record(&record); err != nil {
		return err
	}
	known.accepted++
	p.count++
	q.records++
	q.hold(p, known, cost(data))
	return nil
}

// hold counts bytes that a session adds to a pack.
func (q *queue) hold(p *pack, known *session, size int) {
	p.bytes += size
	q.bytes += size
	known.queued += size
	if n := len(p.held); n > 0 && p.held[n-1].session == known {
		p.held[n-1].bytes += size
	} else {
		p.held = append(p.held, held{known, size})
	}
}

// awaitRoom waits until there is room, the queue has ended, or l is fenced. It reports true when the client has
// gone. One that has only closed its side looks the same and is owed its answers: it waits on, unless the log
// has no space. mu is held, but not while it waits.
func (q *queue) awaitRoom(l *link, client context.Context) (gone bool) {
	fenced := make(chan struct{})
	l.fenced = fenced
	defer func() { l.fenced = nil }()
	for left := client.Done(); q.crowded(l.session) && !q.ended && l.session.link == l; {
		if client.Err() != nil {
			if left = nil; q.full() {
				return true
			}
		}
		if q.drained == nil {
			q.drained = make(chan struct{})
		}
		drained := q.drained
		q.mu.Unlock()
		select {
		case <-drained:
		case <-fenced:
		case <-left:
		}
		q.mu.Lock()
	}
	return false
}

// wake has those that wait for room look again; mu is held.
func (q *queue) wake() {
	if len(q.posts) > 0 {
		q.retry()
	}
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}

// lookAgain has those that wait for room look again: the log has become full, or some have waited for long.
func (q *queue) lookAgain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// recordCost is the memory overhead of a record, in bytes. An envelope needs less.
const recordCost = 100

// cost returns what a record counts for in the queue.
func cost(data []byte) int { return len(data) + recordCost }

// packFor returns the pack for a client's records of size bytes: the first one with room that is not before the
// client's newest one.
func (q *queue) packFor(of *session, size, records int) *pack {
	light := of.queued <= lightBytes
	first := max(of.pack, q.taken)
	for i, p := range q.waiting[min(first-q.taken, uint64(len(q.waiting))):] {
		if p.hasRoom(size, records, light) {
			of.pack = first + uint64(i)
			return p
		}
	}
	of.pack = q.taken + uint64(len(q.waiting))
	return q.addPack()
}

// hasRoom reports whether the pack has room for records of size bytes of a client that has little in the queue,
// or of another one.
func (p *pack) hasRoom(size, records int, light bool) bool {
	bytes, most := journal.MaxEnvelope, packRecords
	if !light {
		bytes, most = bytes-lightBytes, most-most/8
	}
	return p.messages+len(p.requests)+records <= most && (p.bytes == 0 || p.records.Size()+size+recordCost <= bytes)
}

// ask lets a pack, behind everything that has come, be asked for more than records. It reports false
// when the queue has ended.
func (q *queue) ask(set func(p *pack)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		set(q.last())
	}
	return !q.ended
}

// last returns the last pack, which is behind everything that has come.
func (q *queue) last() *pack {
	if n := len(q.waiting); n > 0 && q.waiting[n-1].hasRoom(0, 1, true) {
		return q.waiting[n-1]
	}
	return q.addPack()
}

func (q *queue) addPack() *pack {
	var p *pack
	if n := len(q.free); n > 0 {
		p, q.free = q.free[n-1], q.free[:n-1]
	} else {
		p = &pack{}
	}
	p.began, p.ran = q.now()
	p.records.Begin(q.base)
	q.waiting = append(q.waiting, p)
	q.filled.Signal()
	return p
}

// take waits for the next pack. It returns nil after a failure, or after a shutdown when the
// queue is empty.
func (q *queue) take() *pack {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.ended {
		q.filled.Wait()
	}
	if q.err != nil || len(q.waiting) == 0 {
		return nil
	}
	q.storing = q.waiting[0]
	q.waiting = q.waiting[:copy(q.waiting, q.waiting[1:])]
	q.taken++
	return q.storing
}

// oldest returns the running time at which the oldest unacknowledged record came; mu is held.
func (q *queue) oldest() (ran int64, ok bool) {
	if q.storing != nil && q.storing.messages > 0 {
		return q.storing.ran, true
	}
	for _, p := range q.waiting {
		if p.messages > 0 {
			return p.ran, true
		}
	}
	return 0, false
}

// release returns a stored pack to the free list. It returns the delayed answers if there is
// room again; they are valid until the next release.
func (q *queue) release(p *pack) []answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.storing = nil
	q.bytes -= p.bytes
	q.records -= p.count
	for _, h := range p.held {
		h.session.queued -= h.bytes
	}
	q.wake()
	if len(q.free) < keptPacks {
		clear(p.entries)
		clear(p.requests)
		clear(p.held)
		*p = pack{records: p.records, requests: p.requests[:0], entries: p.entries[:0], held: p.held[:0]}
		q.free = append(q.free, p)
	}
	clear(q.sending)
	q.sending = q.sending[:0]
	if q.hasRoom() {
		q.sending, q.delayed = q.delayed, q.sending
	}
	return q.sending
}

// end makes the queue refuse new records. With an error, the waiting ones are not stored
// either. The first error is kept.
func (q *queue) end(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if q.err == nil {
		q.err = why
	}
	q.filled.Broadcast()
	q.wake()
}

// failure returns the error that ended the queue; nil: it is running, or was shut down.
func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// move is a position in an envelope that is not stored yet.
type move struct {
	cursor             *cursor
	number, generation uint64
}

// change is a request to do something between two packs, for the committer: it does it, and then calls done with why it
// was refused, unless the log has failed.
type change struct {
	do   func() (refused, failed error)
	done func(refused error)
}

// addChange queues a change, and reports false when the queue has ended.
func (q *queue) addChange(c change) bool {
	return q.ask(func(p *pack) { p.changes = append(p.changes, c) })
}
