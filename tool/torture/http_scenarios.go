package torture

// httpScenarios attack HTTP/1.1, and the handshake of WebSocket with it.
func httpScenarios() []Scenario {
	return []Scenario{
		{Name: "malformed-requests", Kinds: HTTP, Whole: true, Attack: sendMalformed(lineInputs, fieldInputs, hostInputs, lifeInputs),
			Title: "Malformed and unusual requests: request lines, fields, Hosts and the ends of connections."},
		{Name: "request-smuggling", Kinds: HTTP, Whole: true, Attack: sendMalformed(lengthInputs, codingInputs, chunkInputs),
			Title: "Requests whose length is ambiguous or malformed, with another request hidden in their bodies."},
		{Name: "endless-heads", Kinds: HTTP | WebSocket, Attack: pourAll((*Arena).Dial, headFloods),
			Title: "Heads without end: fields, one value, one name, a folded value, a method, a target, empty lines."},
		{Name: "large-heads", Kinds: HTTP | WebSocket, Attack: largeHeads,
			Title: "Complete heads of 64 KiB to 1 MiB with thousands of fields, beside heads as large with one long value."},
		{Name: "many-targets", Kinds: HTTP, Access: Watched, Attack: manyTargets,
			Title: "Clients ask for 20,000 different paths and queries, in three equal rounds."},
		{Name: "endless-chunk-parts", Kinds: HTTP, Attack: pourAll((*Arena).Dial, chunkFloods),
			Title: "Chunked bodies whose extensions, sizes or trailers have no end."},
		{Name: "huge-bodies", Kinds: HTTP, Attack: hugeLengths,
			Title: "Bodies and chunks of up to 2^63 - 1 bytes are announced, and 1 KiB of each is sent."},
		{Name: "expect-continue", Kinds: HTTP, Attack: expectNothing,
			Title: "Clients ask whether to send their bodies, and never send them."},
		{Name: "event-streams", Kinds: HTTP, Attack: streams,
			Title: "A crowd of event streams starts at once."},
		{Name: "slow-heads", Kinds: HTTP | WebSocket, Waits: true, Attack: waits("heads that trickle", (*Arena).Dial, slowHead),
			Title: "Heads without end trickle, a byte at a time."},
		{Name: "slow-bodies", Kinds: HTTP, Waits: true, Attack: waits("bodies that trickle", (*Arena).Dial, slowBody),
			Title: "Bodies trickle, with a length and in chunks, or never come after Expect: 100-continue."},
	}
}
