package websocket

// fault is how a peer has broken the protocol or passed a limit. Zero: it has not. It is
// an error, and says with which code to close the connection.
type fault uint8

const (
	_ fault = iota
	faultReserved
	faultOpcode
	faultUnmasked
	faultMasked
	faultLength
	faultControlLength
	faultControlFragment
	faultContinuation
	faultInterleaved
	faultCompressed
	faultCloseLength
	faultCloseCode
	faultCloseText
	faultText
	faultInflate
	faultTooBig
	faultTooMany
	faults
)

var faultTexts = [faults]string{
	faultReserved:        "a frame with reserved bits",
	faultOpcode:          "a frame with a reserved opcode",
	faultUnmasked:        "a client's frame that is not masked",
	faultMasked:          "a server's frame that is masked",
	faultLength:          "a length that is not in its shortest form, or beyond 63 bits",
	faultControlLength:   "a control frame over 125 bytes",
	faultControlFragment: "a fragmented control frame",
	faultContinuation:    "a continuation of no message",
	faultInterleaved:     "a new message inside another one",
	faultCompressed:      "a compressed frame where none is allowed",
	faultCloseLength:     "a Close frame with half a code",
	faultCloseCode:       "a Close frame with a code that must not be sent",
	faultCloseText:       "a Close frame whose reason is not UTF-8",
	faultText:            "a text that is not UTF-8",
	faultInflate:         "compressed data that is damaged",
	faultTooBig:          "a message over the limit",
	faultTooMany:         "a message in too many frames",
}

// code is what RFC 6455 has a peer told that does this.
func (f fault) code() Code {
	switch f {
	case faultCloseText, faultText, faultInflate:
		return InvalidPayload
	case faultTooBig:
		return MessageTooBig
	case faultTooMany:
		return PolicyViolation
	}
	return ProtocolError
}

// String says what the peer has sent, for a Close frame's reason.
func (f fault) String() string {
	if f < faults {
		return faultTexts[f]
	}
	return "an unknown fault"
}

// Error makes a fault an error.
func (f fault) Error() string { return "websocket: the peer sent " + f.String() }

// Unwrap is the fault's code, so that errors.As finds it.
func (f fault) Unwrap() error { return f.code() }
