package engine

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Reason says why a connection ended or was refused. It is an error. The engine's are a
// closed set: their names are the labels of the counters in Stats. A protocol may add a
// few, see Own.
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
	Malformed                // bytes that are not a message
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

// Own is the first of the reasons that a protocol has of its own, Own+1 the second, and so
// on: they are named by Server.OwnReasons and counted in Stats.Own. Refuse is asked for
// their words as for all others. One that has no name counts as Malformed.
const Own Reason = 64

// mostOwn is how many there may be: they are labels of metrics.
const mostOwn = 8

// OwnEnded is how many connections have ended for one reason of the protocol's own.
type OwnEnded struct {
	Name  string // "" where the protocol has no such reason
	Count uint64
}

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

// String is the reason's label: lower case, words joined by underscores. For those of a
// protocol's own it is a number, since their names are the server's.
func (r Reason) String() string {
	if r >= Own && r < Own+mostOwn {
		return "own_" + strconv.Itoa(int(r-Own)+1)
	}
	if r == 0 || r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Error makes a Reason an error.
func (r Reason) Error() string { return "engine: connection ended: " + r.String() }

// checkOwnReasons panics if a protocol's reasons cannot be labels beside the engine's.
func (s *Server) checkOwnReasons() {
	if len(s.OwnReasons) > mostOwn {
		panic(fmt.Sprintf("engine: Server.OwnReasons has %d names; there may be %d", len(s.OwnReasons), mostOwn))
	}
	known := map[string]bool{}
	for r := range reasons {
		known[r.String()] = true
	}
	for _, name := range s.OwnReasons {
		if name == "" || known[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			panic(fmt.Sprintf("engine: Server.OwnReasons has %q; a name is lower case letters and underscores, and nobody else's", name))
		}
		known[name] = true
	}
}

// endedFor is where connections that end for why are counted.
func (s *Server) endedFor(why Reason) *atomic.Uint64 {
	switch {
	case why < reasons:
		return &s.ended[why]
	case why >= Own && int(why-Own) < len(s.OwnReasons):
		return &s.endedOwn[why-Own]
	}
	return &s.ended[Malformed]
}
