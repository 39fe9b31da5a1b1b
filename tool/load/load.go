// Package load sends requests to a target on a schedule and measures its response times.
//
//	target, err := codec.ParseTarget("tcp://127.0.0.1:7000")
//	...
//	result, err := load.Run(ctx, load.Plan{Target: target, Conns: 100, Depth: 64, Rate: 50_000})
//
// Package codec has the targets and their protocols.
//
// A plan without a rate is a closed loop: every connection keeps Depth requests outstanding and
// sends the next when an answer comes. So a stalled server receives hardly any requests, and the
// figures hardly show the stall (coordinated omission). A plan with a rate is an open loop: every
// request has a scheduled moment, and its response time counts from that moment, whatever
// delayed its sending.
//
// Every request has three moments: intended, written and answered. The response time is
// answered − intended, the service time answered − written. A request that timed out, or was
// never sent, is in the response times with the time that it waited, and is counted as an error
// under its Kind. A request whose connection broke has neither time. Every answer is verified. A
// Result says first whether it is valid, and what to try when it is not: invalid does not mean
// failed.
//
// The package shares package wire with hone's server, and the frames of package websocket, which
// Autobahn's suite tests from both sides; none of the servers' code.
package load

import "github.com/hone-go/hone/tool/load/codec"

// Error is why Run could not go on, of one of the kinds of package codec.
type Error = codec.Error

// Kind classifies what can go wrong with a run or a request.
type Kind = codec.Kind

// The kinds.
const (
	BadPlan     = codec.BadPlan
	Unreachable = codec.Unreachable
	Refused     = codec.Refused
	Closed      = codec.Closed
	Timeout     = codec.Timeout
	Failed      = codec.Failed

	kinds = int(Failed) + 1
)
