package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// place is how far a reader, or one share of it, has read; readers.mu guards it.
type place struct {
	name       string
	share, of  uint16
	number     uint64 // of the last record that was acknowledged
	generation uint64 // of the holder
	instance   uint64 // of its program; 0: unknown, or an operator has changed the place
	expire     int64  // milliseconds of running time without a holder after which it does not hold the log
	seen       int64  // when it last had a holder, by clock.running
	holder     *holder

	lag    Lag
	logged uint64    // the number that the log has
	listed bool      // in readers.dirty
	wrote  time.Time // to the log
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
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	p := q.last(0)
	p.changes = append(p.changes, c)
	return true
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
	for range maxConflicts {
		if s.Shared {
			if err := s.follow(); err != nil {
				return err
			}
		}
		s.queue.mu.Lock()
		running, base := s.readClock(), s.queue.base
		s.queue.mu.Unlock()
		r.mu.Lock()
		entries, why := c.plan(running)
		id, named := r.log, r.named || s.Format < 2
		r.mu.Unlock()
		if why != nil || len(entries) == 0 && named {
			c.done(why)
			return nil
		}
		e := journal.Encoder{Format: 2}
		e.Begin(base)
		err := error(nil)
		if !named {
			id = newIdentity()
			err = e.Identity(id)
		}
		for i := range entries {
			err = cmp.Or(err, e.Position(&entries[i]))
		}
		if err != nil {
			c.done(err)
			return nil
		}
		err = s.append(e.Bytes())
		if s.conflicts(err) {
			continue
		}
		if err == nil {
			if !named {
				r.identified(id)
			}
			r.mu.Lock()
			for i := range entries {
				r.apply(&entries[i], running)
			}
			r.mu.Unlock()
			c.done(nil)
		}
		return err
	}
	return journal.ErrConflict
}

// newIdentity returns an identity for a log that has none.
func newIdentity() (id journal.Identity) {
	rand.Read(id[:])
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
		r.log, r.named = id, true
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
		p.holder.gone, p.holder.ended = true, why
		p.holder.conn.End(refusal(why))
		p.holder = nil
	}
}

// any reports whether there are readers.
func (r *readers) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.places) > 0
}

// reset forgets everything, before the log is read.
func (r *readers) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.places, r.shares, r.log, r.named, r.stored = map[string][]*place{}, 0, journal.Identity{}, false, milestones{}
}

// appendPlaces adds all places and the log's identity to a checkpoint.
func (s *Server) appendPlaces(e *journal.Encoder, running int64, id *journal.Identity) (err error) {
	if e.Format < 2 {
		return nil
	}
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if *id = r.log; !r.named {
		*id = newIdentity()
	}
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
func (r *readers) identified(id journal.Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != (journal.Identity{}) {
		r.log, r.named = id, true
	}
}

// opensReader reports whether a Conn is that of a reader.
func opensReader(content []byte) bool {
	return len(content) >= len(readMagic) && string(content[:len(readMagic)]) == readMagic
}

// admit checks an open as far as that needs nothing of the log.
func (s *Server) admit(conn receiver, content []byte) (*holder, error) {
	o, err := parseOpening(content)
	if err != nil {
		return nil, err
	}
	h := &holder{conn: conn, opening: o, shares: uint32(o.shares), state: queued, told: time.Now()}
	prefix := ""
	if h.proof, prefix, err = s.mayRead(conn, o.name, o.token); err != nil {
		return nil, err
	}
	if !h.opening.permitted(prefix) {
		return nil, fmt.Errorf("%w: it may read clients that begin with %q only", ErrUnauthorised, prefix)
	}
	if s.Format < 2 && !o.passing {
		return nil, fmt.Errorf("%w: readers need format 2 of new envelopes (honed --format 2)", ErrLevel)
	}
	h.opening.window = min(max(cmp.Or(o.window, defaultReadWindow), minReadWindow), uint32(s.mostWindow))
	return h, nil
}

// open has a feeder prepare the answer to an open, since that may read the log.
func (s *Server) open(h *holder) error {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.holders) >= s.Readers {
		return fmt.Errorf("%w: %d readers are connected", ErrTooMany, s.Readers)
	}
	s.beginReaders()
	r.holders[h] = true
	r.run = append(r.run, h)
	r.work.Broadcast()
	return nil
}

// prepareOpening finds where a reader begins, and queues its place.
func (s *Server) prepareOpening(h *holder) {
	o, ctx := &h.opening, s.readers.ctx
	first, next, err := s.Log.Bounds()
	if err == nil {
		err = cmp.Or(s.checkPosition(ctx, o.own, first, next), s.checkPosition(ctx, o.resume, first, next))
	}
	if err == nil {
		h.number, err = s.startNumber(ctx, o.start, o.at, first, next)
	}
	c := &change{done: func(err error) { s.welcomeReader(h, err) }}
	c.plan = func(int64) ([]journal.Position, error) {
		if err != nil {
			return nil, err
		}
		return s.planOpening(h)
	}
	if !s.queue.addChange(c) {
		h.conn.Close()
	}
}

// startNumber returns the number behind which a start is, in a log with these bounds; Stored: 0.
func (s *Server) startNumber(ctx context.Context, start Start, at, first, next uint64) (uint64, error) {
	switch start {
	case FromFirst:
		return before(first), nil
	case FromNext:
		return before(next), nil
	case FromNumber:
		if at>>indexBits > next {
			return 0, fmt.Errorf("%w: it ends at position %d", ErrRegressed, next-1)
		}
		return max(at, 1) - 1, nil
	case FromTime:
		pos, err := s.positionAt(ctx, int64(at), first, next)
		return before(pos), err
	}
	return 0, nil
}

