package observe

import (
	"math"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/workers"
)

// family makes the metrics for sources of one kind, with the source's name as the first label.
type family[Stats any] struct {
	label string // for the source's name
	from  string // the field of Admin
	panel string // the dashboard
	stats func(r *reading) map[string]Stats
}

// one is a metric with one value per source.
func (f family[Stats]) one(kind Kind, name, unit, panel, help string, v func(s *Stats) float64) entry {
	return f.many(kind, name, unit, panel, "", help, func(s *Stats, give func(float64, string)) { give(v(s), "") })
}

// many is a metric with several values per source, distinguished by label.
func (f family[Stats]) many(kind Kind, name, unit, panel, label, help string, each func(s *Stats, give func(float64, string))) entry {
	labels := []string{f.label}
	if label != "" {
		labels = append(labels, label)
	}
	return entry{
		Metric: Metric{Name: name, Kind: kind, Unit: unit, Labels: labels, Help: help, From: f.from, Panel: f.panel + "/" + panel},
		read: func(r *reading, give func(float64, ...string)) {
			for source, s := range f.stats(r) {
				each(&s, func(v float64, value string) {
					if label == "" {
						give(v, source)
						return
					}
					give(v, source, value)
				})
			}
		},
	}
}

func connsEntries() []entry {
	f := family[conns.Stats]{"pool", "Conns", "hone-pools", func(r *reading) map[string]conns.Stats { return r.conns }}
	return []entry{
		f.many(Gauge, "hone_conns_connections", "", "Connections of pools", "state", "Connections of a client pool now, by state.",
			func(s *conns.Stats, give func(float64, string)) {
				give(float64(s.Idle), "idle")
				give(float64(s.InUse), "in_use")
				give(float64(s.Probing), "probing")
				give(float64(s.Dialing), "dialing")
				give(float64(s.Closing), "closing")
			}),
		f.many(Gauge, "hone_conns_limit", "", "Connections of pools", "", "Maximum number of connections of a client pool.",
			func(s *conns.Stats, give func(float64, string)) {
				if s.Max != math.MaxInt { // see limitEntry
					give(float64(s.Max), "")
				}
			}),
		f.one(Gauge, "hone_conns_waiters", "", "Waiting for connections", "Callers waiting for a connection now.",
			func(s *conns.Stats) float64 { return float64(s.Waiters) }),
		f.one(Counter, "hone_conns_gets_total", "", "Loans", "Calls for a connection, except those whose context had already ended.",
			func(s *conns.Stats) float64 { return float64(s.Gets) }),
		f.one(Counter, "hone_conns_waits_total", "", "Loans", "Calls for a connection that had to wait.",
			func(s *conns.Stats) float64 { return float64(s.Waits) }),
		f.one(Counter, "hone_conns_wait_seconds_total", "seconds", "Mean wait for a connection", "Total time of finished waits for a connection.",
			func(s *conns.Stats) float64 { return s.WaitTime.Seconds() }),
		f.many(Counter, "hone_conns_refused_total", "", "Loans refused", "reason", "Calls that got no connection, by reason.",
			func(s *conns.Stats, give func(float64, string)) {
				give(float64(s.WaitTimeouts), "wait_timeout")
				give(float64(s.Rejected), "busy")
				give(float64(s.Refused), "backoff")
			}),
		f.one(Counter, "hone_conns_passed_over_total", "", "Loans refused", "Waits whose context ended while a connection was being handed to them.",
			func(s *conns.Stats) float64 { return float64(s.PassedOver) }),
		f.one(Counter, "hone_conns_dials_total", "", "Dials", "Connections dialled.",
			func(s *conns.Stats) float64 { return float64(s.Dials) }),
		f.one(Counter, "hone_conns_dial_failures_total", "", "Dials", "Dials that failed.",
			func(s *conns.Stats) float64 { return float64(s.DialFailures) }),
		f.one(Counter, "hone_conns_probes_total", "", "Dials", "Health checks of idle connections.",
			func(s *conns.Stats) float64 { return float64(s.Probes) }),
		f.many(Counter, "hone_conns_closed_total", "", "Connections closed", "reason", "Connections that a pool closed, by reason.",
			func(s *conns.Stats, give func(float64, string)) {
				for why := conns.Discarded; why <= conns.PoolClosed; why++ {
					give(float64(s.Closed[why]), why.String())
				}
			}),
	}
}

