package gateway

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// cursor is how far a reader, or one share of it, has read; readers.mu guards it.
type cursor struct {
	name       string
	share, of  uint16
	number     uint64 // of the last record that was acknowledged
	generation uint64 // of the holder
	instance   uint64 // of its program; 0: unknown, or an operator has changed the cursor
	expire     int64  // milliseconds of running time without a holder after which it does not hold the log; 0: readers.expiry
	seen       int64  // when it last had a holder, by clock.running
	holder     *holder

	lag        lag
	expirySaid expiryNews
	logged     uint64    // the number that the log has
	listed     bool      // in readers.dirty
	wrote      time.Time // to the log
}

// move is a position in an envelope that is not stored yet.
type move struct {
	cursor             *cursor
	number, generation uint64
}

// change is a request to do something between two packs, for the committer: it does it, and then calls done with why it
// was refused, unless the log has failed.
type change struct {
	do   func(*committer) (refused, failed error)
	done func(refused error)
}

// cursorPlan returns what to store in a log with this next position. It is called with readers.mu, and again if another
// server appends first.
type cursorPlan func(next uint64, running int64) ([]journal.Position, error)

// addChange queues a change, and reports false when the queue has ended.
func (q *queue) addChange(c change) bool {
	return q.ask(func(p *pack) { p.changes = append(p.changes, c) })
}

// markDirty lists a cursor whose position the log does not have; mu is held.
func (r *readers) markDirty(p *cursor) {
	if !p.listed {
		p.listed = true
		r.dirty = append(r.dirty, p)
	}
}

// position returns the entry for a cursor; mu is held.
func (p *cursor) position(running int64) journal.Position {
	e := journal.Position{Name: p.name, Share: p.share, Of: p.of, Number: p.number, Generation: p.generation, Instance: p.instance, Expire: p.expire}
	if p.holder == nil {
		e.Away = max(running-p.seen, 0)
	}
	return e
}

// addPositions adds the positions that are due to a pack. Each reader writes one in positionTime, so
// that positions are a small part of the log.
func (c *committer) addPositions(p *pack) {
	r := &c.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dirty) == 0 {
		return
	}
	now, left := time.Now(), r.dirty[:0]
	for _, at := range r.dirty {
		e := at.position(at.seen)
		e.Moves = true
		if now.Sub(at.wrote) < c.positionTime || p.records.Position(&e) != nil {
			left = append(left, at)
			continue
		}
		at.listed, at.wrote = false, now
		p.moves = append(p.moves, move{at, at.number, at.generation})
	}
	clear(r.dirty[len(left):])
	r.dirty = left
}

// leftOut notes that the positions of a pack were not stored with it.
func (c *committer) leftOut(p *pack) {
	r := &c.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, moved := range p.moves {
		if moved.cursor.generation == moved.generation {
			r.markDirty(moved.cursor)
		}
	}
	p.moves = nil
}

// arrived notes that a pack is stored.
func (c *committer) arrived(p *pack, records int) {
	r := &c.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if records > 0 {
		r.stored.add(c.next-1, records, p.began)
	}
	for _, moved := range p.moves {
		if moved.cursor.generation == moved.generation {
			moved.cursor.logged = max(moved.cursor.logged, moved.number)
		}
	}
}

// changeCursors stores what a plan says.
func (c *committer) changeCursors(plan cursorPlan) (refused, failed error) {
	if err := c.followOthers(); err != nil {
		return nil, err
	}
	failed = c.untilFirst(func() (err error) {
		refused, err = c.tryPlan(plan)
		return err
	})
	return refused, failed
}

func (c *committer) tryPlan(plan cursorPlan) (refused, failed error) {
	r := &c.readers
	c.queue.mu.Lock()
	running, base := c.readClock(), c.queue.base
	c.queue.mu.Unlock()
	r.mu.Lock()
	entries, refused := plan(c.next, running)
	id, unnamed := r.identity(), !r.named()
	r.mu.Unlock()
	if refused != nil || len(entries) == 0 && !unnamed {
		return refused, nil
	}
	var e journal.Encoder
	e.Begin(base)
	if unnamed {
		refused = e.Identity(id)
	}
	for i := range entries {
		refused = cmp.Or(refused, e.Position(&entries[i]))
	}
	if refused != nil {
		return refused, nil
	}
	if err := c.append(e.Bytes()); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = id
	for i := range entries {
		r.apply(&entries[i], running)
	}
	return nil, nil
}

