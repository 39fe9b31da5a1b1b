package websocket

// fault is how a peer has violated the protocol or exceeded a limit. Zero: it has not. It is
// an error that determines the code of the Close frame.
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
	faultContinuation:    "a continuation frame without a message to continue",
	faultInterleaved:     "a new message before the last one was complete",
	faultCompressed:      "a compressed frame where none is allowed",
	faultCloseLength:     "a Close frame with a one-byte payload",
	faultCloseCode:       "a Close frame with a code that must not be sent",
	faultCloseText:       "a Close frame whose reason is not UTF-8",
	faultText:            "a text that is not UTF-8",
	faultInflate:         "compressed data that is damaged",
	faultTooBig:          "a message over the limit",
	faultTooMany:         "a message in too many frames",
}

// code is the close code that RFC 6455 assigns to the fault.
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

// String describes what the peer sent, for a Close frame's reason.
func (f fault) String() string {
	if f < faults {
		return faultTexts[f]
	}
	return "an unknown fault"
}

// Error makes a fault an error.
func (f fault) Error() string { return "websocket: the peer sent " + f.String() }

// Unwrap returns the fault's code, so that errors.As finds it.
func (f fault) Unwrap() error { return f.code() }
