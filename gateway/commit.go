package gateway

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// commit stores everything that was queued while the previous envelope was in flight, and then acknowledges it, until the
// queue ends.
func (c *committer) commit() {
	defer c.abandon()
	var acks framed.Batch
	if err := c.bury(); err != nil {
		c.fail(err)
		return
	}
	for {
		p := c.queue.take()
		if p == nil {
			break
		}
		err := c.store(p, &acks)
		c.yield()
		switch {
		case err != nil:
		case c.saving != nil && !p.saved:
			if err = c.save(p); err == nil && c.saving != nil && p.bytes >= journal.MaxEnvelope/2 {
				err = c.save(p) // or else too much comes in between
			}
		case c.saving == nil && c.checkpointDue(p):
			c.beginCheckpoint()
		}
		if c.saving != nil {
			c.queue.ask(func(*pack) {}) // for the next part
		}
		if err != nil {
			c.fail(err)
			return
		}
		delayed := c.queue.release(p)
		for i := range delayed {
			delayed[i].send(&acks, nil)
		}
		acks.Send()
	}
	if c.queue.failure() != nil || c.ctx.Err() != nil {
		return
	}
	c.leaving = true
	if err := c.checkpoint(); errors.Is(err, journal.ErrNoSpace) {
		c.log.Warn("no space for a checkpoint at the end; the next start reads more of the log", "err", err)
	} else if err != nil {
		c.fail(err)
	}
}

// store appends a pack to the log and sends its acknowledgements.
func (c *committer) store(p *pack, acks *framed.Batch) error {
	if err := c.storeClock(p); err != nil {
		return err
	}
	if err := c.storeRecords(p); err != nil {
		return err
	}
	for i := range p.entries {
		e := &p.entries[i]
		if e.session.dead { // another server has taken the client; its connection here ends
			if e.durable {
				e.reply.fail(acks, ErrMoved)
			}
			continue
		}
		if e.records > 0 {
			e.session.durable.Store(e.seq)
			e.session.storedSum = e.sum
		}
		if e.durable {
			e.reply.send(acks, nil)
		}
	}
	acks.Send()
	if err := c.grant(p.requests, acks); err != nil {
		return err
	}
	for _, change := range p.changes {
		refused, err := change.do()
		if err != nil {
			return err
		}
		change.done(refused)
	}
	return nil
}

// storeRecords appends a pack's records, and the positions of readers.
func (c *committer) storeRecords(p *pack) error {
	n := p.count
	if n > 0 || p.positions {
		c.addPositions(p)
	}
	if n == 0 && len(p.moves) == 0 && !p.begins {
		return nil
	}
	whole := p.records.Bytes()
	return c.untilFirst(func() error {
		p.records.Rebase(c.queue.base) // a checkpoint may have become complete: a start begins where the last envelope says
		envelope, left, err := p.live(whole, n, c.Shared)
		if len(envelope) < len(whole) {
			c.leftOut(p)
		}
		switch {
		case err != nil || left == 0 && len(p.moves) == 0 && !p.begins:
		case c.savesWith(p):
			if err = c.savePart(p, envelope); errors.Is(err, journal.ErrTooLarge) { // there are too many readers
				err = c.append(envelope)
			}
		default:
			err = c.append(envelope)
		}
		if err == nil {
			c.count.add(func(st *Stats) { st.Records += uint64(left) })
			c.arrived(p, left)
		}
		return err
	})
}

// conflicts reports whether err means only that something else was appended first.
func (c *committer) conflicts(err error) bool {
	return c.Shared && errors.Is(err, journal.ErrConflict) || errors.Is(err, errMadeRoom)
}

