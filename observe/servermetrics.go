package observe

import (
	"math"

	"github.com/hone-go/hone/engine"
)

// serverEntries are the server's metrics. The first three are the ones to look at first.
func serverEntries() []entry {
	one := func(kind Kind, name, unit, panel, help string, v func(r *reading) float64) entry {
		return entry{
			Metric: Metric{Name: name, Kind: kind, Unit: unit, Help: help, Panel: "hone-server/" + panel},
			read:   func(r *reading, give func(float64, ...string)) { give(v(r)) },
		}
	}
	return []entry{
		one(Gauge, "hone_connections", "", "Connections", "Connections open now.",
			func(r *reading) float64 { return float64(r.server.Open) }),
		limitEntry("hone_connections_limit", "", "Connections", "Maximum number of open connections: the limit conns.",
			func(l *engine.Limits) int { return l.Conns }),
		one(Counter, "hone_requests_received_total", "", "Requests received", "Requests given to handlers.",
			func(r *reading) float64 { return float64(r.server.Requests) }),
		one(Counter, "hone_responses_sent_total", "", "Responses sent",
			"Requests that are no longer owed a reply: answered, or their connection ended first.",
			func(r *reading) float64 { return float64(r.sent) }),
		one(Counter, "hone_connections_accepted_total", "", "Connections accepted and ended", "Connections accepted and served.",
			func(r *reading) float64 { return float64(r.server.Accepted) }),
		reasonEntry("hone_connections_ended_total", "Connections accepted and ended",
			"Connections that ended without breaking a rule.", func(why engine.Reason) bool { return !rejection(why) }),
		reasonEntry("hone_rejected_total", "Rejected",
			"Connections refused or closed because of a limit, a protocol violation or a protocol's own reason.", rejection).
			also(func(r *reading, give func(float64, ...string)) {
				for _, own := range r.server.Own {
					if own.Name != "" {
						give(float64(own.Count), own.Name)
					}
				}
			}),
		one(Counter, "hone_panics_total", "", "Panics", "Panics in user code.",
			func(r *reading) float64 { return float64(r.server.Panics) }),
		one(Counter, "hone_received_bytes_total", "bytes", "Bytes", "Bytes read from sockets.",
			func(r *reading) float64 { return float64(r.server.BytesIn) }),
		one(Counter, "hone_sent_bytes_total", "bytes", "Bytes", "Bytes written to sockets.",
			func(r *reading) float64 { return float64(r.server.BytesOut) }),
		one(Gauge, "hone_output_waiting_bytes", "bytes", "Output waiting", "Output waiting for slow clients now.",
			func(r *reading) float64 { return float64(r.server.Waiting) }),
		one(Gauge, "hone_output_memory_bytes", "bytes", "Output memory", "Memory counted against the limit total-output now: buffers of unsent output, and what running requests are expected to add.",
			func(r *reading) float64 { return float64(r.server.OutputMemory) }),
		limitEntry("hone_output_memory_limit_bytes", "bytes", "Output memory", "Maximum memory for output: the limit total-output.",
			func(l *engine.Limits) int { return l.TotalOutput }),
		one(Gauge, "hone_input_memory_bytes", "bytes", "Input memory", "Memory counted against the limit total-input now: buffers of incomplete messages and of pipelined requests.",
			func(r *reading) float64 { return float64(r.server.InputMemory) }),
		limitEntry("hone_input_memory_limit_bytes", "bytes", "Input memory", "Maximum memory for input: the limit total-input.",
			func(l *engine.Limits) int { return l.TotalInput }),
		one(Gauge, "hone_connections_in_line", "", "Connections in line", "Connections whose requests wait now because the limit total-output is reached.",
			func(r *reading) float64 { return float64(r.server.InLine) }),
		one(Gauge, "hone_connections_paused", "", "Connections in line", "Connections that are not being read now because the limit total-in-flight is reached.",
			func(r *reading) float64 { return float64(r.server.Paused) }),
		one(Gauge, "hone_replies_owed", "", "Replies owed", "Replies promised for later that are outstanding now.",
			func(r *reading) float64 { return float64(r.server.Owed) }),
		limitEntry("hone_replies_owed_limit", "", "Replies owed", "Maximum number of replies owed before connections wait: the limit total-in-flight.",
			func(l *engine.Limits) int { return l.TotalInFlight }),
		one(Counter, "hone_late_responses_sent_total", "", "Late replies and pushes", "Replies that were promised for later and have been sent.",
			func(r *reading) float64 { return float64(r.server.Late) }),
		one(Counter, "hone_pushes_sent_total", "", "Late replies and pushes", "Messages sent without a request (server push), and pings.",
			func(r *reading) float64 { return float64(r.server.Pushes) }),
		one(Counter, "hone_pushes_dropped_total", "", "Late replies and pushes", "Pushes that were dropped because their client reads too slowly (Conn.Offer, websocket's Prepared.Droppable).",
			func(r *reading) float64 { return float64(r.server.Dropped) }),
		one(Counter, "hone_tls_handshakes_total", "", "TLS handshakes", "TLS handshakes completed.",
			func(r *reading) float64 { return float64(r.server.Handshakes) }),
		one(Counter, "hone_tls_resumed_total", "", "TLS handshakes", "TLS handshakes that resumed a session of an earlier connection.",
			func(r *reading) float64 { return float64(r.server.Resumed) }),
		one(Counter, "hone_tls_handshakes_failed_total", "", "TLS handshakes", "TLS handshakes that failed, or were not completed.",
			func(r *reading) float64 { return float64(r.server.HandshakesFailed) }),
		one(Counter, "hone_hand_offs_total", "", "Hand-offs", "Times that an event loop went on without a slow handler.",
			func(r *reading) float64 { return float64(r.server.HandOffs) }),
		one(Gauge, "hone_helpers", "", "Helpers", "Goroutines in addition to the event loops now, for slow handlers; idle ones included.",
			func(r *reading) float64 { return float64(r.server.Helpers) }),
		limitEntry("hone_helpers_limit", "", "Helpers", "Maximum number of handlers off the event loops before others wait: the limit helpers.",
			func(l *engine.Limits) int { return l.Helpers }),
		one(Counter, "hone_loop_sleeps_total", "", "Loop turns", "Times that event loops blocked waiting for events.",
			func(r *reading) float64 { return float64(r.server.Sleeps) }),
		one(Counter, "hone_loop_turns_total", "", "Loop turns", "Times that event loops woke up with events.",
			func(r *reading) float64 { return float64(r.server.Turns) }),
		one(Counter, "hone_loop_events_total", "", "Loop batches", "Events that event loops handled: ready sockets, and operations by other goroutines on connections.",
			func(r *reading) float64 { return float64(r.server.Events) }),
		one(Gauge, "hone_connection_buffers", "", "Connection buffers lent", "Buffers that connections hold now.",
			func(r *reading) float64 { return float64(r.server.Buffers) }),
		one(Gauge, "hone_connection_buffer_bytes", "bytes", "Connection buffers", "Memory of the buffers that connections hold now.",
			func(r *reading) float64 { return float64(r.server.Lent) }),
		{
			Metric: Metric{
				Name: "hone_info", Kind: Gauge, Labels: []string{"engine", "service", "version"},
				Help: "The engine, service and version that run; always 1.", Panel: "hone-server/What runs",
			},
			read: func(r *reading, give func(float64, ...string)) {
				give(1, r.server.Engine, r.info.Service, r.info.Version)
			},
		},
	}
}

