package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// host is what the machine says of itself, since it was started. The TCP
// figures are those of this process's network namespace.
type host struct {
	cores map[int64]core
	tcp   map[tcpFigure]float64 // what could be read
}

// core is what a processor did, in seconds.
type core struct {
	busy    float64 // user and system, interrupts included
	softirq float64 // of it, network and timers
	steal   float64 // another machine on the same hardware had it
}

type tcpFigure uint8

const (
	segmentsSent tcpFigure = iota
	segmentsRetransmitted
	listenOverflows
)

// otherCores is the label under which cores beyond mostSeries are added up.
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
		cpu("hone_host_cpu_busy_seconds_total", "Host processors", "Time that a processor of the machine worked, interrupts included.",
			func(c core) float64 { return c.busy }),
		cpu("hone_host_cpu_softirq_seconds_total", "Host soft interrupts", "Time that a processor of the machine spent on network packets and timers.",
			func(c core) float64 { return c.softirq }),
		cpu("hone_host_cpu_steal_seconds_total", "Host steal", "CPU time that this machine wanted and the host gave to others.",
			func(c core) float64 { return c.steal }),
		tcp("hone_host_tcp_sent_segments_total", "TCP retransmits", "TCP segments sent in the network namespace of the process, without retransmits.", segmentsSent),
		tcp("hone_host_tcp_retransmitted_segments_total", "TCP retransmits", "TCP segments retransmitted in the network namespace of the process.", segmentsRetransmitted),
		tcp("hone_host_tcp_listen_overflows_total", "Accept queue overflows", "Connections dropped because a listener's queue was full, in the network namespace of the process.", listenOverflows),
	}
}

// perCore gives one figure of each core, at most mostSeries of them.
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
