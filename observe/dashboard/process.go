package dashboard

// elsewhere is why figures of Linux may be missing.
const elsewhere = "the server does not run on Linux"

// process is the dashboard of the process and its machine.
func process() Dashboard {
	return Dashboard{
		UID: "hone-process", Title: "hone: process and host", Help: "The Go runtime, the process, and the machine as this process sees it.",
		Rows: []Row{
			{"Processors", processors()},
			{"Goroutines", goroutines()},
			{"Memory", memory()},
			{"Process", limits()},
			{"Host", hostPanels()},
		},
	}
}

func processors() []Panel {
	return []Panel{
		lines("Processor time", "short",
			"CPUs that the process uses, those that garbage collection uses, and the limit. Near the limit: CPU is the bottleneck; take a CPU profile at /debug/pprof/profile.",
			Query{rate("process_cpu_seconds_total"), legend() + " all", elsewhere},
			Query{Expr: rate("go_cpu_classes_gc_total_cpu_seconds_total"), Legend: legend() + " collections"},
			Query{Expr: gauge("go_sched_gomaxprocs_threads"), Legend: legend() + " GOMAXPROCS"}),
		lines("Wait for a processor", "s",
			"How long runnable goroutines wait for a CPU. A p99 of milliseconds: more work than CPUs; run fewer busy goroutines, or add CPUs.",
			Query{Expr: quantile("0.5", "go_sched_latencies_seconds"), Legend: legend() + " p50"},
			Query{Expr: quantile("0.99", "go_sched_latencies_seconds"), Legend: legend() + " p99"}).alerted(0.01, "HoneProcessorsShort"),
		lines("Mutex waits", "short",
			"Goroutines waiting for a lock, on average. More than one for long: take the mutex profile at /debug/pprof/mutex.",
			Query{Expr: rate("go_sync_mutex_wait_total_seconds_total"), Legend: legend()}),
	}
}

func goroutines() []Panel {
	return []Panel{
		lines("Goroutines", "short",
			"Goroutines and threads. Goroutines that only rise while connections do not: a leak; see /debug/pprof/goroutine.",
			Query{Expr: gauge("go_goroutines"), Legend: legend() + " goroutines"},
			Query{Expr: gauge("go_threads"), Legend: legend() + " threads"}),
		lines("Goroutine states", "short",
			"Goroutines by state at the moment of the scrape. Many runnable: too few CPUs; many not in Go: blocking system calls.",
			Query{Expr: gauge("go_sched_goroutines_running_goroutines"), Legend: legend() + " running"},
			Query{Expr: gauge("go_sched_goroutines_runnable_goroutines"), Legend: legend() + " runnable"},
			Query{Expr: gauge("go_sched_goroutines_waiting_goroutines"), Legend: legend() + " waiting"},
			Query{Expr: gauge("go_sched_goroutines_not_in_go_goroutines"), Legend: legend() + " not in Go"}),
	}
}

func memory() []Panel {
	const noCollection = "no garbage collection within the interval"
	return []Panel{
		lines("Heap", "bytes",
			"Heap in objects, live heap after the latest collection, and the heap goal of the next. A live heap that rises without end: a leak; compare two heap profiles.",
			Query{Expr: gauge("go_memory_classes_heap_objects_bytes"), Legend: legend() + " objects"},
			Query{Expr: gauge("go_gc_heap_live_bytes"), Legend: legend() + " live"},
			Query{Expr: gauge("go_gc_heap_goal_bytes"), Legend: legend() + " goal"}),
		lines("Allocation", "Bps",
			"Bytes allocated per second. The server itself allocates nothing per request: what rises with the load comes from handlers; see /debug/pprof/allocs.",
			Query{Expr: rate("go_gc_heap_allocs_bytes_total"), Legend: legend()}),
		lines("Collections", "ops",
			"Garbage collections per second. Several: allocate less, or raise GOGC if there is memory.",
			Query{Expr: rate("go_gc_cycles_total_gc_cycles_total"), Legend: legend()}),
		lines("Collection pauses", "s",
			"Duration of stop-the-world pauses. Over a millisecond: too many goroutines for the CPUs, or steal time; see host steal.",
			Query{quantile("0.99", "go_sched_pauses_total_gc_seconds"), legend() + " p99", noCollection},
			Query{Expr: `max by (instance) (go_gc_duration_seconds{job=~"$job",instance=~"$instance",quantile="1"})`, Legend: legend() + " longest"}),
		lines("Memory", "bytes",
			"Resident memory, and the runtime's mapped, stack and released memory. Resident far above the heap: memory outside the Go heap, or stacks.",
			Query{gauge("process_resident_memory_bytes"), legend() + " resident", elsewhere},
			Query{gauge("go_gc_gomemlimit_bytes") + " < 1e15", legend() + " GOMEMLIMIT", "GOMEMLIMIT is not set"},
			Query{Expr: gauge("go_memory_classes_total_bytes"), Legend: legend() + " mapped"},
			Query{Expr: gauge("go_memory_classes_heap_stacks_bytes"), Legend: legend() + " stacks"},
			Query{Expr: gauge("go_memory_classes_heap_released_bytes"), Legend: legend() + " released"}).alerted(0, "HoneMemoryNearLimit"),
		value("Since the last collection", "s",
			"Go collects an idle program every two minutes. Far more than that: collection is off (GOGC), or the process is stopped.",
			Query{Expr: `time() - max by (instance) (go_memstats_last_gc_time_seconds{job=~"$job",instance=~"$instance"})`, Legend: legend()}),
	}
}

