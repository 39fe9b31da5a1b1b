package engine

import (
	"errors"
	"strconv"

	"github.com/hone-go/hone/engine/internal/life"
	"github.com/hone-go/hone/engine/internal/timing"
)

// Reason is why a connection ended or was refused. It is an error. The engine's reasons
// are a closed set: their names are labels of the counters in Stats. A protocol may add a
// few, see Own.
type Reason uint8

// The reasons, in the order of Stats.Ended.
const (
	_                 Reason = iota
	PeerClosed               // the peer closed, and all its requests were answered
	PeerReset                // the connection broke
	ClosedHere               // a handler closed it, or took over the socket
	IdleTimeout              // nothing arrived for Limits.IdleTime
	FrameTimeout             // a message took too long to arrive
	WriteStall               // the peer read nothing for Limits.StallTime
	SlowReader               // more than Limits.HardCap bytes were unsent
	OutputBudget             // total output exceeded Limits.TotalOutput
	TooLarge                 // a message over Limits.FrameSize
	Malformed                // not a valid message
	UnknownCommand           // unknown message type
	BadProxyHeader           // a trusted proxy sent no valid PROXY header
	Panicked                 // a handler panicked
	TooManyConns             // over Limits.Conns
	TooManyPerAddress        // over Limits.ConnsPerAddress
	NoDescriptors            // out of descriptors
	ShuttingDown             // drained
	Forced                   // the shutdown's context ended first
	InputBudget              // total unserved input exceeded Limits.TotalInput
	Displaced                // made room for a new connection at Limits.Conns: it had never sent a byte, or see Yielder
	AuthTimeout              // did not authenticate within Limits.AuthTime
	TooManyAtOnce            // over Limits.AcceptRate
	reasons
)

// Own is the first of a protocol's own reasons, Own+1 the second, and so on:
// Server.OwnReasons names them and Stats.Own counts them. Like all others they are passed
// to Refuse. One without a name counts as Malformed.
const Own Reason = 64

// mostOwn is the maximum number of own reasons: each is a label of metrics.
const mostOwn = 8

// OwnEnded is how many connections have ended for one of the protocol's own reasons.
type OwnEnded struct {
	Name  string // "" if unused
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
	TooManyAtOnce:     "too_many_at_once",
}

// String returns the reason's label: lower case, words joined by underscores. For a
// protocol's own reason it is a number, because only the server knows the name.
func (r Reason) String() string {
	if r >= Own && r < Own+mostOwn {
		return "own_" + strconv.Itoa(int(r-Own)+1)
	}
	if r == 0 || r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Error returns the reason's label with a prefix.
func (r Reason) Error() string { return "engine: connection ended: " + r.String() }

// kind returns what the reason means for the life cycle.
func (r Reason) kind() life.Kind {
	if r == 0 {
		return life.Lives
	}
	return r.ending()
}

// ending is the part of kind that is not inlined.
func (r Reason) ending() life.Kind {
	switch r {
	case PeerClosed:
		return life.Left
	case ShuttingDown:
		return life.Draining
	case Displaced:
		return life.Displaced
	case TooLarge, Malformed, UnknownCommand, Panicked, ClosedHere:
		return life.Told
	}
	return life.Untold
}

// exceeded returns the reason to end for a limit.
func exceeded(limit timing.Limit) Reason {
	return [...]Reason{timing.IdleTime: IdleTimeout, timing.FrameTime: FrameTimeout, timing.StallTime: WriteStall, timing.AuthTime: AuthTimeout}[limit]
}

// ends reports whether why ends the service at once.
func ends(why Reason) bool { return why != 0 && why.kind().Ends() }

func asReason(err error) Reason {
	var why Reason
	if errors.As(err, &why) && why != 0 {
		return why
	}
	return Malformed
}

// ErrClosed is returned by a Conn or Reply whose connection has ended.
var ErrClosed = errors.New("engine: connection closed")
