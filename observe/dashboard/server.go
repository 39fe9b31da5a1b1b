package dashboard

// limitOff is why a limit has no line.
const limitOff = "the limit is off"

// server is the dashboard of the server.
func server() Dashboard {
	return Dashboard{
		UID: "hone-server", Title: "hone: server", Help: "What the server does for its clients, and what it refuses.",
		Rows: []Row{
			{"Load", loadPanels()},
			{"Handlers", handlers()},
			{"HTTP", httpPanels()},
			{"Refusals and ends", refusals()},
			{"Bytes", bytesMoved()},
			{"Event loops", loops()},
		},
	}
}

// loadPanels are the article's three figures.
func loadPanels() []Panel {
	return []Panel{
		lines("Requests received", "reqps",
			"Requests passed to handlers, per second. A sudden fall with connections unchanged: see handler time and processor time.",
			Query{Expr: rate("hone_requests_received_total"), Legend: legend()}),
		lines("Responses sent", "reqps",
			"Requests answered, per second. Below the requests for long: late replies are not sent; see replies owed.",
			Query{Expr: rate("hone_responses_sent_total"), Legend: legend()}),
		lines("Connections", "short",
			"Connections open now. Flat at a round number: the connection limit is reached; see rejected, too_many_conns.",
			Query{Expr: gauge("hone_connections"), Legend: legend()},
			Query{gauge("hone_connections_limit"), legend() + " limit", limitOff}).alerted(0, "HoneConnectionsNearLimit"),
	}
}

func handlers() []Panel {
	const sampled = "the server has no observe.Latency, or received no requests"
	return []Panel{
		lines("Handler time", "s",
			"Handler latency, sampled. A p99 far above the median (tail latency): some requests wait for something; take a CPU profile and a trace at /debug/pprof/.",
			Query{quantile("0.5", "hone_handler_duration_seconds"), legend() + " p50", sampled},
			Query{quantile("0.9", "hone_handler_duration_seconds"), legend() + " p90", sampled},
			Query{quantile("0.99", "hone_handler_duration_seconds"), legend() + " p99", sampled}).alerted(0.5, "HoneSlowHandlers"),
		lines("TLS handshakes", "ops",
			"TLS handshakes per second: completed, resumed, and failed. A handshake costs as much CPU as dozens of requests. Many that are not resumed: clients do not keep their connections, or their sessions.",
			Query{Expr: rate("hone_tls_handshakes_total"), Legend: legend()},
			Query{Expr: rate("hone_tls_resumed_total"), Legend: legend() + " resumed"},
			Query{Expr: rate("hone_tls_handshakes_failed_total"), Legend: legend() + " failed"}),
		lines("Hand-offs", "ops",
			"Hand-offs per second: loops that continued without a handler that took over a millisecond. Many of them: the handlers block; try the engine events-offload.",
			Query{Expr: rate("hone_hand_offs_total"), Legend: legend()}).alerted(100, "HoneHandOffs"),
		lines("Helpers", "short",
			"Goroutines outside the event loops that run slow handlers, including idle ones. Near the limit helpers: so many handlers block that connections known for slow handlers wait for one to return; find out what they wait for.",
			Query{Expr: gauge("hone_helpers"), Legend: legend()},
			Query{gauge("hone_helpers_limit"), legend() + " limit", limitOff}).alerted(0, "HoneHelpersNearLimit"),
		lines("Panics", "ops",
			"Panics in user code, per second. Any at all: the log has the stack; each has cost one client its connection.",
			Query{Expr: rate("hone_panics_total"), Legend: legend()}).alerted(0, "HonePanics"),
		lines("Replies owed", "short",
			"Late replies not sent yet. A line that only rises: some code path does not send its reply.",
			Query{Expr: gauge("hone_replies_owed"), Legend: legend()},
			Query{gauge("hone_replies_owed_limit"), legend() + " limit", limitOff}).alerted(0, "HoneRepliesNearLimit", "HoneRepliesForgotten"),
		lines("Late replies and pushes", "ops",
			"Late replies and pushed messages, per second. Pushes that stop: see output waiting. Dropped pushes: clients that read too slowly.",
			Query{Expr: rate("hone_late_responses_sent_total"), Legend: legend() + " late replies"},
			Query{Expr: rate("hone_pushes_sent_total"), Legend: legend() + " pushes"},
			Query{Expr: rate("hone_pushes_dropped_total"), Legend: legend() + " dropped pushes"}),
		{
			Title: "What runs", Form: Name, Unit: "none",
			Help:    "Engine, service and version of each instance. Two versions for longer than a rollout takes: the rollout is stuck.",
			Queries: []Query{{Expr: gauge("hone_info", "engine", "service", "version"), Legend: legend("engine", "service", "version")}},
		},
	}
}

