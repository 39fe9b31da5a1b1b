package gateway

import (
	"sort"
	"time"
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
