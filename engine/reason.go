package engine

// Reason says why a connection ended or was refused. It is an error, and a
// closed set: its names are the labels of the counters in Stats.
type Reason uint8

// The reasons, in the order of Stats.Ended.
const (
	_                 Reason = iota
	PeerClosed               // the peer closed, and everything it asked was answered
	PeerReset                // the connection broke
	ClosedHere               // a handler closed it, or took the socket over
	IdleTimeout              // nothing arrived for Limits.IdleTime
	FrameTimeout             // a message trickled beyond its time
	WriteStall               // the peer read nothing for Limits.StallTime
	SlowReader               // more than Limits.HardCap bytes waited for the peer
	OutputBudget             // all output together passed Limits.TotalOutput
	TooLarge                 // a message over Limits.FrameSize
	Malformed                // bytes that are no message
	UnknownCommand           // a message that the protocol does not know
	BadProxyHeader           // a trusted proxy sent no valid PROXY header
	Panicked                 // a handler panicked
	TooManyConns             // over Limits.Conns
	TooManyPerAddress        // over Limits.ConnsPerAddress
	NoDescriptors            // accepted on the spare descriptor, and closed
	ShuttingDown             // drained
	Forced                   // the shutdown's patience ended first
	InputBudget              // all unserved input together passed Limits.TotalInput
	Displaced                // never sent a byte, and made room for a newcomer at Limits.Conns
	AuthTimeout              // had not proved who it is within Limits.AuthTime
	reasons
)

var reasonNames = [reasons]string{
	PeerClosed:        "peer_closed",
	PeerReset:         "peer_reset",
	ClosedHere:        "closed_here",
	IdleTimeout:       "idle_timeout",
	FrameTimeout:      "frame_timeout",
	WriteStall:        "write_stall",
	SlowReader:        "slow_reader",
	OutputBudget:      "output_budget",
	TooLarge:          "too_large",
	Malformed:         "malformed",
	UnknownCommand:    "unknown_command",
	BadProxyHeader:    "bad_proxy_header",
	Panicked:          "panicked",
	TooManyConns:      "too_many_conns",
	TooManyPerAddress: "too_many_per_address",
	NoDescriptors:     "no_descriptors",
	ShuttingDown:      "shutting_down",
	Forced:            "forced",
	InputBudget:       "input_budget",
	Displaced:         "displaced",
	AuthTimeout:       "auth_timeout",
}

// String is the reason's label: lower case, words joined by underscores.
func (r Reason) String() string {
	if r == 0 || r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Error makes a Reason an error.
func (r Reason) Error() string { return "engine: connection ended: " + r.String() }
