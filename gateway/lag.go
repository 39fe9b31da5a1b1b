package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// lag is how much a reader has not acknowledged, see ReaderState.
type lag struct {
	records uint64
	bytes   int64
	age     time.Duration
}

// milestones are how many records the log has got since the start, up to some of its positions.
type milestones struct {
	records uint64
	newest  uint64 // position of the newest envelope with records; 0: none since the start
	every   int    // envelopes between two marks
	left    int    // of those, until the next one
	marks   []milestone
}

// milestone is the number of records before a position, and the log time of the next one.
type milestone struct {
	pos, records uint64
	time         int64
}

// mostMilestones bounds the memory: with more, marks are twice as far apart.
const mostMilestones = 1 << 12

// add notes an envelope with records.
func (m *milestones) add(pos uint64, records int, ms int64) {
	if m.left--; m.left <= 0 {
		if len(m.marks) == mostMilestones {
			for i := range len(m.marks) / 2 {
				m.marks[i] = m.marks[2*i]
			}
			m.marks, m.every = m.marks[:len(m.marks)/2], 2*m.every
		}
		m.every = max(m.every, 1)
		m.left = m.every
		m.marks = append(m.marks, milestone{pos, m.records, ms})
	}
	m.records += uint64(records)
	m.newest = pos
}

// from returns the first mark at pos or later, or the last one; false: pos is older than all.
func (m *milestones) from(pos uint64) (milestone, bool) {
	if len(m.marks) == 0 || pos < m.marks[0].pos {
		return milestone{}, false
	}
	i := sort.Search(len(m.marks), func(i int) bool { return m.marks[i].pos >= pos })
	return m.marks[min(i, len(m.marks)-1)], true
}

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
		pos := (p.reached() + 1) >> indexBits
		mark, known := r.stored.from(pos)
		all, newest := r.stored.records, r.stored.newest
		r.mu.Unlock()
		behind, ms := lag{records: all - mark.records}, mark.time
		if !known && pos < end { // before this server's start
			at := uint64(0)
			var err error
			if ms, at, err = s.timeAt(ctx, pos, end, false); err != nil {
				return err
			}
			newest = at + 1
			if at == end {
				newest = 0
			}
		}
		if pos < now.since && len(now.moments) > 0 { // an earlier stretch ended when this one began
			ms = now.moments[0].Time
		}
		if _, behind.bytes = measure(pos); !known {
			behind.records = max(uint64(float64(behind.bytes)/perRecord), 1)
		}
		if behind.age = time.Duration(max(now.time-ms, 0)) * time.Millisecond; newest < pos || newest == 0 {
			behind = lag{}
		}
		r.mu.Lock()
		p.lag = behind
		r.mu.Unlock()
	}
	return nil
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

// ReaderState is a reader, or one share of it.
type ReaderState struct {
	Name       string        `json:"name"`
	Share      int           `json:"share"`
	Shares     int           `json:"shares"`
	Position   Position      `json:"position"` // acknowledged
	Generation uint64        `json:"generation"`
	Connected  bool          `json:"connected"`
	Away       time.Duration `json:"away_ns"`             // for how long it was not connected, of running time
	Expire     time.Duration `json:"expire_ns,omitempty"` // after that time away it no longer holds the log; 0: never
	Holds      bool          `json:"holds"`               // the log
	InFlight   uint64        `json:"in_flight_bytes"`     // sent, and not taken by the program yet

	// What it has not acknowledged, a few seconds ago: records, roughly if it is behind the start of this
	// server; bytes of the log, roughly; and the age of the oldest record, in log time.
	LagRecords uint64        `json:"lag_records"`
	LagBytes   int64         `json:"lag_bytes"`
	LagAge     time.Duration `json:"lag_age_ns"`
}

// ReaderStates returns the readers in the order of their names.
func (s *Server) ReaderStates() []ReaderState {
	s.prepared.Do(s.prepare)
	s.queue.mu.Lock()
	running := s.clock.running
	s.queue.mu.Unlock()
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []ReaderState{}
	for _, p := range r.sorted() {
		st := ReaderState{
			Name: p.name, Share: int(p.share), Shares: int(p.of), Position: Position{Log: r.log, Number: p.number}, Generation: p.generation,
			Expire: time.Duration(max(cmp.Or(p.expire, r.expiry), 0)) * time.Millisecond, Holds: r.keeps(p, running) > 0,
			LagRecords: p.lag.records, LagBytes: p.lag.bytes, LagAge: p.lag.age,
		}
		if h := p.holder; h != nil {
			st.Connected, st.InFlight = true, h.sent-h.taken
		} else {
			st.Away = time.Duration(max(running-p.seen, 0)) * time.Millisecond
		}
		all = append(all, st)
	}
	return all
}

// keeps returns for how much more running time a reader keeps the log from being trimmed; 0: it has expired. mu is held.
func (r *readers) keeps(p *cursor, running int64) int64 {
	expire := cmp.Or(p.expire, r.expiry)
	if expire < 0 || p.holder != nil {
		return math.MaxInt64
	}
	return max(expire-(running-p.seen), 0)
}

// expireWarning is how long before a reader expires honed warns, at most: a quarter of its time.
const expireWarning = 7 * 24 * time.Hour

// expiryNews is what the log of honed has said of a reader that is away.
type expiryNews uint8

const (
	nothingSaid expiryNews = iota
	expiresSoon
	hasExpired
)

// warnOfExpiry logs which readers will expire soon, and which have.
func (s *Server) warnOfExpiry() {
	running := s.times().running
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.sorted() {
		state, left := nothingSaid, r.keeps(p, running)
		switch {
		case left == 0:
			state = hasExpired
		case left <= min(cmp.Or(p.expire, r.expiry)/4, expireWarning.Milliseconds()):
			state = expiresSoon
		}
		if state > p.expirySaid {
			what := "a reader that is away expires soon: the log is then no longer kept for it"
			if state == hasExpired {
				what = "a reader has expired: the log is no longer kept for it"
			}
			away := time.Duration(running-p.seen) * time.Millisecond
			s.log.Warn(what, "reader", p.name, "share", p.share, "away", away, "left", time.Duration(left)*time.Millisecond)
		}
		p.expirySaid = state
	}
}

// displaced returns what to store so that shares more are remembered: if these are too many, expired readers are
// forgotten, first those that are away for the longest time. mu is held.
func (r *readers) displaced(shares int, running int64, generation uint64) (removed []journal.Position, err error) {
	left := r.shares + shares - mostCursors
	if left <= 0 {
		return nil, nil
	}
	type expired struct {
		name string
		seen int64
	}
	var all []expired
	for name, cursors := range r.cursors {
		last := expired{name: name}
		for _, p := range cursors {
			last.seen = max(last.seen, p.seen)
			if generation = max(generation, p.generation+1); r.keeps(p, running) > 0 {
				last.name = ""
			}
		}
		if last.name != "" {
			all = append(all, last)
		}
	}
	slices.SortFunc(all, func(a, b expired) int {
		return cmp.Or(cmp.Compare(a.seen, b.seen), strings.Compare(a.name, b.name))
	})
	for ; left > 0; all = all[1:] {
		if len(all) == 0 {
			return nil, fmt.Errorf("%w: %d readers are remembered", ErrTooMany, r.shares)
		}
		left -= len(r.cursors[all[0].name])
		removed = append(removed, journal.Position{Name: all[0].name, Of: 1, Generation: generation, Removed: true})
	}
	return removed, nil
}