// named reports whether the log has its identity; mu is held.
func (r *readers) named() bool { return r.log != [16]byte{} }

// identity returns the log's identity, or a new one for a log that has none; mu is held.
func (r *readers) identity() (id [16]byte) {
	if id = r.log; !r.named() {
		rand.Read(id[:])
	}
	return id
}

// learn learns from an envelope of the log. queue.mu is held.
func (r *readers) learn(e journal.Envelope, running int64, pos uint64, records int, came int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if records > 0 {
		r.stored.add(pos, records, came)
	}
	if id, ok := e.Identity(); ok {
		r.log = id
	}
	for p := range e.Positions() {
		r.apply(&p, running)
	}
}

// apply applies a position of the log; mu is held. What an older generation says is void.
func (r *readers) apply(e *journal.Position, running int64) {
	all := r.cursors[e.Name]
	if e.Moves && (len(all) != int(e.Of) || int(e.Share) >= len(all) || all[e.Share].generation != e.Generation) {
		return
	}
	newest := uint64(0)
	for _, p := range all {
		newest = max(newest, p.generation)
	}
	switch {
	case e.Removed:
		if e.Generation > newest {
			r.forget(e.Name)
		}
		return
	case e.Of == 0 || e.Of > maxShares || e.Share >= e.Of:
		return
	case len(all) != int(e.Of):
		if e.Generation <= newest {
			return
		}
		r.forget(e.Name)
		all = make([]*cursor, e.Of)
		for i := range all {
			all[i] = &cursor{name: e.Name, share: uint16(i), of: e.Of, number: e.Number, logged: e.Number, expire: e.Expire, seen: running}
		}
		r.cursors[e.Name] = all
		r.shares += len(all)
	}
	p := all[e.Share]
	if e.Generation < p.generation || e.Generation == p.generation && e.Number < p.number {
		return
	}
	if p.holder != nil && e.Generation > p.generation {
		why := ErrMoved
		if e.Ordered {
			why = errChanged
		}
		r.evict(p, why)
	}
	if p.logged = e.Number; p.holder != nil && e.Generation == p.generation {
		return // it is ahead of the log
	}
	p.instance = e.Instance
	if p.number, p.generation, p.expire = e.Number, e.Generation, e.Expire; p.holder == nil {
		p.seen = running - e.Away
	}
}

// forget forgets a reader; mu is held.
func (r *readers) forget(name string) {
	for _, p := range r.cursors[name] {
		r.evict(p, errChanged)
		r.dirty = slices.DeleteFunc(r.dirty, func(d *cursor) bool { return d == p })
		r.shares--
	}
	delete(r.cursors, name)
}

// evict ends the connection that holds a cursor; mu is held.
func (r *readers) evict(p *cursor, why error) {
	if p.holder != nil {
		p.holder.end(why)
		p.holder = nil
	}
}

// end ends a reader's connection; readers.mu is held.
func (h *holder) end(why error) {
	h.gone, h.ended = true, why
	h.conn.End(refusal(why))
}

// reset forgets everything, before the log is read.
func (r *readers) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursors, r.shares, r.log, r.stored = map[string][]*cursor{}, 0, [16]byte{}, milestones{}
}

// appendCursors adds all cursors and the log's identity to a checkpoint.
func (s *Server) appendCursors(e *journal.Encoder, running int64, id *[16]byte) (err error) {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	*id = r.identity()
	err = e.Identity(*id)
	for _, name := range slices.Sorted(maps.Keys(r.cursors)) {
		for _, p := range r.cursors[name] {
			at := p.position(running)
			err = cmp.Or(err, e.Position(&at))
		}
	}
	return err
}

// identified notes that the log has its identity, unless id is none.
func (r *readers) identified(id [16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != ([16]byte{}) {
		r.log = id
	}
}

// mostCursors is how many shares of readers are remembered: each checkpoint has them all.
const mostCursors = 4096

func newCursors(name string, shares uint16, number, generation uint64, expire int64) []journal.Position {
	all := make([]journal.Position, shares)
	for i := range all {
		all[i] = journal.Position{Name: name, Share: uint16(i), Of: shares, Number: number, Generation: generation, Expire: expire}
	}
	return all
}

// left notes that a reader's connection has ended; queue.mu is held.
func (r *readers) left(h *holder, running int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.gone = true
	delete(r.holders, h)
	if p := h.cursor; p != nil && p.holder == h {
		p.holder, p.seen = nil, running
	}
}