func httpPanels() []Panel {
	const other = "the server does not serve HTTP (Admin.HTTP)"
	return []Panel{
		lines("HTTP requests", "ops",
			"HTTP requests served on the fast path, and loans of connections to net/http, per second. Mostly loans: clients send what only net/http serves, such as chunked uploads or HTTP/1.0; see docs/http1.md.",
			Query{rate("hone_http_fast_requests_total"), legend() + " fast", other},
			Query{rate("hone_http_loans_total"), legend() + " loans", other},
			Query{rate("hone_http2_slow_bodies_total"), legend() + " HTTP/2 streams ended: slow bodies", other},
			Query{rate("hone_http2_closed_windows_total"), legend() + " HTTP/2 streams ended: closed windows", other}),
		lines("Loans to net/http", "short",
			"Connections lent to net/http now, each with its goroutines and buffers. As many as connections: hardly anything is served on the fast path; see docs/http1.md.",
			Query{gauge("hone_http_open_loans"), legend() + " lent", other},
			Query{gauge("hone_http_late_handlers"), legend() + " waiting in http1.Later", other}),
	}
}

func refusals() []Panel {
	return []Panel{
		lines("Rejected", "ops",
			"Connections refused or closed because of a limit or a protocol error, per second. The reason names the limit: raise it with --limit, or find the client that exceeds it.",
			Query{Expr: rate("hone_rejected_total", "reason"), Legend: legend("reason")}).alerted(1, "HoneRejects"),
		lines("Connections accepted and ended", "ops",
			"Connections accepted, and ended normally, per second. As many as requests: connection churn; have clients reuse connections.",
			Query{Expr: rate("hone_connections_accepted_total"), Legend: legend() + " accepted"},
			Query{Expr: rate("hone_connections_ended_total", "reason"), Legend: legend("reason")}),
	}
}

func bytesMoved() []Panel {
	return []Panel{
		lines("Bytes", "Bps",
			"Bytes read from and written to sockets, per second. Flat at the network's bandwidth: the network is the bottleneck, not the server.",
			Query{Expr: rate("hone_received_bytes_total"), Legend: legend() + " received"},
			Query{Expr: rate("hone_sent_bytes_total"), Legend: legend() + " sent"}),
		lines("Output waiting", "bytes",
			"Output that peers have not read yet. Rising with connections unchanged: peers do not read; see output memory, which the limit bounds.",
			Query{Expr: gauge("hone_output_waiting_bytes"), Legend: legend()}),
		lines("Output memory", "bytes",
			"Memory of pending output, including what running requests are expected to add. Near the limit total-output (128 MiB): large replies take turns from 11/16 of it on, and peers that do not read are about to be disconnected; see rejected, output_budget.",
			Query{Expr: gauge("hone_output_memory_bytes"), Legend: legend()},
			Query{gauge("hone_output_memory_limit_bytes"), legend() + " limit", limitOff}).alerted(0, "HoneOutputNearLimit"),
		lines("Connections in line", "short",
			"Connections whose requests wait for room in the limit total-output. Above zero for minutes: replies are large and peers slow to take them; raise total-output, or find those peers. Those that wait for replies are not read because total-in-flight is reached: the handlers behind late replies are the limit.",
			Query{Expr: gauge("hone_connections_in_line"), Legend: legend() + " for output"},
			Query{Expr: gauge("hone_connections_paused"), Legend: legend() + " for replies"}),
		lines("Input memory", "bytes",
			"Memory of unfinished messages, and of pipelined requests. Near three quarters of the limit total-input (128 MiB): connections that have held most for longest are about to be closed; see rejected, input_budget.",
			Query{Expr: gauge("hone_input_memory_bytes"), Legend: legend()},
			Query{gauge("hone_input_memory_limit_bytes"), legend() + " limit", limitOff}).alerted(0, "HoneInputNearLimit"),
		lines("Connection buffers", "bytes",
			"Buffer memory of connections with something in flight. Growing while connections do not: messages got larger, or peers got slower.",
			Query{Expr: gauge("hone_connection_buffer_bytes"), Legend: legend()}),
		lines("Connection buffers lent", "short",
			"Buffers of connections with something in flight. As many as connections: all of them are in the middle of a message.",
			Query{Expr: gauge("hone_connection_buffers"), Legend: legend()}),
	}
}

func loops() []Panel {
	return []Panel{
		lines("Loop turns", "ops",
			"Event loop turns with work, and waits without, per second. No waits: the loops are never idle, so CPU is the bottleneck.",
			Query{Expr: rate("hone_loop_turns_total"), Legend: legend() + " turns"},
			Query{Expr: rate("hone_loop_sleeps_total"), Legend: legend() + " waits"}),
		lines("Loop batches", "short",
			"Connections served per loop turn. One: every request costs a separate wake-up; many: the loops are busy, and efficient.",
			Query{Expr: rate("hone_loop_events_total") + " / " + rate("hone_loop_turns_total"), Legend: legend()}),
	}
}
