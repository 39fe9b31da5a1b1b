package dashboard

// What the panels of a kind are empty without.
const (
	noConns   = "the server shows no client pool (Admin.Conns)"
	noWorkers = "the server shows no worker pool (Admin.Workers)"
	noBuffers = "the server shows no buffers (Admin.Buffers)"
	noCache   = "the server shows no cache (Admin.Caches)"
)

// pools is what is used again.
func pools() Dashboard {
	return Dashboard{
		UID: "hone-pools", Title: "hone: pools", Help: "What is used again: client connections, goroutines, buffers, cached answers.",
		Rows: []Row{
			{"Client connections", clientPools()},
			{"Workers", workerPools()},
			{"Buffers", bufferPools()},
			{"Caches", caches()},
		},
	}
}

// share is the part that a counter has of itself and another, 0 while both rest.
func share(counter, other, label string) string {
	return rate(counter, label) + " / clamp_min(" + rate(counter, label) + " + " + rate(other, label) + ", 1e-9)"
}

func clientPools() []Panel {
	return []Panel{
		lines("Connections of pools", "short",
			"Connections by what they do, and the most that there may be. All in use at the limit for long: the server behind is slow, or Max is too low.",
			Query{gauge("hone_conns_connections", "pool", "state"), legend("pool", "state"), noConns},
			Query{gauge("hone_conns_limit", "pool"), legend("pool") + " limit", noConns}),
		lines("Waiting for connections", "short",
			"Callers that wait now. More than a few for long: raise Max, or hold a connection for less time.",
			Query{gauge("hone_conns_waiters", "pool"), legend("pool"), noConns}),
		lines("Loans", "ops",
			"Calls for a connection, and those that had to wait, a second. Most of them wait: the pool is too small for this load.",
			Query{rate("hone_conns_gets_total", "pool"), legend("pool") + " gets", noConns},
			Query{rate("hone_conns_waits_total", "pool"), legend("pool") + " waits", noConns}),
		lines("Mean wait for a connection", "s",
			"Of the calls that had to wait. Longer than a request takes: callers queue behind each other; raise Max, or lower MaxWaiters to fail early.",
			Query{rate("hone_conns_wait_seconds_total", "pool") + " / clamp_min(" + rate("hone_conns_waits_total", "pool") + ", 1e-9)", legend("pool"), noConns}),
		lines("Loans refused", "ops",
			"Calls that got no connection, a second. busy: the queue is full; backoff: dials fail; wait_timeout: callers gave up.",
			Query{rate("hone_conns_refused_total", "pool", "reason"), legend("pool", "reason"), noConns},
			Query{rate("hone_conns_passed_over_total", "pool"), legend("pool") + " passed over", noConns}).alerted(1, "HonePoolStarved"),
		lines("Dials", "ops",
			"Connections dialled, failed and probed, a second. Dials that go on under a steady load: connections do not live; see connections closed.",
			Query{rate("hone_conns_dials_total", "pool"), legend("pool") + " dials", noConns},
			Query{rate("hone_conns_dial_failures_total", "pool"), legend("pool") + " failures", noConns},
			Query{rate("hone_conns_probes_total", "pool"), legend("pool") + " probes", noConns}),
		lines("Connections closed", "ops",
			"By the pool, a second. discarded: borrowers fail with them; dead: the other side closes first, so lower MaxIdleTime under its limit.",
			Query{rate("hone_conns_closed_total", "pool", "reason"), legend("pool", "reason"), noConns}),
	}
}

