package engine

import (
	"cmp"
	"slices"
)

// charge counts n bytes more that wait for peers, and has the sweeper look when
// they pass the budget.
func (s *Server) charge(n int) {
	now, budget := s.queued.Add(int64(n)), int64(s.limits.TotalOutput)
	if before := now - int64(n); before <= budget && now > budget {
		s.clock.sweepNow()
	}
}

// condemnSlowest picks those who have taken nothing for longest, until the rest
// is within seven eighths of the budget. Who has taken something within the last
// four sweeps is reading, and does not pay.
func (s *Server) condemnSlowest(total int64, now tick) {
	type debtor struct {
		k       connRef
		age     tick
		waiting int64
	}
	var debtors []debtor
	s.each(func(k connRef) {
		x := k.x.Load()
		if x == nil || x.waiting == 0 {
			return
		}
		stall := x.stall.Load()
		if stall == 0 || stall-now <= ahead {
			return
		}
		if age := now - stall; age > 4*s.rules.hurried() {
			debtors = append(debtors, debtor{k, age, x.waiting})
		}
	})
	slices.SortFunc(debtors, func(a, b debtor) int {
		return cmp.Or(cmp.Compare(b.age, a.age), cmp.Compare(b.waiting, a.waiting))
	})
	budget := int64(s.limits.TotalOutput)
	for _, d := range debtors {
		if total <= budget-budget/8 {
			return
		}
		s.sweeper.condemned = append(s.sweeper.condemned, sentence{d.k, abort, OutputBudget})
		total -= d.waiting
	}
}
