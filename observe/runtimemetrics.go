package observe

import (
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// runtimeChosen are the runtime/metrics that the Go collector adds to its few defaults. Its
// emulation of runtime.MemStats is off: the same values are here under the runtime's names.
var runtimeChosen = []string{
	"/sched/latencies:seconds",
	"/sched/goroutines/(running|runnable|waiting|not-in-go):goroutines",
	"/sched/pauses/total/gc:seconds",
	"/sync/mutex/wait/total:seconds",
	"/cpu/classes/gc/total:cpu-seconds",
	"/gc/cycles/total:gc-cycles",
	"/gc/heap/(live|goal|allocs):bytes",
	"/memory/classes/(heap/objects|heap/stacks|heap/released|total):bytes",
}

func goCollector() prometheus.Collector {
	chosen := regexp.MustCompile("^(" + strings.Join(runtimeChosen, "|") + ")$")
	return collectors.NewGoCollector(
		collectors.WithGoCollectorMemStatsMetricsDisabled(),
		collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: chosen}),
	)
}

// runtimeMetrics lists what goCollector collects.
func runtimeMetrics() []Metric {
	m := func(kind Kind, name, unit, panel, help string) Metric {
		return Metric{Name: name, Kind: kind, Unit: unit, Help: help, Panel: "hone-process/" + panel}
	}
	info := m(Gauge, "go_info", "", "Built with", "The Go version; always 1.")
	info.Labels = []string{"version"}
	return []Metric{
		m(Gauge, "go_goroutines", "", "Goroutines", "Goroutines that exist now."),
		m(Gauge, "go_sched_goroutines_running_goroutines", "", "Goroutine states", "Goroutines running on a CPU now."),
		m(Gauge, "go_sched_goroutines_runnable_goroutines", "", "Goroutine states", "Goroutines ready to run and waiting for a CPU now."),
		m(Gauge, "go_sched_goroutines_waiting_goroutines", "", "Goroutine states", "Goroutines waiting for anything else now."),
		m(Gauge, "go_sched_goroutines_not_in_go_goroutines", "", "Goroutine states", "Goroutines in a system call or in C now."),
		m(Gauge, "go_threads", "", "Goroutines", "Threads that the process has created."),
		m(Gauge, "go_sched_gomaxprocs_threads", "", "Processor time", "GOMAXPROCS: maximum number of goroutines running at once."),
		m(Histogram, "go_sched_latencies_seconds", "seconds", "Wait for a processor", "Scheduler latency: time that goroutines were ready and waited for a CPU."),
		m(Histogram, "go_sched_pauses_total_gc_seconds", "seconds", "Collection pauses", "GC pauses: time for which garbage collections stopped the world."),
		m(Summary, "go_gc_duration_seconds", "seconds", "Collection pauses", "GC pauses, as quantiles of the latest garbage collections."),
		m(Counter, "go_gc_cycles_total_gc_cycles_total", "", "Collections", "Garbage collections completed."),
		m(Gauge, "go_memstats_last_gc_time_seconds", "seconds", "Since the last collection", "When the latest garbage collection ended, in Unix time."),
		m(Counter, "go_cpu_classes_gc_total_cpu_seconds_total", "seconds", "Processor time", "CPU time of garbage collection; updated when one ends."),
		m(Counter, "go_sync_mutex_wait_total_seconds_total", "seconds", "Mutex waits", "Total time that goroutines waited for locks."),
		m(Counter, "go_gc_heap_allocs_bytes_total", "bytes", "Allocation", "Bytes allocated, including those freed since."),
		m(Gauge, "go_gc_heap_live_bytes", "bytes", "Heap", "Live heap after the latest garbage collection."),
		m(Gauge, "go_gc_heap_goal_bytes", "bytes", "Heap", "Heap size goal of the next garbage collection."),
		m(Gauge, "go_memory_classes_heap_objects_bytes", "bytes", "Heap", "Heap in objects now, dead ones included."),
		m(Gauge, "go_memory_classes_heap_stacks_bytes", "bytes", "Memory", "Memory of goroutines' stacks."),
		m(Gauge, "go_memory_classes_heap_released_bytes", "bytes", "Memory", "Memory returned to the operating system."),
		m(Gauge, "go_memory_classes_total_bytes", "bytes", "Memory", "Memory that the Go runtime has mapped."),
		m(Gauge, "go_gc_gogc_percent", "", "Built with", "GOGC: how far the heap may grow before the next garbage collection."),
		m(Gauge, "go_gc_gomemlimit_bytes", "bytes", "Built with", "GOMEMLIMIT; 9.22e18 means none."),
		info,
	}
}

// processMetrics lists what client_golang's process collector collects.
func processMetrics() []Metric {
	m := func(kind Kind, name, unit, panel, help string) Metric {
		return Metric{Name: name, Kind: kind, Unit: unit, Help: help, From: "Linux", Panel: "hone-process/" + panel}
	}
	return []Metric{
		m(Counter, "process_cpu_seconds_total", "seconds", "Processor time", "CPU time of the process, user and system."),
		m(Gauge, "process_resident_memory_bytes", "bytes", "Memory", "Resident memory of the process."),
		m(Gauge, "process_virtual_memory_bytes", "bytes", "Address space", "Address space of the process."),
		m(Gauge, "process_virtual_memory_max_bytes", "bytes", "Address space", "Maximum address space of the process."),
		m(Gauge, "process_open_fds", "", "Descriptors", "Open file descriptors now."),
		m(Gauge, "process_max_fds", "", "Descriptors", "Maximum number of open file descriptors."),
		m(Gauge, "process_start_time_seconds", "seconds", "Up since", "When the process started, in Unix time."),
		m(Counter, "process_network_receive_bytes_total", "bytes", "Network", "Bytes received in the network namespace of the process."),
		m(Counter, "process_network_transmit_bytes_total", "bytes", "Network", "Bytes sent in the network namespace of the process."),
	}
}
