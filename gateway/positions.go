package gateway

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// cursorPlan returns what to store in a log with this next position. It is called with readers.mu, and again if another
// server appends first.
type cursorPlan func(next uint64) ([]journal.Position, error)

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
		r.newest = c.next - 1
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
	entries, refused := plan(c.next)
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
