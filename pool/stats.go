package pool

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Stats are the counters and gauges of a [Buffers]. Related numbers are consistent while
// the pool is not in use, and at most a few calls apart otherwise.
type Stats struct {
	Hits   uint64 // memory that was reused, by Get and by growth
	Misses uint64 // memory that was allocated

	TooLarge  uint64 // dropped for being larger than Max
	TooSmall  uint64 // dropped for being smaller than the smallest class
	Underused uint64 // dropped for being far larger than what Get(0) is used for

	Lent      int64 // buffers in use
	LentBytes int64 // and their memory
	WarmBytes int64 // memory that survives garbage collections, in use or not

	Leaked uint64 // garbage-collected without a Release
}

// account counts how often one memory block was handed out and released. Counting per
// block, and adding up in Stats, keeps Get and Release off shared cache lines. An account
// outlives its memory, so that no count is lost.
type account struct {
	moves  atomic.Uint64 // one for each Get and each Release: odd while in use
	size   atomic.Int64  // of the memory; written by its user
	holder weak.Pointer[memory]
}

// ledger holds the accounts of a pool, and the totals of the closed ones.
type ledger struct {
	mu       sync.Mutex
	accounts []*account
	full     int // number of accounts at which to look for ones that can be closed
	hits     uint64
	misses   uint64
	leaked   uint64

	tooLarge, tooSmall, underused atomic.Uint64 // rare: each implies an allocation elsewhere
}

// leastFull is the lower bound of ledger.full.
const leastFull = 64

// open opens an account for memory that is handed out for the first time. It amortises
// closing old accounts.
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

// close closes the accounts of freed memory and adds up the others. mu is held.
func (l *ledger) close(s *Stats) {
	open := l.accounts[:0]
	for _, a := range l.accounts {
		gone := a.holder.Value() == nil
		moves := a.moves.Load() // final if read after gone
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

// Stats visits all accounts, about 20 ns each. It allocates nothing.
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
