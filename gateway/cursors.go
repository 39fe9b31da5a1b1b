package gateway

import (
	"cmp"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// place is how far a reader, or one share of it, has read; readers.mu guards it.
type place struct {
	name       string
	share, of  uint16
	number     uint64 // of the last record that was acknowledged
	generation uint64 // of the holder
	instance   uint64 // of its program; 0: unknown, or an operator has changed the place
	expire     int64  // milliseconds of running time without a holder after which it does not hold the log; 0: readers.expiry
	seen       int64  // when it last had a holder, by clock.running
	holder     *holder

	lag        lag
	expirySaid expiryNews
	logged     uint64    // the number that the log has
	listed     bool      // in readers.dirty
	wrote      time.Time // to the log
}

// ride is a position in an envelope that is not stored yet.
type ride struct {
	place              *place
	number, generation uint64
}

// change is a request to change places, or to do something else between two packs, for the committer.
type change struct {
	run  func() error                                    // instead of plan; its error is that of done, unless the log has failed
	plan func(running int64) ([]journal.Position, error) // with readers.mu; again if another server appends first
	done func(err error)
}

// addChange queues a change, and reports false when the queue has ended.
func (q *queue) addChange(c *change) bool {
	return q.ask(func(p *pack) { p.changes = append(p.changes, c) })
}

// soil lists a place whose position the log does not have; mu is held.
func (r *readers) soil(p *place) {
	if !p.listed {
		p.listed = true
		r.dirty = append(r.dirty, p)
	}
}

// position returns the entry for a place; mu is held.
func (p *place) position(running int64) journal.Position {
	e := journal.Position{Name: p.name, Share: p.share, Of: p.of, Number: p.number, Generation: p.generation, Instance: p.instance, Expire: p.expire}
	if p.holder == nil {
		e.Away = max(running-p.seen, 0)
	}
	return e
}

// ridePositions adds the positions that are due to a pack. Each reader writes one in positionTime, so
// that positions are a small part of the log.
func (s *Server) ridePositions(p *pack) {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dirty) == 0 {
		return
	}
	now, left := time.Now(), r.dirty[:0]
	for _, at := range r.dirty {
		e := at.position(at.seen)
		e.Moves = true
		if now.Sub(at.wrote) < s.positionTime || p.records.Position(&e) != nil {
			left = append(left, at)
			continue
		}
		at.listed, at.wrote = false, now
		p.rides = append(p.rides, ride{at, at.number, at.generation})
	}
	clear(r.dirty[len(left):])
	r.dirty = left
}

// leftOut notes that the positions of a pack were not stored with it.
func (s *Server) leftOut(p *pack) {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ride := range p.rides {
		if ride.place.generation == ride.generation {
			r.soil(ride.place)
		}
	}
	p.rides = nil
}

// arrived notes that a pack is stored.
func (s *Server) arrived(p *pack, records int) {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if records > 0 {
		r.stored.add(s.next-1, records, p.began)
	}
	for _, ride := range p.rides {
		if ride.place.generation == ride.generation {
			ride.place.logged = max(ride.place.logged, ride.number)
		}
	}
}

// change carries out a change: it stores what it plans, and then calls done.
func (s *Server) change(c *change) error {
	r := &s.readers
	if c.run != nil {
		err := c.run()
		c.done(err)
		if errors.Is(err, errRefused) {
			err = nil
		}
		return err
	}
	if err := s.followOthers(); err != nil {
		return err
	}
	return s.untilFirst(func() error {
		s.queue.mu.Lock()
		running, base := s.readClock(), s.queue.base
		s.queue.mu.Unlock()
		r.mu.Lock()
		entries, why := c.plan(running)
		id, unnamed := r.identity(), !r.named()
		r.mu.Unlock()
		if why != nil || len(entries) == 0 && !unnamed {
			c.done(why)
			return nil
		}
		var e journal.Encoder
		e.Begin(base)
		err := error(nil)
		if unnamed {
			err = e.Identity(id)
		}
		for i := range entries {
			err = cmp.Or(err, e.Position(&entries[i]))
		}
		if err != nil {
			c.done(err)
			return nil
		}
		if err := s.append(e.Bytes()); err != nil {
			return err
		}
		r.mu.Lock()
		if unnamed {
			r.log = id
		}
		for i := range entries {
			r.apply(&entries[i], running)
		}
		r.mu.Unlock()
		c.done(nil)
		return nil
	})
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
	all := r.places[e.Name]
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
		all = make([]*place, e.Of)
		for i := range all {
			all[i] = &place{name: e.Name, share: uint16(i), of: e.Of, number: e.Number, logged: e.Number, expire: e.Expire, seen: running}
		}
		r.places[e.Name] = all
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
	for _, p := range r.places[name] {
		r.evict(p, errChanged)
		r.dirty = slices.DeleteFunc(r.dirty, func(d *place) bool { return d == p })
		r.shares--
	}
	delete(r.places, name)
}

// evict ends the connection that holds a place; mu is held.
func (r *readers) evict(p *place, why error) {
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
	r.places, r.shares, r.log, r.stored = map[string][]*place{}, 0, [16]byte{}, milestones{}
}

// appendPlaces adds all places and the log's identity to a checkpoint.
func (s *Server) appendPlaces(e *journal.Encoder, running int64, id *[16]byte) (err error) {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	*id = r.identity()
	err = e.Identity(*id)
	for _, name := range slices.Sorted(maps.Keys(r.places)) {
		for _, p := range r.places[name] {
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

// mostPlaces is how many shares of readers are remembered: each checkpoint has them all.
const mostPlaces = 4096

func newPlaces(name string, shares uint16, number, generation uint64, expire int64) []journal.Position {
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
	if p := h.place; p != nil && p.holder == h {
		p.holder, p.seen = nil, running
	}
}
