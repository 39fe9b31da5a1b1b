package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/sys"
)

// Limits are the limits and timeouts that protect a server. The zero value is safe: a
// zero field means its default. A negative one means no limit, as do values beyond
// math.MaxInt32 and 24 days; memory budgets may be larger.
type Limits struct {
	// FrameTime is the read timeout of one message, from its first byte to its last, plus
	// the time for its size at FrameRate. Zero: 5 s. It is absolute: slow progress does
	// not extend it. It also applies to a PROXY header and a TLS handshake, from the time
	// of accept.
	FrameTime time.Duration
	// FrameRate is the minimum rate of a legitimate sender in bytes per second. Zero:
	// 1024. Negative: a panic. With math.MaxInt, a message gets no time for its size.
	FrameRate int
	// FrameSize is the maximum size of a message, 2 GiB at most. Zero: 64 KiB. Negative: a
	// panic. The protocol enforces it, because it can send the peer the reason.
	FrameSize int
	// IdleTime is the idle timeout: the engine closes a connection that has sent nothing
	// for that long while no reply was owed to it. A late reply may take as long when the
	// peer has closed its side, or before a TakeOver. Zero: 3 min.
	IdleTime time.Duration
	// AuthTime is the time limit for authentication, from accept (or Conn.Distrust) until Conn.Trust,
	// whatever the connection does meanwhile. Zero: none, because most protocols have no
	// authentication.
	AuthTime time.Duration
	// HighWater is how much unsent output one peer may have before the engine stops
	// reading its requests (backpressure); it resumes at half of that. Zero: 64 KiB.
	HighWater int
	// HardCap is how much unsent output one peer may have, in addition to the reply being
	// written, before its connection is closed. Zero: 256 KiB.
	HardCap int
	// StallTime is the write timeout: how long a peer may read none of its output, in
	// steps of 32 KiB where the kernel does not report what is unacknowledged. Zero: 10
	// s.
	StallTime time.Duration
	// LingerTime is how long, after the last reply, the engine reads and discards input
	// from a refused peer, so that a reset does not destroy the refusal. Zero: 2 s.
	LingerTime time.Duration
	// SpreadTime is over how much of a Shutdown its connections end, evenly and in random order, so
	// that their clients do not all come back to other servers at once; until its turn comes a
	// connection is served as before. It must be shorter than the Shutdown may take. Those of a
	// Parter end with an answer. Zero: off, all end at once.
	SpreadTime time.Duration
	// InFlight is how many late replies one connection may be owed before the engine
	// stops reading its requests. Zero: 1024. A protocol without request ids sets 1, and
	// its replies stay in order.
	InFlight int
	// TotalInFlight is the same for all connections together. At the limit, the engine
	// stops reading connections whose requests are answered late, until half of the
	// replies are sent; it keeps reading those whose requests are answered at once. A
	// connection that has never sent a request may still send one, up to a quarter beyond
	// the limit. A reply is no longer owed when its connection has ended. Zero: 65 536.
	TotalInFlight int
	// TotalOutput bounds the memory of the unsent output of all peers together. A visit
	// that may produce much waits for room, and if nothing else helps the slowest readers
	// are closed. Zero: 128 MiB.
	TotalOutput int
	// TotalInput bounds the memory of unserved input, mostly unfinished messages; the
	// connections that hold most for the longest time are closed first. Those that hold at
	// most 4 KiB count, and are never closed for it. Zero: 128 MiB.
	TotalInput int
	// Helpers is how many slow handlers may run off the event loops at once; connections
	// known for slow handlers then wait for one of them to return. Others do not wait: a
	// handler that unexpectedly turns out slow exceeds the limit by one. Zero: 10 000.
	Helpers int
	// Conns is the maximum number of open connections. At the limit, a new connection
	// displaces the oldest one that has never sent a byte of a message, if there is one.
	// Zero: 50 000, or half of the descriptor limit if that is less.
	Conns int
	// ConnsPerAddress is the maximum per remote address, or per /64 prefix for IPv6,
	// because a single host owns all addresses of a /64. Zero: none, because a load
	// balancer is one address.
	ConnsPerAddress int
	// AcceptRate is how many new connections a second are served; a quarter of that may come at once.
	// The others are refused as TooManyAtOnce, see Server.ComeAgain: after a restart all clients may
	// come together. Connections of ServeConn do not count. Zero: none.
	AcceptRate int
}

// OrDefaults returns l with every zero field replaced by its default. It panics if
// FrameRate or FrameSize is negative, as a server does.
func (l Limits) OrDefaults() Limits {
	if l.FrameRate < 0 {
		panic(fmt.Sprintf("engine: Limits.FrameRate is %d; for unlimited time set FrameTime to -1, for no time beyond it FrameRate to math.MaxInt", l.FrameRate))
	}
	if l.FrameSize < 0 {
		panic(fmt.Sprintf("engine: Limits.FrameSize is %d; set the largest size that a message may have, or 0 for the default", l.FrameSize))
	}
	const never = time.Duration(math.MaxInt64)
	orTime := func(v *time.Duration, d time.Duration) {
		switch {
		case *v == 0:
			*v = d
		case *v < 0:
			*v = never
		}
	}
	most := math.MaxInt32
	orInt := func(v *int, d int) {
		switch {
		case *v == 0:
			*v = d
		case *v < 0 || *v > most: // nothing that is computed from it may overflow
			*v = math.MaxInt32
		}
	}
	orTime(&l.FrameTime, 5*time.Second)
	orTime(&l.IdleTime, 3*time.Minute)
	orTime(&l.AuthTime, never)
	orTime(&l.StallTime, 10*time.Second)
	orTime(&l.LingerTime, 2*time.Second)
	l.SpreadTime = max(0, l.SpreadTime)
	orInt(&l.FrameRate, 1<<10)
	orInt(&l.FrameSize, 64<<10)
	orInt(&l.HighWater, 64<<10)
	orInt(&l.HardCap, 256<<10)
	orInt(&l.InFlight, 1024)
	orInt(&l.TotalInFlight, 64<<10)
	orInt(&l.Helpers, 10_000)
	orInt(&l.Conns, defaultConns())
	orInt(&l.ConnsPerAddress, math.MaxInt32)
	orInt(&l.AcceptRate, math.MaxInt32)
	most = max(most, math.MaxInt/32)
	orInt(&l.TotalOutput, 128<<20)
	orInt(&l.TotalInput, 128<<20)
	return l
}

// rules returns the timeouts in ticks.
func (l *Limits) rules() timing.Rules {
	return timing.Limits{
		Idle: l.IdleTime, Frame: l.FrameTime, Stall: l.StallTime, Linger: l.LingerTime, Auth: l.AuthTime, Rate: l.FrameRate,
	}.Rules()
}

func defaultConns() int {
	files, ok := sys.DescriptorLimit()
	if !ok {
		return 50_000
	}
	return max(1, min(50_000, int(min(files, math.MaxInt32))/2))
}
