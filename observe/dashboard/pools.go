package dashboard

// Why the panels of a kind may be empty.
const (
	noConns   = "the server shows no client pool (Admin.Conns)"
	noWorkers = "the server shows no worker pool (Admin.Workers)"
	noBuffers = "the server shows no buffers (Admin.Buffers)"
	noCache   = "the server shows no cache (Admin.Caches)"
)

// pools is the dashboard of pools and caches.
func pools() Dashboard {
	return Dashboard{
		UID: "hone-pools", Title: "hone: pools", Help: "Pools and caches: client connections, goroutines, buffers, cached answers.",
		Rows: []Row{
			{"Client connections", clientPools()},
			{"Workers", workerPools()},
			{"Buffers", bufferPools()},
			{"Caches", caches()},
		},
	}
}

// share returns the query of a counter's share of its sum with another, 0 while neither
// grows.
func share(counter, other, label string) string {
	return rate(counter, label) + " / clamp_min(" + rate(counter, label) + " + " + rate(other, label) + ", 1e-9)"
}

func clientPools() []Panel {
	return []Panel{
		lines("Connections of pools", "short",
			"Connections by state, and their limit. All in use at the limit for long: the backend is slow, or Max is too low.",
			Query{gauge("hone_conns_connections", "pool", "state"), legend("pool", "state"), noConns},
			Query{gauge("hone_conns_limit", "pool"), legend("pool") + " limit", noConns}),
		lines("Waiting for connections", "short",
			"Callers waiting now. More than a few for long: raise Max, or hold connections for less time.",
			Query{gauge("hone_conns_waiters", "pool"), legend("pool"), noConns}),
		lines("Loans", "ops",
			"Calls for a connection per second, and those that had to wait. Most of them wait: the pool is too small for this load.",
			Query{rate("hone_conns_gets_total", "pool"), legend("pool") + " gets", noConns},
			Query{rate("hone_conns_waits_total", "pool"), legend("pool") + " waits", noConns}),
		lines("Mean wait for a connection", "s",
			"Over the calls that had to wait. Longer than a request: callers queue up; raise Max, or lower MaxWaiters to fail early.",
			Query{rate("hone_conns_wait_seconds_total", "pool") + " / clamp_min(" + rate("hone_conns_waits_total", "pool") + ", 1e-9)", legend("pool"), noConns}),
		lines("Loans refused", "ops",
			"Calls that got no connection, per second. busy: the queue is full; backoff: dials fail; wait_timeout: callers gave up.",
			Query{rate("hone_conns_refused_total", "pool", "reason"), legend("pool", "reason"), noConns},
			Query{rate("hone_conns_passed_over_total", "pool"), legend("pool") + " passed over", noConns}).alerted(1, "HonePoolStarved"),
		lines("Dials", "ops",
			"Connections dialled, failed and probed, per second. Dials that continue under a steady load: connection churn; see connections closed.",
			Query{rate("hone_conns_dials_total", "pool"), legend("pool") + " dials", noConns},
			Query{rate("hone_conns_dial_failures_total", "pool"), legend("pool") + " failures", noConns},
			Query{rate("hone_conns_probes_total", "pool"), legend("pool") + " probes", noConns}),
		lines("Connections closed", "ops",
			"By the pool, per second. discarded: borrowers report them as broken; dead: the other side closes first, so lower MaxIdleTime below its idle timeout.",
			Query{rate("hone_conns_closed_total", "pool", "reason"), legend("pool", "reason"), noConns}),
	}
}

