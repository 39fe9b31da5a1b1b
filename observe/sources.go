package observe

import (
	"fmt"
	"sync"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/workers"
)

// WorkerPool is a workers.Pool or a workers.Func of any argument.
type WorkerPool interface {
	Stats() workers.Stats
	Decisions() []workers.Decision
}

// Cache is what a cache has counted since it began, and what it holds.
type Cache struct {
	Hits, Misses uint64
	Evicted      uint64 // entries that made room for others
	Entries      int    // now
	Bytes        int64  // of them, as the cache counts; zero: it does not
}

// checkSources panics for what the programmer has filled in wrongly.
func (a *Admin) checkSources() {
	checkSources("Conns", a.Conns, func(f func() conns.Stats) bool { return f == nil })
	checkSources("Workers", a.Workers, func(p WorkerPool) bool { return p == nil })
	checkSources("Buffers", a.Buffers, func(f func() pool.Stats) bool { return f == nil })
	checkSources("Caches", a.Caches, func(f func() Cache) bool { return f == nil })
}

func checkSources[Source any](field string, sources map[string]Source, missing func(Source) bool) {
	if len(sources) > mostSources {
		panic(fmt.Sprintf("observe: Admin.%s has %d entries, and at most %d keep a metric under %d series; add related ones up",
			field, len(sources), mostSources, mostSeries))
	}
	for name, source := range sources {
		if missing(source) {
			panic(fmt.Sprintf("observe: Admin.%s[%q] is nil", field, name))
		}
	}
}

// moves counts what pools with a limit that finds itself have decided. A pool
// keeps the latest decisions only, so each is counted when it is first seen.
type moves struct {
	mu    sync.Mutex
	known map[string]*poolMoves
}

type poolMoves struct {
	latest time.Time
	counts map[workers.Reason]uint64
}

// read counts what is new, and answers copies. A pool without such a limit has
// no counts.
func (m *moves) read(pools map[string]WorkerPool) map[string]map[workers.Reason]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]map[workers.Reason]uint64, len(pools))
	for name, p := range pools {
		k := m.known[name]
		if k == nil {
			k = &poolMoves{counts: map[workers.Reason]uint64{}}
			if m.known == nil {
				m.known = map[string]*poolMoves{}
			}
			m.known[name] = k
		}
		for _, d := range p.Decisions() {
			if d.At.After(k.latest) {
				k.latest = d.At
				k.counts[d.Reason]++
			}
		}
		counts := make(map[workers.Reason]uint64, workers.Probe)
		for why := workers.Backlog; why <= workers.Probe; why++ {
			counts[why] = k.counts[why]
		}
		all[name] = counts
	}
	return all
}