// checkPosition returns ErrRegressed if the log has another record at a position than the reader has seen.
func (s *Server) checkPosition(ctx context.Context, p *Position, first, next uint64) error {
	if p == nil {
		return nil
	}
	pos := p.Number >> indexBits
	if pos >= next {
		return fmt.Errorf("%w: it ends at position %d, and the reader has read up to %d", ErrRegressed, next-1, pos)
	}
	if p.Sum == 0 || pos < first {
		return nil
	}
	found := errors.New("found")
	err := s.peek(ctx, pos, func(_ uint64, envelope []byte) error {
		if journal.Sum(envelope) != p.Sum {
			return fmt.Errorf("%w: it has another envelope at position %d than the reader has read", ErrRegressed, pos)
		}
		return found
	})
	var lost *journal.Damage
	var trimmed *journal.TrimmedError
	if err == found || errors.As(err, &lost) || errors.As(err, &trimmed) {
		return nil // what is missing is told as a gap
	}
	return err
}

// planOpening returns what to store for a reader that connects; readers.mu is held.
func (s *Server) planOpening(h *holder) ([]journal.Position, error) {
	r, o := &s.readers, &h.opening
	all := r.places[o.name]
	for _, p := range []*Position{o.own, o.resume} {
		if p != nil && p.Log != r.log {
			return nil, fmt.Errorf("%w: the position is of another log", ErrRegressed)
		}
	}
	if h.gone || h.client.Err() != nil { // it would take over from a connection that was opened later
		return nil, ErrMoved
	}
	if o.passing {
		if o.own != nil {
			h.number = o.own.Number
		}
		return nil, nil
	}
	switch {
	case all == nil && o.start == Stored && o.own == nil:
		return nil, ErrNoReader
	case all == nil && r.shares+int(o.shares) > mostPlaces:
		return nil, fmt.Errorf("%w: %d readers are remembered", ErrTooMany, r.shares)
	case all != nil && len(all) != int(o.shares):
		return nil, fmt.Errorf("%w: it has %d, not %d", ErrShares, len(all), o.shares)
	}
	number, generation := uint64(0), s.next // higher than every one that this name ever had
	if all != nil {
		p := all[o.share]
		generation = max(generation, p.generation+1)
		if o.yields && (p.holder != nil || s.Shared && p.instance != o.instance) {
			return nil, ErrMoved
		}
		switch {
		case o.own != nil:
		case o.resume != nil && o.instance == p.instance && o.instance != 0: // the program goes on where it was
			h.number, number = max(o.resume.Number, p.number), p.number
		case !o.anew || o.start == Stored:
			h.number = p.number
		}
	}
	if o.own != nil {
		if h.number, number = o.own.Number, o.own.Number; o.resume != nil {
			h.number = max(o.resume.Number, number)
		}
	}
	if number == 0 {
		number = h.number
	}
	h.generation = generation
	if all != nil {
		e := all[o.share].position(0)
		e.Number, e.Generation, e.Instance, e.Away = number, generation, o.instance, 0
		return []journal.Position{e}, nil
	}
	entries := newPlaces(o.name, o.shares, h.number, generation, 0)
	entries[o.share].Instance = o.instance
	return entries, nil
}

// mostPlaces is how many shares of readers are remembered: each checkpoint has them all.
const mostPlaces = 4096

// newPlaces returns the positions of a new reader.
func newPlaces(name string, shares uint16, number, generation uint64, expire int64) []journal.Position {
	all := make([]journal.Position, shares)
	for i := range all {
		all[i] = journal.Position{Name: name, Share: uint16(i), Of: shares, Number: number, Generation: generation, Expire: expire}
	}
	return all
}

// welcomeReader answers an open once its place is stored.
func (s *Server) welcomeReader(h *holder, err error) {
	r := &s.readers
	r.mu.Lock()
	var p *place
	if all := r.places[h.opening.name]; !h.opening.passing && err == nil {
		p = all[h.opening.share]
	}
	if h.gone {
		r.mu.Unlock()
		return
	}
	w := readWelcome{
		log: r.log, number: h.number, generation: h.generation, window: h.opening.window,
		share: h.opening.share, shares: h.opening.shares, idle: max(s.limits.IdleTime, 0),
	}
	if err == nil {
		h.open, h.place = true, p
		h.next, h.through = h.number+1, h.number
		if p != nil {
			p.holder = h
		}
	}
	r.mu.Unlock()
	var acks framed.Batch
	if err != nil {
		s.count.refused.Add(1)
		h.reply.fail(&acks, refusal(err))
		acks.Send()
		h.conn.Close()
		return
	}
	h.reply.send(&acks, w.append(nil))
	acks.Send()
	r.mu.Lock()
	r.wake(h)
	r.mu.Unlock()
}

// left notes that a reader's connection has ended; queue.mu is held.
func (r *readers) left(h *holder, running int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.gone = true
	delete(r.holders, h)
	r.waiting = slices.DeleteFunc(r.waiting, func(w *holder) bool { return w == h })
	if p := h.place; p != nil && p.holder == h {
		p.holder, p.seen = nil, running
	}
}
