package gateway

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strings"
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

	lag    lag
	logged uint64    // the number that the log has
	listed bool      // in readers.dirty
	wrote  time.Time // to the log
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
func (r *readers) learn(e journal.Envelope, running int64, pos uint64, records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if records > 0 {
		r.newest = pos
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

// reset forgets everything, before the log is read.
func (r *readers) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cursors, r.shares, r.log, r.newest = map[string][]*cursor{}, 0, [16]byte{}, 0
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

// sorted returns all cursors in the order of their names; mu is held.
func (r *readers) sorted() (all []*cursor) {
	for _, cursors := range r.cursors {
		all = append(all, cursors...)
	}
	slices.SortFunc(all, func(a, b *cursor) int {
		return cmp.Or(strings.Compare(a.name, b.name), int(a.share)-int(b.share))
	})
	return all
}

// reached is the number up to which a reader has everything; mu is held. It may be beyond what it has
// acknowledged: there may be no records for it after that.
func (p *cursor) reached() uint64 {
	if h := p.holder; h != nil && h.state == parked && h.through == p.number {
		return h.out.Next - 1
	}
	return p.number
}

// keeps reports whether a reader keeps the log from being trimmed: it has not expired. mu is held.
func (r *readers) keeps(p *cursor, running int64) bool {
	expire := cmp.Or(p.expire, r.expiry)
	return expire < 0 || p.holder != nil || running-p.seen < expire
}

// hasRoom returns ErrTooMany if shares more would be too many; mu is held.
func (r *readers) hasRoom(shares int) error {
	if r.shares+shares > mostCursors {
		return fmt.Errorf("%w: %d shares of readers are remembered; remove one with honed readers remove", ErrTooMany, r.shares)
	}
	return nil
}

// lag is how much a reader has not acknowledged, see ReaderState.
type lag struct {
	records uint64
	bytes   int64
	age     time.Duration
	pos, at uint64 // its next record is at pos or later; none is there before at
}

// needed returns the first position that a reader needs, by what the log has of it.
func (r *readers) needed(running int64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := uint64(math.MaxUint64)
	for _, p := range r.sorted() {
		if r.keeps(p, running) {
			first = min(first, (p.logged+1)>>indexBits)
		}
	}
	return first
}

func (r *readers) behind(to uint64) (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.sorted() {
		if (p.number+1)>>indexBits < to {
			n++
		}
	}
	return n
}

// ordered returns what to store for an order; mu is held.
func (r *readers) ordered(o *ReaderOrder, number, next uint64) ([]journal.Position, error) {
	all, generation, slowest, expire := r.cursors[o.Name], next, uint64(maxNumber), o.Expire.Milliseconds()
	for _, p := range all {
		generation, slowest = max(generation, p.generation+1), min(slowest, p.number)
		if o.Do != "create" {
			expire = p.expire
		}
	}
	shares := len(all)
	switch {
	case o.Do == "create" && all != nil:
		return nil, fmt.Errorf("%w: there is a reader %s", errRefused, o.Name)
	case o.Do != "create" && all == nil:
		return nil, fmt.Errorf("%w: %s", ErrNoReader, o.Name)
	case o.Do == "remove":
		return []journal.Position{{Name: o.Name, Of: 1, Generation: generation, Removed: true, Ordered: true}}, nil
	case o.Do == "split":
		number, shares = slowest, o.Shares
	case o.Do == "create":
		shares = o.Shares
	}
	if err := r.hasRoom(shares - len(all)); err != nil {
		return nil, err
	}
	entries := newCursors(o.Name, uint16(shares), number, generation, expire)
	for i := range entries {
		entries[i].Ordered = true
	}
	return entries, nil
}

// ReaderOrder is what an operator wants of a reader.
type ReaderOrder struct {
	Do     string        `json:"do"` // create, move, split or remove
	Name   string        `json:"name"`
	Shares int           `json:"shares,omitempty"` // to create (zero: 1) or to split into
	Start  Start         `json:"start,omitempty"`  // to create or move: FromFirst, FromNext, FromTime or FromNumber
	At     uint64        `json:"at,omitempty"`     // the time in milliseconds, or the number
	Expire time.Duration `json:"expire,omitempty"` // to create: after that time away it no longer holds the log; 0: Server.ReaderExpiry
}