func limits() []Panel {
	return []Panel{
		lines("Descriptors", "short",
			"Open file descriptors, and their limit. Above four fifths: raise LimitNOFILE, or lower --limit conns.",
			Query{gauge("process_open_fds"), legend() + " open", elsewhere},
			Query{gauge("process_max_fds"), legend() + " limit", elsewhere}).alerted(0, "HoneDescriptorsShort"),
		lines("Address space", "bytes",
			"Address space used and allowed. It matters only if a limit is set (ulimit -v): near it, allocation fails.",
			Query{gauge("process_virtual_memory_bytes"), legend() + " used", elsewhere},
			Query{gauge("process_virtual_memory_max_bytes"), legend() + " limit", elsewhere}),
		value("Up since", "dateTimeAsIso",
			"Start time of the process. Later than the latest rollout: it crashed or was killed; see the end of the previous log.",
			Query{Expr: `1000 * max by (instance) (process_start_time_seconds{job=~"$job",instance=~"$instance"})`, Legend: legend(), Empty: elsewhere}).alerted(0, "HoneRestarts"),
		{
			Title: "Built with", Form: Name, Unit: "none",
			Help: "The Go version, GOGC and GOMEMLIMIT of each instance. No memory limit in a container: set GOMEMLIMIT to nine tenths of the container's limit.",
			Queries: []Query{
				{Expr: gauge("go_info", "version"), Legend: legend("version")},
				{Expr: `label_replace(` + gauge("go_gc_gogc_percent") + `, "figure", "GOGC", "", "")`, Legend: legend("figure")},
				{Expr: `label_replace(` + gauge("go_gc_gomemlimit_bytes") + `, "figure", "GOMEMLIMIT", "", "")`, Legend: legend("figure")},
			},
		},
	}
}

func hostPanels() []Panel {
	return []Panel{
		lines("Host processors", "percentunit",
			"Utilization of each CPU of the machine, by all programs. One at 1 and others idle: a single loop or queue is the bottleneck.",
			Query{rate("hone_host_cpu_busy_seconds_total", "cpu"), legend("cpu"), elsewhere}),
		lines("Host soft interrupts", "percentunit",
			"Share of each CPU spent on packets and timers. One far above the others: all packets arrive on one queue; spread them (RPS, RSS).",
			Query{rate("hone_host_cpu_softirq_seconds_total", "cpu"), legend("cpu"), elsewhere}),
		lines("Host steal", "percentunit",
			"Steal time: share of each CPU that another virtual machine had. Above a few hundredths: do not compare figures of this machine meanwhile.",
			Query{rate("hone_host_cpu_steal_seconds_total", "cpu"), legend("cpu"), elsewhere}).alerted(0.1, "HoneHostStolen"),
		lines("TCP retransmits", "percentunit",
			"Retransmitted segments as a share of those sent. Above 1 %: packets are lost on the way, or queues overflow.",
			Query{rate("hone_host_tcp_retransmitted_segments_total") + " / clamp_min(" + rate("hone_host_tcp_sent_segments_total") + ", 1e-9)", legend(), elsewhere}).alerted(0.02, "HoneRetransmits"),
		lines("Accept queue overflows", "ops",
			"Connections dropped because the accept queue was full, per second. Any at all: raise net.core.somaxconn, or find what keeps the server from accepting.",
			Query{rate("hone_host_tcp_listen_overflows_total"), legend(), elsewhere}).alerted(0, "HoneAcceptOverflows"),
		lines("Network", "Bps",
			"Bytes received and sent per second in the process's network namespace. In a container it is the container's, else the whole machine's.",
			Query{rate("process_network_receive_bytes_total"), legend() + " received", elsewhere},
			Query{rate("process_network_transmit_bytes_total"), legend() + " sent", elsewhere}),
	}
}