func workersEntries() []entry {
	f := family[workers.Stats]{"pool", "Workers", "hone-pools", func(r *reading) map[string]workers.Stats { return r.workers }}
	return []entry{
		f.one(Gauge, "hone_workers_limit", "", "Workers", "Current maximum number of goroutines of a worker pool.",
			func(s *workers.Stats) float64 { return float64(s.Limit) }),
		f.many(Gauge, "hone_workers_goroutines", "", "Workers", "state", "Goroutines of a worker pool now, by state.",
			func(s *workers.Stats, give func(float64, string)) {
				give(float64(s.Idle), "idle")
				give(float64(max(0, s.Workers-s.Idle)), "busy")
			}),
		f.one(Gauge, "hone_workers_queued", "", "Tasks waiting", "Tasks waiting for a goroutine now.",
			func(s *workers.Stats) float64 { return float64(s.Queued) }),
		f.one(Gauge, "hone_workers_waiters", "", "Tasks waiting", "Callers waiting for room in the queue now.",
			func(s *workers.Stats) float64 { return float64(s.Waiting) }),
		f.one(Counter, "hone_workers_submitted_total", "", "Tasks", "Tasks queued.",
			func(s *workers.Stats) float64 { return float64(s.Submitted) }),
		f.one(Counter, "hone_workers_started_total", "", "Tasks", "Tasks started by a goroutine of the pool.",
			func(s *workers.Stats) float64 { return float64(s.Started) }),
		f.one(Counter, "hone_workers_done_total", "", "Tasks", "Tasks that returned, panicked or exited.",
			func(s *workers.Stats) float64 { return float64(s.Done) }),
		f.one(Counter, "hone_workers_helped_total", "", "Tasks", "Queued tasks run by the task that waits for them.",
			func(s *workers.Stats) float64 { return float64(s.Helped) }),
		f.one(Counter, "hone_workers_inlined_total", "", "Tasks", "Tasks run by their caller; not counted in any other metric.",
			func(s *workers.Stats) float64 { return float64(s.Inlined) }),
		f.one(Counter, "hone_workers_waits_total", "", "Tasks not run", "Callers that had to wait for room in the queue.",
			func(s *workers.Stats) float64 { return float64(s.Waits) }),
		f.many(Counter, "hone_workers_refused_total", "", "Tasks not run", "reason", "Tasks that never started, by reason.",
			func(s *workers.Stats, give func(float64, string)) {
				give(float64(s.Rejected), "full")
				give(float64(s.Cancelled), "cancelled")
				give(float64(s.Withdrawn), "withdrawn")
				give(float64(s.Dropped), "dropped")
			}),
		f.one(Counter, "hone_workers_panics_total", "", "Tasks not run", "Tasks that panicked.",
			func(s *workers.Stats) float64 { return float64(s.Panicked) }),
		movesEntry(),
	}
}

// movesEntry counts the changes of adaptive limits.
func movesEntry() entry {
	f := family[map[workers.Reason]uint64]{"pool", "Workers", "hone-pools", func(r *reading) map[string]map[workers.Reason]uint64 { return r.moves }}
	return f.many(Counter, "hone_workers_limit_moves_total", "", "Limit moves", "reason",
		"Changes of an adaptive limit, by reason; of more than 128 between two scrapes only the latest 128.",
		func(counts *map[workers.Reason]uint64, give func(float64, string)) {
			for why, n := range *counts {
				give(float64(n), why.String())
			}
		})
}

func buffersEntries() []entry {
	f := family[pool.Stats]{"pool", "Buffers", "hone-pools", func(r *reading) map[string]pool.Stats { return r.buffers }}
	return []entry{
		f.one(Gauge, "hone_buffers_lent", "", "Buffers lent", "Buffers in use now.",
			func(s *pool.Stats) float64 { return float64(s.Lent) }),
		f.one(Gauge, "hone_buffers_lent_bytes", "bytes", "Buffer memory", "Memory of the buffers in use now.",
			func(s *pool.Stats) float64 { return float64(s.LentBytes) }),
		f.one(Gauge, "hone_buffers_warm_bytes", "bytes", "Buffer memory", "Memory of buffers that garbage collection does not free, in use or not.",
			func(s *pool.Stats) float64 { return float64(s.WarmBytes) }),
		f.one(Counter, "hone_buffers_hits_total", "", "Buffer hits", "Times that memory was reused.",
			func(s *pool.Stats) float64 { return float64(s.Hits) }),
		f.one(Counter, "hone_buffers_misses_total", "", "Buffer hits", "Times that memory had to be allocated.",
			func(s *pool.Stats) float64 { return float64(s.Misses) }),
		f.many(Counter, "hone_buffers_dropped_total", "", "Buffers dropped", "reason", "Buffers that were not kept when they were released, by reason.",
			func(s *pool.Stats, give func(float64, string)) {
				give(float64(s.TooLarge), "too_large")
				give(float64(s.TooSmall), "too_small")
				give(float64(s.Underused), "underused")
			}),
		f.one(Counter, "hone_buffers_leaked_total", "", "Buffers leaked", "Buffers that were garbage collected while in use: they were never released.",
			func(s *pool.Stats) float64 { return float64(s.Leaked) }),
	}
}

func cacheEntries() []entry {
	f := family[Cache]{"cache", "Caches", "hone-pools", func(r *reading) map[string]Cache { return r.caches }}
	return []entry{
		f.one(Counter, "hone_cache_hits_total", "", "Cache hits", "Lookups that found an entry.",
			func(s *Cache) float64 { return float64(s.Hits) }),
		f.one(Counter, "hone_cache_misses_total", "", "Cache hits", "Lookups that found no entry.",
			func(s *Cache) float64 { return float64(s.Misses) }),
		f.one(Counter, "hone_cache_evicted_total", "", "Cache entries", "Entries evicted to make room for others.",
			func(s *Cache) float64 { return float64(s.Evicted) }),
		f.one(Gauge, "hone_cache_entries", "", "Cache entries", "Entries of a cache now.",
			func(s *Cache) float64 { return float64(s.Entries) }),
		f.one(Gauge, "hone_cache_bytes", "bytes", "Cache memory", "Size of a cache now, by its own count.",
			func(s *Cache) float64 { return float64(s.Bytes) }),
	}
}