func workerPools() []Panel {
	return []Panel{
		lines("Workers", "short",
			"Goroutines by state, and the current limit. All busy at the limit while tasks wait and CPUs are idle: raise the limit, or use workers.Auto.",
			Query{gauge("hone_workers_goroutines", "pool", "state"), legend("pool", "state"), noWorkers},
			Query{gauge("hone_workers_limit", "pool"), legend("pool") + " limit", noWorkers}),
		lines("Tasks waiting", "short",
			"Tasks in the queue, and callers waiting for room in it (backpressure). A full queue for long: the pool is overloaded; shed load earlier.",
			Query{gauge("hone_workers_queued", "pool"), legend("pool") + " queued", noWorkers},
			Query{gauge("hone_workers_waiters", "pool"), legend("pool") + " callers", noWorkers}),
		lines("Tasks", "ops",
			"Tasks submitted, started and done, per second. Started stays below submitted: the queue grows.",
			Query{rate("hone_workers_submitted_total", "pool"), legend("pool") + " submitted", noWorkers},
			Query{rate("hone_workers_started_total", "pool"), legend("pool") + " started", noWorkers},
			Query{rate("hone_workers_done_total", "pool"), legend("pool") + " done", noWorkers},
			Query{rate("hone_workers_helped_total", "pool"), legend("pool") + " run by waiting tasks", noWorkers},
			Query{rate("hone_workers_inlined_total", "pool"), legend("pool") + " run by callers", noWorkers}),
		lines("Tasks not run", "ops",
			"Callers that had to wait, tasks that never started, and panics, per second. full: the pool is overloaded; panics: the log of Options.Panic has the stack.",
			Query{rate("hone_workers_waits_total", "pool"), legend("pool") + " waits", noWorkers},
			Query{rate("hone_workers_refused_total", "pool", "reason"), legend("pool", "reason"), noWorkers},
			Query{rate("hone_workers_panics_total", "pool"), legend("pool") + " panics", noWorkers}).alerted(1, "HoneTasksRefused"),
		lines("Limit moves", "ops",
			"Changes of an adaptive limit per second, by reason. no gain and backlog alternating without end: the load lies between two limits; set Min and Max closer.",
			Query{rate("hone_workers_limit_moves_total", "pool", "reason"), legend("pool", "reason"), noWorkers}),
	}
}

func bufferPools() []Panel {
	return []Panel{
		lines("Buffers lent", "short",
			"Buffers in use now. A line that only rises: some code path does not release them; see buffers leaked.",
			Query{gauge("hone_buffers_lent", "pool"), legend("pool"), noBuffers}),
		lines("Buffer memory", "bytes",
			"Memory of buffers in use, and of those that garbage collections do not free. More than the load explains: find the holders in a heap profile.",
			Query{gauge("hone_buffers_lent_bytes", "pool"), legend("pool") + " lent", noBuffers},
			Query{gauge("hone_buffers_warm_bytes", "pool"), legend("pool") + " warm", noBuffers}),
		lines("Buffer hits", "percentunit",
			"Share of loans that needed no new memory. Well below 0.9 under a steady load: sizes vary too much, or buffers are dropped; see buffers dropped.",
			Query{share("hone_buffers_hits_total", "hone_buffers_misses_total", "pool"), legend("pool"), noBuffers}),
		lines("Buffers dropped", "ops",
			"Buffers not returned to the pool, per second. too_large: raise Max if such sizes are common; underused: callers of Get request far more than they use.",
			Query{rate("hone_buffers_dropped_total", "pool", "reason"), legend("pool", "reason"), noBuffers}),
		lines("Buffers leaked", "ops",
			"Buffers garbage-collected while lent, per second. Any at all: a Release is missing; run with the race detector, which reports where the buffer was lent.",
			Query{rate("hone_buffers_leaked_total", "pool"), legend("pool"), noBuffers}).alerted(0, "HoneBuffersLeaked"),
	}
}

func caches() []Panel {
	return []Panel{
		lines("Cache hits", "percentunit",
			"Share of lookups that hit the cache. Falling while entries are evicted: the cache is too small for the working set.",
			Query{share("hone_cache_hits_total", "hone_cache_misses_total", "cache"), legend("cache"), noCache}),
		lines("Cache entries", "short",
			"Entries now, and evictions per second. Constant evictions at few entries: single entries are very large.",
			Query{gauge("hone_cache_entries", "cache"), legend("cache") + " entries", noCache},
			Query{rate("hone_cache_evicted_total", "cache"), legend("cache") + " evicted per second", noCache}),
		lines("Cache memory", "bytes",
			"Bytes held, as the cache counts them. Above its bound for long: the weights passed to it are wrong.",
			Query{gauge("hone_cache_bytes", "cache"), legend("cache"), noCache}),
	}
}
