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

// Cache are a cache's counters since it started, and its current contents.
type Cache struct {
	Hits, Misses uint64
	Evicted      uint64 // entries evicted to make room for others
	Entries      int    // now
	Bytes        int64  // size of the entries by the cache's own count; zero: unknown
}

// checkSources panics if the sources are filled in wrongly.
func (a *Admin) checkSources() {
	checkSources("Conns", a.Conns, func(f func() conns.Stats) bool { return f == nil })
	checkSources("Workers", a.Workers, func(p WorkerPool) bool { return p == nil })
	checkSources("Buffers", a.Buffers, func(f func() pool.Stats) bool { return f == nil })
	checkSources("Caches", a.Caches, func(f func() Cache) bool { return f == nil })
}

func checkSources[Source any](field string, sources map[string]Source, missing func(Source) bool) {
	if len(sources) > mostSources {
		panic(fmt.Sprintf("observe: Admin.%s has %d entries, but at most %d are allowed, to keep each metric under %d series; combine related ones",
			field, len(sources), mostSources, mostSeries))
	}
	for name, source := range sources {
		if missing(source) {
			panic(fmt.Sprintf("observe: Admin.%s[%q] is nil", field, name))
		}
	}
}

// moves counts the limit changes of adaptive pools. A pool keeps only its latest changes, so
// each is counted when it is first seen.
type moves struct {
	mu    sync.Mutex
	known map[string]*poolMoves
}

type poolMoves struct {
	latest time.Time
	counts map[workers.Reason]uint64
}

// read counts new changes and returns copies of the counts. A pool with a fixed limit has none.
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