func workerPools() []Panel {
	return []Panel{
		lines("Workers", "short",
			"Goroutines by what they do, and the limit now. Busy at the limit while tasks wait and processors idle: raise the limit, or use workers.Auto.",
			Query{gauge("hone_workers_goroutines", "pool", "state"), legend("pool", "state"), noWorkers},
			Query{gauge("hone_workers_limit", "pool"), legend("pool") + " limit", noWorkers}),
		lines("Tasks waiting", "short",
			"Tasks in the queue, and callers that wait for room in it. A full queue for long: more comes in than can be done; refuse some of it earlier.",
			Query{gauge("hone_workers_queued", "pool"), legend("pool") + " queued", noWorkers},
			Query{gauge("hone_workers_waiters", "pool"), legend("pool") + " callers", noWorkers}),
		lines("Tasks", "ops",
			"Tasks taken in, begun and ended, a second. Begun stays below taken in: the queue grows.",
			Query{rate("hone_workers_submitted_total", "pool"), legend("pool") + " submitted", noWorkers},
			Query{rate("hone_workers_started_total", "pool"), legend("pool") + " started", noWorkers},
			Query{rate("hone_workers_done_total", "pool"), legend("pool") + " done", noWorkers},
			Query{rate("hone_workers_inlined_total", "pool"), legend("pool") + " run by callers", noWorkers}),
		lines("Tasks not run", "ops",
			"Callers that had to wait, tasks that never began, and panics, a second. full: the pool is overloaded; panics: the log of Options.Panic has the stack.",
			Query{rate("hone_workers_waits_total", "pool"), legend("pool") + " waits", noWorkers},
			Query{rate("hone_workers_refused_total", "pool", "reason"), legend("pool", "reason"), noWorkers},
			Query{rate("hone_workers_panics_total", "pool"), legend("pool") + " panics", noWorkers}).alerted(1, "HoneTasksRefused"),
		lines("Limit moves", "ops",
			"Changes of a limit that finds itself, by why, a second. no gain and backlog in turns without end: the load sits between two limits; set Min and Max closer.",
			Query{rate("hone_workers_limit_moves_total", "pool", "reason"), legend("pool", "reason"), noWorkers}),
	}
}

func bufferPools() []Panel {
	return []Panel{
		lines("Buffers lent", "short",
			"Buffers that somebody has now. A line that only rises: some path of the program forgets to release; see buffers leaked.",
			Query{gauge("hone_buffers_lent", "pool"), legend("pool"), noBuffers}),
		lines("Buffer memory", "bytes",
			"Memory of the buffers lent, and of those that collections do not free. More than the load explains: look who holds buffers in a heap profile.",
			Query{gauge("hone_buffers_lent_bytes", "pool"), legend("pool") + " lent", noBuffers},
			Query{gauge("hone_buffers_warm_bytes", "pool"), legend("pool") + " warm", noBuffers}),
		lines("Buffer hits", "percentunit",
			"The part of all loans that needed no new memory. Well under 0.9 under a steady load: sizes vary too much, or buffers are dropped; see there.",
			Query{share("hone_buffers_hits_total", "hone_buffers_misses_total", "pool"), legend("pool"), noBuffers}),
		lines("Buffers dropped", "ops",
			"Buffers that were not kept, a second. too_large: raise Max if such sizes are usual; underused: Get is asked for far more than is used.",
			Query{rate("hone_buffers_dropped_total", "pool", "reason"), legend("pool", "reason"), noBuffers}),
		lines("Buffers leaked", "ops",
			"Buffers that were collected while lent, a second. Any at all: a Release is missing; run with the race detector, which names the place that lent it.",
			Query{rate("hone_buffers_leaked_total", "pool"), legend("pool"), noBuffers}).alerted(0, "HoneBuffersLeaked"),
	}
}

func caches() []Panel {
	return []Panel{
		lines("Cache hits", "percentunit",
			"The part of all questions that the cache could answer. Falling while entries are evicted: the cache is too small for what is asked.",
			Query{share("hone_cache_hits_total", "hone_cache_misses_total", "cache"), legend("cache"), noCache}),
		lines("Cache entries", "short",
			"Entries now, and evictions a second. Evictions without end at few entries: single entries are very large.",
			Query{gauge("hone_cache_entries", "cache"), legend("cache") + " entries", noCache},
			Query{rate("hone_cache_evicted_total", "cache"), legend("cache") + " evicted a second", noCache}),
		lines("Cache memory", "bytes",
			"Bytes held, as the cache counts. Above its bound for long: the weights that it is told are wrong.",
			Query{gauge("hone_cache_bytes", "cache"), legend("cache"), noCache}),
	}
}