// limitEntry is a limit in effect. A limit that is off has no value, so that no utilisation is
// computed from it.
func limitEntry(name, unit, panel, help string, limit func(l *engine.Limits) int) entry {
	return entry{
		Metric: Metric{Name: name, Kind: Gauge, Unit: unit, Help: help, From: "Limits", Panel: "hone-server/" + panel},
		read: func(r *reading, give func(float64, ...string)) {
			if v := limit(&r.server.Limits); v > 0 && v != math.MaxInt32 {
				give(float64(v))
			}
		},
	}
}

// reasonEntry counts connections by reason, for the reasons that belong to one group.
func reasonEntry(name, panel, help string, belongs func(engine.Reason) bool) entry {
	return entry{
		Metric: Metric{Name: name, Kind: Counter, Labels: []string{"reason"}, Help: help, Panel: "hone-server/" + panel},
		read: func(r *reading, give func(float64, ...string)) {
			for why, n := range reasons(r.server) {
				if belongs(why) {
					give(float64(n), why.String())
				}
			}
		},
	}
}

// also returns the entry with additional series.
func (e entry) also(more func(r *reading, give func(float64, ...string))) entry {
	first := e.read
	e.read = func(r *reading, give func(float64, ...string)) {
		first(r, give)
		more(r, give)
	}
	return e
}
