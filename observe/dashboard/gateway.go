package dashboard

// gateway is the dashboard of what comes out of a honed: its readers, and what it deletes. Its metrics are
// honed's own, at /gateway/metrics.
func gateway() Dashboard {
	return Dashboard{
		UID: "hone-gateway", Title: "hone: gateway", Help: "How far the readers of honed's log are, what retention deletes, and what relays take elsewhere.",
		Rows: []Row{
			{"Readers", readerPanels()},
			{"Retention", retentionPanels()},
			{"Relays", relayPanels()},
		},
	}
}

// noHoned is why a gateway's panel has no line, and noReader why one of readers has none.
const (
	noHoned  = "the instance is not a honed"
	noReader = "the instance is not a honed, or it has no readers"
	noRelay  = "the instance is not a honed-relay"
)

func readerPanels() []Panel {
	by := []string{"reader", "share"}
	one := func(metric string) Query { return Query{gauge(metric, by...), legend(by...), noReader} }
	return []Panel{
		lines("Reader lag, records", "short",
			"Records that a reader has not acknowledged, roughly. Rising without end: the reader is slower than the clients that send; split it into shares, or find out what it waits for.",
			one("honed_reader_lag_records")),
		lines("Reader lag, bytes", "bytes",
			"Bytes of the log behind what a reader has acknowledged, roughly. Near the space that the log has: it fills up for this reader; see docs/readers.md.",
			one("honed_reader_lag_bytes")),
		lines("Reader lag, time", "s",
			"Age of the oldest record that a reader has not acknowledged. Rising by a second each second: the reader stands still; see whether it is connected, and its own log.",
			one("honed_reader_lag_seconds")).alerted(900, "HonedReaderLags", "HonedReaderExpires"),
		lines("Readers connected", "short",
			"Which readers are connected. At 0 for long: its program does not run, or is refused; the log is kept for it all the same.",
			one("honed_reader_connected")),
		lines("Readers, in flight", "bytes",
			"Bytes sent to a reader that its program has not taken. At the window for long: the program is slower than the gateway, which waits for it.",
			one("honed_reader_in_flight_bytes")),
		lines("Connections that read", "short",
			"Readers connected now, those without a stored position included. At the limit --readers, more are refused.",
			Query{gauge("honed_readers"), legend(), noHoned}),
		lines("Delivered", "Bps",
			"Bytes sent to readers per second. None while clients send: no reader is connected.",
			Query{rate("honed_delivered_bytes_total"), legend(), noHoned}),
		lines("Gaps told to readers", "ops",
			"Gaps per second: records that a reader will not get, because they were deleted or damaged. Any at all: look at the reader's log, and restore what it needs from a backup.",
			Query{rate("honed_reader_gaps_total"), legend(), noHoned}).alerted(0, "HonedReaderMissed"),
	}
}

func retentionPanels() []Panel {
	return []Panel{
		lines("Kept for readers", "bytes",
			"Bytes that retention would delete if no reader needed them. Rising: look for the reader with the largest lag, and remove it if nobody needs it.",
			Query{gauge("honed_retention_held_bytes"), legend(), noHoned}).alerted(0, "HonedReaderHoldsLog"),
		lines("Deleted", "Bps",
			"Bytes that retention deletes per second. Far below what is written while the log grows: something holds it; see kept for readers.",
			Query{rate("honed_retention_bytes_total"), legend(), noHoned}),
		lines("Trims", "ops",
			"How often retention deletes per second, and how often records that a reader needed. Any of those: --retain-hard has cost a reader records, which was told.",
			Query{rate("honed_retention_trims_total"), legend() + " trims", noHoned},
			Query{rate("honed_retention_overruns_total"), legend() + " overruns", noHoned}),
		lines("Oldest position", "short",
			"Position of the log's first envelope. Flat for long although retention is on: the log is small, or something holds it.",
			Query{gauge("honed_log_first_position"), legend(), noHoned}),
		lines("Log size", "bytes",
			"Size of the log, and what it may still grow. Close to nothing left: honed stops acknowledging; add disk space, or delete more.",
			Query{gauge("honed_log_bytes"), legend() + " size", noHoned},
			Query{gauge("honed_log_left_bytes"), legend() + " left", noHoned}),
	}
}

func relayPanels() []Panel {
	by := []string{"reader"}
	one := func(metric string) Query { return Query{gauge(metric, by...), legend(by...), noRelay} }
	perSecond := func(metric string) Query { return Query{rate(metric, by...), legend(by...), noRelay} }
	return []Panel{
		lines("Relayed", "ops",
			"Messages per second that the destination of a honed-relay took. None while the reader's lag rises: see the attempts that fail.",
			perSecond("honed_relay_records_total")),
		lines("Relay lag", "s",
			"Age of the oldest message that a relay has in hand. Rising by a second each second: the destination takes nothing, or far too little.",
			one("honed_relay_lag_seconds")).alerted(900, "HonedRelayLags"),
		lines("Relay, time since the destination failed", "s",
			"For how long every attempt has failed. Above a minute: look at the destination; the relay's log has its answer.",
			one("honed_relay_failing_seconds")).alerted(60, "HonedRelayFailing"),
		lines("Relay attempts repeated", "ops",
			"Attempts per second that failed and were repeated. A few are normal; many: the destination is overloaded or down.",
			perSecond("honed_relay_retries_total")),
		lines("Dead letters", "short",
			"Messages that the destination refused. Any at all: honed-relay dead list says why; retry or drop them.",
			one("honed_relay_dead_letters")).alerted(0, "HonedRelayDeadLetters"),
		lines("Messages that wait behind dead letters", "short",
			"Later messages of the same clients, kept in the relay's dead-letter log. Near --dead-messages: the relay will stop.",
			one("honed_relay_waiting")),
	}
}
