package gateway

import (
	"context"
	"sort"
	"time"
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
	if err := s.trim(ctx, to); err != nil {
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

// trim is Trim of a server that has started.
func (s *Server) trim(ctx context.Context, to uint64) error {
	var logged <-chan error
	asked := s.queue.ask(func(*pack) {
		if to = min(to, s.queue.base); to > 0 {
			logged = s.queue.trims.want(to)
		}
	})
	switch {
	case !asked:
		return ErrServerClosed
	case to == 0:
		return nil
	}
	if err := s.await(ctx, logged); err != nil {
		return err
	}
	return s.Log.Trim(ctx, to)
}

// measureLags measures how far each reader is behind. It reads the record that each has to acknowledge next.
func (s *Server) measureLags(ctx context.Context, measure func(uint64) (uint64, int64)) error {
	r := &s.readers
	now := s.times()
	st := s.count.now()
	perRecord := max(float64(st.Bytes)/float64(max(st.Records, 1)), 50)
	r.mu.Lock()
	end, cursors := r.tail.end, r.sorted()
	r.mu.Unlock()
	for _, p := range cursors {
		r.mu.Lock()
		pos, newest, known := (p.reached()+1)>>indexBits, r.newest, p.lag
		r.mu.Unlock()
		behind := lag{}
		if pos <= newest || newest == 0 {
			from := pos
			if known.pos == pos { // checkpoints, which may be many, need not be read again
				from = max(pos, known.at)
			}
			ms, at, err := s.timeAt(ctx, from, end, false)
			if err != nil {
				return err
			}
			behind.pos, behind.at = pos, at
			if pos < now.since && len(now.moments) > 0 { // an earlier stretch ended when this one began
				ms = now.moments[0].Time
			}
			if at < end {
				_, behind.bytes = measure(pos)
				behind.records = max(uint64(float64(behind.bytes)/perRecord), 1)
				behind.age = time.Duration(max(now.time-ms, 0)) * time.Millisecond
			}
		}
		r.mu.Lock()
		p.lag = behind
		r.mu.Unlock()
	}
	return nil
}
