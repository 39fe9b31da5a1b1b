package load

// moments is a queue in a ring, which grows to the most it has held and
// allocates nothing after that.
type moments struct {
	ring  []int64
	head  int // the place of the first
	count int
}

func (m *moments) push(moment int64) {
	if m.count == len(m.ring) {
		grown := make([]int64, max(16, 2*len(m.ring)))
		n := copy(grown, m.ring[m.head:])
		copy(grown[n:], m.ring[:m.head])
		m.ring, m.head = grown, 0
	}
	m.ring[(m.head+m.count)%len(m.ring)] = moment
	m.count++
}

// first panics when there is none, and so does pop.
func (m *moments) first() int64 { return m.ring[m.head] }

func (m *moments) pop() int64 {
	moment := m.first()
	m.head = (m.head + 1) % len(m.ring)
	m.count--
	return moment
}
