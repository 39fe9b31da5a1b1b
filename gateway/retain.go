package gateway

import (
	"context"
	"errors"
	"math"
	"sort"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// The log is measured, and trimmed if that is due, this often and after so many bytes.
const (
	retainTime  = 2 * time.Second
	retainBytes = 32 << 20
)

// retain measures the log and deletes what it need not keep: whole segments older than RetainAge, or
// beyond RetainSize, that no reader needs.
func (s *Server) retain(ctx context.Context) error {
	if s.Shared { // so that no other server's trim overtakes this one while it is quiet
		s.queue.ask(func(p *pack) { p.follow = true })
	}
	first, next, err := s.Log.Bounds()
	if err != nil {
		return err
	}
	measure, err := s.Log.Measure(ctx)
	if err != nil {
		return err
	}
	if err := s.measureLags(ctx, measure); err != nil {
		return err
	}
	wanted, err := s.wanted(ctx, first, next, measure)
	if err != nil {
		return err
	}
	to := wanted
	if needed := s.readers.needed(s.times().running); needed < wanted && !s.RetainHard {
		to, _ = measure(max(needed, first))
	}
	bytes := func(from, to uint64) int64 {
		_, a := measure(from)
		_, b := measure(to)
		return a - b
	}
	held := bytes(to, wanted)
	s.count.add(func(st *Stats) { st.Retention.First, st.Retention.Held = first, held })
	s.queue.mu.Lock()
	base := s.queue.base
	s.queue.mu.Unlock()
	if to > max(base, first) { // a start needs the newest checkpoint: make a newer one
		s.queue.ask(func(p *pack) { p.checkpoint = true })
		to, _ = measure(base)
	}
	if to <= first {
		return nil
	}
	overrun, deleted := s.readers.behind(to), bytes(first, to)
	if err := s.Trim(ctx, to); err != nil {
		return err
	}
	s.count.add(func(st *Stats) {
		st.Retention.Trims++
		st.Retention.Bytes += deleted
		st.Retention.Overrun += overrun
	})
	s.log.Info("old records deleted", "before", to, "bytes", deleted, "readers_overrun", overrun)
	return nil
}

// wanted returns up to where age and size want the log to be deleted, the beginning of a segment.
func (s *Server) wanted(ctx context.Context, first, next uint64, measure func(uint64) (uint64, int64)) (to uint64, err error) {
	to = first
	if s.RetainSize > 0 {
		to += uint64(sort.Search(int(next-first), func(i int) bool {
			_, after := measure(first + uint64(i))
			return after <= s.RetainSize
		}))
		to, _ = measure(to)
	}
	if s.RetainAge <= 0 {
		return to, nil
	}
	now := s.times()
	for {
		// Everything before the next segment is at most as young as the first record or clock in it.
		here, _ := measure(to)
		after := to + 1 + uint64(sort.Search(int(next-min(to+1, next)), func(i int) bool {
			begins, _ := measure(to + 1 + uint64(i))
			return begins > here
		}))
		if after >= next {
			return to, nil
		}
		ms, at, err := s.timeAt(ctx, after, next, true)
		if err != nil || at == next || !now.old(at, ms, s.RetainAge.Milliseconds()) {
			return to, err
		}
		to = after
	}
}

// needed returns the first position that a reader needs, by what the log has of it.
func (r *readers) needed(running int64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := uint64(math.MaxUint64)
	for _, p := range r.sorted() {
		if r.keeps(p, running) > 0 {
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

// timeAt returns the log time of the first record from the envelope at pos on, and its position; next: there
// is none. With clocks, it also takes the clock that a quiet server stores.
func (s *Server) timeAt(ctx context.Context, pos, next uint64, clocks bool) (ms int64, at uint64, err error) {
	for pos < next {
		err := s.Log.Read(ctx, pos, decoded(func(p uint64, e journal.Envelope) error {
			for c := range e.Clocks() {
				if clocks {
					ms, at = c.Time, p
					return errFound
				}
			}
			for r := range e.Records() {
				ms, at = r.Time, p
				return errFound
			}
			return nil
		}))
		if err == errFound {
			return ms, at, nil
		}
		if pos, _ = missing(err); pos == 0 {
			return 0, next, err
		}
	}
	return 0, next, nil
}

// positionAt returns the first position of the newest stretch of log time whose records are of a time or later.
func (s *Server) positionAt(ctx context.Context, ms int64, first, next uint64) (pos uint64, err error) {
	first = max(first, s.times().since)
	n := sort.Search(int(next-first), func(i int) bool {
		if err != nil {
			return true
		}
		var at int64
		var found uint64
		at, found, err = s.timeAt(ctx, first+uint64(i), next, false)
		return err == nil && (found == next || at >= ms)
	})
	return first + uint64(n), err
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
