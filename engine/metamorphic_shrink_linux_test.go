package engine

import (
	"slices"
	"time"
)

// shrinkTime bounds shrinking, and shrinkPatience each of its runs.
const (
	shrinkTime     = 30 * time.Second
	shrinkPatience = 500 * time.Millisecond
)

// shrinker makes a history smaller while it still violates the same rule.
type shrinker struct {
	best    history
	e       Engine
	rule    string
	without map[string]bool
	runs    int // per attempt, because chance may play a role
	until   time.Time
}

// shrink returns a small history that violates the same rule, as a test.
func shrink(h history, e Engine, v *violation, without map[string]bool) string {
	h.moves = h.moves[:min(v.moves+1, len(h.moves))]
	s := &shrinker{best: h, e: e, rule: v.rule, without: without, until: time.Now().Add(shrinkTime)}
	for s.runs = 1; !s.try(h); s.runs *= 2 {
		if s.runs > 16 {
			return "it did not happen again:\n" + program(h, e, v.rule)
		}
	}
	for smaller := true; smaller; {
		smaller = s.dropGuests()
		smaller = s.dropMoves() || smaller
		smaller = s.dropParts() || smaller
	}
	return program(s.best, e, v.rule)
}

// try adopts a history if it still violates the rule.
func (s *shrinker) try(h history) bool {
	if time.Now().After(s.until) {
		return false
	}
	for range s.runs {
		if v := enact(h, s.e, shrinkPatience, s.without); v != nil && v.rule == s.rule {
			s.best = h
			return true
		}
	}
	return false
}

// dropGuests drops all moves of a client.
func (s *shrinker) dropGuests() (smaller bool) {
	for on := range mostGuests {
		h := s.best
		h.moves = slices.DeleteFunc(slices.Clone(h.moves), func(m move) bool { return m.on == on && m.isOfGuest() })
		smaller = len(h.moves) < len(s.best.moves) && s.try(h) || smaller
	}
	return smaller
}

// isOfGuest reports whether a move concerns one client only.
func (m move) isOfGuest() bool {
	return !slices.Contains([]string{"idle", "pass", "calm", "check", "shutdown", "force"}, m.do)
}

// dropMoves drops runs of moves, long ones first.
func (s *shrinker) dropMoves() (smaller bool) {
	for n := len(s.best.moves) / 2; n > 0; n /= 2 {
		for at := len(s.best.moves) - n; at >= 0; at -= n {
			if at+n > len(s.best.moves) {
				continue
			}
			h := s.best
			h.moves = slices.Delete(slices.Clone(h.moves), at, at+n)
			smaller = s.try(h) || smaller
		}
	}
	return smaller
}

// dropParts simplifies limits, moves, requests and programs.
func (s *shrinker) dropParts() (smaller bool) {
	for _, f := range []func(l *Limits){
		func(l *Limits) { l.HighWater = 0 }, func(l *Limits) { l.HardCap = 0 }, func(l *Limits) { l.InFlight = 0 }, func(l *Limits) { l.Helpers = 0 },
		func(l *Limits) { l.TotalInFlight = 0 }, func(l *Limits) { l.TotalOutput = 0 }, func(l *Limits) { l.TotalInput = 0 }, func(l *Limits) { l.Conns = 0 },
	} {
		h := s.best
		if f(&h.limits); h.limits != s.best.limits {
			smaller = s.try(h) || smaller
		}
	}
	if h := s.best; h.tongue != 0 {
		h.tongue = 0
		smaller = s.try(h) || smaller
	}
	for i := range s.best.moves {
		smaller = s.each(i, func(m *move) []func() {
			all := []func(){
				func() { m.cut = 0 }, func() { m.back = 0 }, func() { m.size = min(m.size, 1) }, func() { m.n = min(m.n, 1) }, func() { m.n = 0 },
				func() {
					if m.do == "connect tcp" || m.do == "connect adapter" {
						m.do = "connect"
					}
				},
			}
			for j := range m.within {
				all = append(all, func() { m.within = slices.Delete(m.within, j, j+1) })
			}
			for j := range m.asks {
				r := &m.asks[j]
				all = append(all, func() { m.asks = slices.Delete(m.asks, j, j+1) }, func() { r.size = 0 }, func() { r.body = 0 }, func() { r.tail = 0 })
				for k := range r.acts {
					all = append(all, func() { r.acts = slices.Delete(r.acts, k, k+1) }, func() { r.acts[k].n = min(r.acts[k].n, 1) })
				}
			}
			return all
		}) || smaller
	}
	return smaller
}

// each tries the simplifications of one move, one by one.
func (s *shrinker) each(i int, simplify func(*move) []func()) (smaller bool) {
	for n := 0; ; n++ {
		h, m := s.best, s.best.moves[i].clone()
		all := simplify(&m)
		if n >= len(all) {
			return smaller
		}
		if all[n](); m.do == "send" && len(m.asks) == 0 || m.String() == s.best.moves[i].String() {
			continue
		}
		h.moves = slices.Clone(h.moves)
		h.moves[i] = m
		if s.try(h) {
			smaller = true
			n--
		}
	}
}

// clone returns a deep copy.
func (m move) clone() move {
	m.within = slices.Clone(m.within)
	m.asks = slices.Clone(m.asks)
	for i := range m.asks {
		m.asks[i].acts = slices.Clone(m.asks[i].acts)
	}
	return m
}
