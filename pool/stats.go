package pool

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Stats counts what a [Buffers] has done. Numbers that belong together are
// exact while nobody uses the pool, and at most a few calls apart otherwise.
type Stats struct {
	Hits   uint64 // memory that was lent again, for Get and for growth
	Misses uint64 // memory that was allocated

	TooLarge  uint64 // dropped for being larger than Max
	TooSmall  uint64 // dropped for being smaller than the smallest class
	Underused uint64 // dropped for being far larger than what Get(0) is used for

	Lent      int64 // buffers that are lent now
	LentBytes int64 // and their memory
	WarmBytes int64 // memory that collections do not free, lent or not

	Leaked uint64 // collected while lent: nobody can release them any more
}

// account counts the lendings of one memory. Counting there, and adding up when
// somebody asks, is what makes a lending cost no operation on anything shared. It
// outlives its memory, so that nothing that has been counted is lost.
type account struct {
	moves  atomic.Uint64 // one for each Get and each Release: odd while lent
	size   atomic.Int64  // of the memory; written by its user
	holder weak.Pointer[memory]
}

// ledger has the accounts of a pool, and the sums of those that are closed.
type ledger struct {
	mu       sync.Mutex
	accounts []*account
	full     int // how many accounts make it worth to look which can be closed
	hits     uint64
	misses   uint64
	leaked   uint64

	tooLarge, tooSmall, underused atomic.Uint64 // each one is an allocation elsewhere
}

// leastFull is what ledger.full never falls below.
const leastFull = 64

// open begins to count for memory that is lent for the first time. Closing old
// accounts is paid for by opening as many.
func (l *ledger) open(m *memory) {
	a := &account{holder: weak.Make(m)}
	a.size.Store(int64(m.size))
	m.account = a
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accounts) >= max(l.full, leastFull) {
		l.close(new(Stats))
		l.full = 2 * len(l.accounts)
	}
	l.accounts = append(l.accounts, a)
	l.misses++
}

// close closes the accounts of memory that is no more, and adds up the others. mu
// held.
func (l *ledger) close(s *Stats) {
	open := l.accounts[:0]
	for _, a := range l.accounts {
		gone := a.holder.Value() == nil
		moves := a.moves.Load() // after gone: then it is final
		hits, lent := (max(moves, 1)-1)/2, moves%2
		switch {
		case gone:
			l.hits += hits
			l.leaked += lent
			continue
		case lent == 1:
			s.Lent++
			s.LentBytes += a.size.Load()
		}
		s.Hits += hits
		open = append(open, a)
	}
	clear(l.accounts[len(open):])
	l.accounts = open
}

// Stats looks at all memory there is, some 20 ns each. It allocates nothing.
func (p *Buffers) Stats() Stats {
	l := &p.ledger
	s := Stats{
		TooLarge:  l.tooLarge.Load(),
		TooSmall:  l.tooSmall.Load(),
		Underused: l.underused.Load(),
		WarmBytes: p.warm.bytes.Load(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close(&s)
	s.Hits += l.hits
	s.Misses, s.Leaked = l.misses, l.leaked
	return s
}
