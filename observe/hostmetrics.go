package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// host are the machine's counters since it booted. The TCP counters are those of this
// process's network namespace.
type host struct {
	cores map[int64]core
	tcp   map[tcpFigure]float64 // the ones that could be read
}

// core is the CPU time of one core, in seconds.
type core struct {
	busy    float64 // user and system, interrupts included
	softirq float64 // the part of busy spent on network and timers
	steal   float64 // time the core was ready but the hypervisor ran another guest
}

type tcpFigure uint8

const (
	segmentsSent tcpFigure = iota
	segmentsRetransmitted
	listenOverflows
)

// otherCores is the label of the sum of all cores beyond mostSeries.
const otherCores = "other"

func hostEntries() []entry {
	cpu := func(name, panel, help string, seconds func(c core) float64) entry {
		return entry{
			Metric: Metric{Name: name, Kind: Counter, Unit: "seconds", Labels: []string{"cpu"}, Help: help, From: "Linux", Panel: "hone-process/" + panel},
			read: func(r *reading, give func(float64, ...string)) {
				if r.host != nil {
					r.host.perCore(seconds, give)
				}
			},
		}
	}
	tcp := func(name, panel, help string, which tcpFigure) entry {
		return entry{
			Metric: Metric{Name: name, Kind: Counter, Help: help, From: "Linux", Panel: "hone-process/" + panel},
			read: func(r *reading, give func(float64, ...string)) {
				if r.host == nil {
					return
				}
				if v, ok := r.host.tcp[which]; ok {
					give(v)
				}
			},
		}
	}
	return []entry{
		cpu("hone_host_cpu_busy_seconds_total", "Host processors", "Time that a CPU of the machine was busy, interrupts included.",
			func(c core) float64 { return c.busy }),
		cpu("hone_host_cpu_softirq_seconds_total", "Host soft interrupts", "Time that a CPU of the machine spent in soft interrupts: network packets and timers.",
			func(c core) float64 { return c.softirq }),
		cpu("hone_host_cpu_steal_seconds_total", "Host steal", "Steal time: CPU time that this machine wanted and the hypervisor gave to others.",
			func(c core) float64 { return c.steal }),
		tcp("hone_host_tcp_sent_segments_total", "TCP retransmits", "TCP segments sent in the network namespace of the process, without retransmits.", segmentsSent),
		tcp("hone_host_tcp_retransmitted_segments_total", "TCP retransmits", "TCP segments retransmitted in the network namespace of the process.", segmentsRetransmitted),
		tcp("hone_host_tcp_listen_overflows_total", "Accept queue overflows", "Connections dropped because a listener's accept queue was full, in the network namespace of the process.", listenOverflows),
	}
}

// perCore reports one value per core, for at most mostSeries series.
func (h *host) perCore(seconds func(c core) float64, give func(float64, ...string)) {
	ids := slices.SortedFunc(maps.Keys(h.cores), cmp.Compare)
	var others float64
	for i, id := range ids {
		switch {
		case len(ids) > mostSeries && i >= mostSeries-1:
			others += seconds(h.cores[id])
		default:
			give(seconds(h.cores[id]), strconv.FormatInt(id, 10))
		}
	}
	if len(ids) > mostSeries {
		give(others, otherCores)
	}
}
