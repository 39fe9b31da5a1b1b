package torture

// httpScenarios attack HTTP/1.1, and the handshake of WebSocket with it.
func httpScenarios() []Scenario {
	return []Scenario{
		{
			Name: "malformed-requests", Kinds: HTTP,
			Title:  "Malformed and unusual requests: request lines, fields, Hosts and the ends of connections.",
			Attack: sendMalformed(lineInputs, fieldInputs, hostInputs, lifeInputs),
		},
		{
			Name: "request-smuggling", Kinds: HTTP,
			Title:  "Requests whose length is ambiguous or malformed, with another request hidden in their bodies.",
			Attack: sendMalformed(lengthInputs, codingInputs, chunkInputs),
		},
		{
			Name: "endless-heads", Kinds: HTTP | WebSocket,
			Title:  "Heads without end: fields, one value, one name, a folded value, a method, a target, empty lines.",
			Attack: pourAll((*Arena).Dial, headFloods),
		},
		{
			Name: "endless-chunk-parts", Kinds: HTTP,
			Title:  "Chunked bodies whose extensions, sizes or trailers have no end.",
			Attack: pourAll((*Arena).Dial, chunkFloods),
		},
		{
			Name: "huge-bodies", Kinds: HTTP,
			Title:  "Bodies and chunks of up to 2^63 - 1 bytes are announced, and 1 KiB of each is sent.",
			Attack: hugeLengths,
		},
		{
			Name: "expect-continue", Kinds: HTTP,
			Title:  "Clients ask whether to send their bodies, and never send them.",
			Attack: expectNothing,
		},
		{
			Name: "event-streams", Kinds: HTTP,
			Title:  "A crowd of event streams starts at once.",
			Attack: streams,
		},
		{
			Name: "slow-heads", Kinds: HTTP | WebSocket, Waits: true,
			Title:  "Heads without end trickle, a byte at a time.",
			Attack: drips("heads that trickle", (*Arena).Dial, slowHead),
		},
		{
			Name: "slow-bodies", Kinds: HTTP, Waits: true,
			Title:  "Bodies trickle, with a length and in chunks, or never come after Expect: 100-continue.",
			Attack: drips("bodies that trickle", (*Arena).Dial, slowBody),
		},
	}
}
