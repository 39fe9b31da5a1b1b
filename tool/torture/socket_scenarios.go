package torture

// socketScenarios attack WebSocket.
func socketScenarios() []Scenario {
	return []Scenario{
		{Name: "bad-handshakes", Kinds: WebSocket, Attack: playHandshakes,
			Title: "Handshakes of WebSocket with bad keys, versions, methods and fields."},
		{Name: "bad-frames", Kinds: WebSocket, Attack: playFrames,
			Title: "Frames that are unmasked, too long, fragmented where they must not be, or of no known kind, and bad closes."},
		{Name: "endless-messages", Kinds: WebSocket, Attack: pourAll((*Arena).Open, fragmentFloods),
			Title: "Messages without end, in fragments and in one frame."},
		{Name: "control-floods", Kinds: WebSocket, Attack: floodControl,
			Title: "Pings, pongs and empty fragments, as many as the server takes, from peers that read nothing."},
		{Name: "after-close", Kinds: WebSocket, Waits: true, Attack: waits("connections that stay open after a close", (*Arena).Open, afterClose),
			Title: "Clients send a close and more frames behind it, and never close the TCP connection."},
		{Name: "slow-messages", Kinds: WebSocket, Waits: true, Attack: waits("messages that trickle", (*Arena).Open, slowFragments),
			Title: "Messages trickle, a byte at a time, in one frame and in fragments."},
	}
}