// live returns the envelope without the records of clients that another server has taken, if there is one, and with
// times of this stretch, and how many of its n records are left.
func (p *pack) live(whole []byte, n int, shared bool) ([]byte, int, error) {
	dead := false
	for i := 0; shared && i < len(p.entries); i++ {
		dead = dead || p.entries[i].session.dead
	}
	if !dead && !p.restamp {
		return whole, n, nil
	}
	e, err := journal.Decode(whole)
	if err != nil {
		return nil, 0, err
	}
	var live journal.Encoder
	live.Begin(e.Base)
	at, rest := -1, 0
	for r := range e.Records() {
		for ; rest == 0; rest = p.entries[at].records {
			at++
		}
		rest--
		if p.restamp {
			r.Time = p.began
		}
		if !p.entries[at].session.dead {
			if err := live.Record(&r); err != nil {
				return nil, 0, err
			}
		}
	}
	left := live.Count()
	for state := range e.States() {
		if err := live.State(&state); err != nil {
			return nil, 0, err
		}
	}
	e.Packets(func(client string, epoch uint64, released bool, seqs map[uint16]uint64) {
		err = cmp.Or(err, live.Packets(client, epoch, released, seqs))
	})
	return live.Bytes(), left, err
}

// append stores one envelope. While the disk is full it retries until there is space. Until
// then the server acknowledges nothing and stops reading its clients.
func (c *committer) append(envelope []byte) error { return c.appendNext(envelope, false) }

// errMadeRoom means that the log was full, and that another envelope may be stored where the caller wanted its own.
var errMadeRoom = errors.New("gateway: the log was full")

// appendNext is append. With exact it stores the envelope at position c.next, or returns errMadeRoom.
func (c *committer) appendNext(envelope []byte, exact bool) error {
	for {
		pos, err := c.appendOnce(envelope)
		if errors.Is(err, journal.ErrNoSpace) && !c.leaving {
			c.isFull(err)
			if err := c.makeRoom(); err != nil {
				return err
			}
			if sleep(c.ctx, c.retry); c.ctx.Err() != nil {
				return err
			}
			if exact {
				return errMadeRoom
			}
			continue
		}
		if err == nil {
			c.isNotFull()
			c.stored(pos, envelope)
		}
		return err
	}
}

func (c *committer) appendOnce(envelope []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.AppendTime)
	defer cancel()
	began := time.Now()
	pos, err := c.Log.Append(ctx, envelope)
	if err == nil {
		c.count.add(func(st *Stats) { st.appended(time.Since(began)) })
	}
	return pos, err
}

// stored counts an envelope that is in the log.
func (c *committer) stored(pos uint64, envelope []byte) {
	c.count.add(func(st *Stats) {
		st.Envelopes++
		st.Bytes += uint64(len(envelope))
		st.Position = pos
	})
	c.next = pos + 1
	c.since.envelopes++
	c.since.bytes += int64(len(envelope))
	if c.unmeasured += len(envelope); c.unmeasured >= retainBytes {
		c.unmeasured = 0
		select {
		case c.grown <- struct{}{}:
		default: // it was not measured since the last time
		}
	}
	c.readers.add(pos, envelope)
}

// makeRoom stores, in the reserve of a full log, what lets retention delete: how far readers are, and up to
// where the log may be trimmed. A log of several servers has no reserve, and another one may have appended to it.
// Only the committer calls it.
func (c *committer) makeRoom() error {
	if c.Shared || c.RetainAge <= 0 && c.RetainSize <= 0 {
		return nil
	}
	c.queue.mu.Lock()
	t, base := c.queue.trims, c.queue.base
	c.queue.mu.Unlock()
	var p pack
	p.records.Begin(base)
	c.addPositions(&p)
	if t.wanted > t.logged {
		if err := p.records.Trim(t.wanted); err != nil {
			return err
		}
	}
	if p.records.Count() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.AppendTime)
	defer cancel()
	envelope := p.records.Bytes()
	pos, err := c.Log.AppendReserved(ctx, envelope)
	if errors.Is(err, journal.ErrNoSpace) { // not even there
		c.leftOut(&p)
		return nil
	}
	if err != nil {
		return err
	}
	c.stored(pos, envelope)
	c.arrived(&p, 0)
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.queue.trims.done(t.wanted)
	return nil
}
