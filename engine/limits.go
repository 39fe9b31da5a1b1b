package engine

import (
	"math"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Limits are the defences of a server. The zero value is safe: every field
// left at zero takes its default, and a negative one is switched off.
type Limits struct {
	// FrameTime is how long one message may take from its first byte to its
	// last, plus its size at FrameRate. Zero: 5 s. It is absolute: a byte now
	// and then does not extend it. A PROXY header and a TLS handshake have as long,
	// from the moment at which the connection comes.
	FrameTime time.Duration
	// FrameRate is the slowest honest sender in bytes per second. Zero: 1024.
	FrameRate int
	// FrameSize is the largest message. Zero: 64 KiB. The protocol enforces it,
	// since it can say so to the peer.
	FrameSize int
	// IdleTime closes a connection on which nothing has arrived for that long
	// while nothing was owed to it. A late reply that is owed to a peer that has
	// closed its side, or before a TakeOver, has as long. Zero: 3 min.
	IdleTime time.Duration
	// AuthTime is how long a connection may take to prove who it is, from the moment at
	// which it comes, whatever it does meanwhile: until Conn.Trust. Zero: no limit,
	// because most protocols have nobody prove that.
	AuthTime time.Duration
	// HighWater is how much output may wait for one peer before its requests
	// are no longer read; reading resumes at half of it. Zero: 64 KiB.
	HighWater int
	// HardCap is how much output may wait for one peer, beyond the reply being
	// written, before the connection is closed. Zero: 256 KiB.
	HardCap int
	// StallTime is how long a peer may take nothing of what waits for it, in
	// steps of 32 KiB where the kernel does not tell what it still holds.
	// Zero: 10 s.
	StallTime time.Duration
	// LingerTime is how long, after the last reply, the rest of what a refused
	// peer sends is read and dropped, so that a reset does not destroy the
	// refusal. Zero: 2 s.
	LingerTime time.Duration
	// InFlight is how many late replies one connection may be owed before its
	// requests are no longer read. Zero: 1024. A protocol without ids sets 1,
	// and its replies keep their order.
	InFlight int
	// TotalInFlight is the same for all connections together. At it, connections whose
	// requests are answered late are no longer read until half of the replies are sent;
	// connections whose requests are answered at once are. One that has never asked may
	// still have a request taken, up to a quarter beyond the limit. A reply is owed no
	// longer when its connection has ended. Zero: 65 536.
	TotalInFlight int
	// TotalOutput bounds the memory of the output that waits for all peers together.
	// A visit that may produce much waits until there is room, and when nothing else
	// helps the slowest readers are closed. Zero: 128 MiB.
	TotalOutput int
	// TotalInput bounds the memory of input that waits to be served, unfinished
	// messages mostly, beyond 4 KiB for each connection; who holds most for longest is
	// closed first. Zero: 128 MiB.
	TotalInput int
	// Helpers is how many handlers that take long may run beside the event loops at
	// once; connections that are known for such handlers then wait for one of them to
	// return. Others do not wait: a handler that turns out to take long is one more.
	// Zero: 10 000.
	Helpers int
	// Conns is how many connections are open at once. A newcomer beyond it takes the
	// place of the connection that has been silent for longest, if there is one that has
	// never sent a byte of a message. Zero: 50 000, or half of the descriptor limit if
	// that is less.
	Conns int
	// ConnsPerAddress is the same for one remote address, or one network of 64 bits
	// where it is IPv6, because a single host has all addresses of it. Zero: no limit,
	// because a load balancer is one address.
	ConnsPerAddress int
}

// OrDefaults returns l with every zero field replaced by its default.
func (l Limits) OrDefaults() Limits {
	const never = time.Duration(math.MaxInt64)
	orTime := func(v *time.Duration, d time.Duration) {
		switch {
		case *v == 0:
			*v = d
		case *v < 0:
			*v = never
		}
	}
	orInt := func(v *int, d int) {
		switch {
		case *v == 0:
			*v = d
		case *v < 0:
			*v = math.MaxInt32
		}
	}
	orTime(&l.FrameTime, 5*time.Second)
	orTime(&l.IdleTime, 3*time.Minute)
	orTime(&l.AuthTime, never)
	orTime(&l.StallTime, 10*time.Second)
	orTime(&l.LingerTime, 2*time.Second)
	orInt(&l.FrameRate, 1<<10)
	orInt(&l.FrameSize, 64<<10)
	orInt(&l.HighWater, 64<<10)
	orInt(&l.HardCap, 256<<10)
	orInt(&l.InFlight, 1024)
	orInt(&l.TotalInFlight, 64<<10)
	orInt(&l.TotalOutput, 128<<20)
	orInt(&l.TotalInput, 128<<20)
	orInt(&l.Helpers, 10_000)
	orInt(&l.Conns, defaultConns())
	orInt(&l.ConnsPerAddress, math.MaxInt32)
	return l
}

func defaultConns() int {
	files, ok := sys.DescriptorLimit()
	if !ok {
		return 50_000
	}
	return max(1, min(50_000, int(min(files, math.MaxInt32))/2))
}
