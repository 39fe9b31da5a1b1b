package conns

import (
	"cmp"
	"context"
	"io"
	"math"
	"time"
)

// Config configures a Pool. Only Dial is required.
//
// The pool calls none of its functions while it holds its lock. A panic in Dial counts as
// a failed dial, and one in Alive or Hooks.Waited propagates to the borrower. A panic in
// the others has no caller to propagate to, and crashes the process as in any goroutine.
type Config[C any] struct {
	// Dial opens a connection. It runs on a goroutine of the pool: ctx ends with
	// DialTimeout, Reset or Close, not with the caller that caused the dial, because the
	// next one in the queue may get the connection instead.
	Dial func(ctx context.Context) (C, error)
	// Close closes a connection, on a goroutine of its own. The connection counts against
	// Max until Close returns. Zero: C's own Close method, if it has one.
	Close func(c C)

	// Max is the maximum number of connections that are open, being dialed or being
	// closed. Zero: 64, which is more than most servers can use at once. Negative: no limit.
	Max int
	// MinIdle is the number of idle connections to maintain: the pool dials them from New
	// on, replaces missing ones at once, and does not close them for being idle. Zero:
	// none.
	MinIdle int
	// MaxWaiters is the maximum number of callers that wait for a connection; further
	// ones get ErrBusy. Zero: 10 000. Negative: a panic.
	MaxWaiters int
	// NoWaiting makes callers wait only for a dial, never for a connection in use.
	// MaxWaiters is ignored.
	NoWaiting bool
	// MaxDials is the maximum number of concurrent dials, and of concurrent probes. Zero:
	// 16. Negative: no limit.
	MaxDials int

	// MaxIdleTime is the idle timeout. A connection is closed up to an eighth of that
	// later, at most a second, so stay well below the server's own idle timeout. Zero: 90
	// s. Negative: off.
	MaxIdleTime time.Duration
	// MaxLifetime is the maximum age of a connection. The pool closes an older one when
	// it is idle or released. One that MinIdle needs stays in use until its replacement
	// is open, at most DialTimeout longer. Zero: 30 min. Negative: off.
	MaxLifetime time.Duration
	// Jitter is the maximum fraction by which a connection's lifetime is shortened at
	// random. It is drawn once, when the connection is opened. Zero: 0.1. Negative: off.
	Jitter float64
	// DialTimeout is the timeout of one Dial, and of one Probe. Zero: 5 s. Negative: off.
	DialTimeout time.Duration
	// MaxBackoff is the maximum backoff after failed dials. The first pause is 25 to 50
	// ms, each further one up to twice as long. After a pause, the pool tries a single
	// dial. Zero: 5 s. Negative: off.
	MaxBackoff time.Duration

	// Alive reports why a connection must not be reused, or nil. The pool calls it before
	// it lends a connection that has been idle for AliveAfter or longer. It delays the
	// borrower, so it should make no round trips. Zero: for a connection with a
	// SyscallConn method, on Unix, one system call detects unread bytes, the end of the
	// stream, an error or an expired deadline; nobody else may be reading from the
	// connection then. Other connections, TLS included, are not checked. idle may be up
	// to a second too low.
	Alive func(c C, idle time.Duration) error
	// AliveAfter is for how long an idle connection is assumed to be healthy. Zero: 1 s.
	// Negative: a panic.
	AliveAfter time.Duration
	// AlwaysAsk makes the pool call Alive before every loan. AliveAfter is ignored.
	AlwaysAsk bool
	// Probe checks an idle connection in the background, with a round trip if necessary;
	// meanwhile the connection is not lent. If it returns an error, the pool closes the
	// connection. A probe neither counts as use nor delays a borrower. Zero: no probes.
	Probe func(ctx context.Context, c C) error
	// ProbeAfter is the interval of idleness between probes, and before the first. Zero:
	// 30 s. Negative: off.
	ProbeAfter time.Duration

	// Hooks are callbacks for metrics and logs.
	Hooks Hooks
}

// Hooks are callbacks on pool events. They should return soon: they run on the goroutine
// that caused the event. Zero: none.
type Hooks struct {
	// Dialed is called after each Dial.
	Dialed func(took time.Duration, err error)
	// Waited is called by each Get that had to wait, before it returns.
	Waited func(waited time.Duration, err error)
	// Closed is called after each Close. err is the error of Alive, Probe or the borrower
	// if the reason is NotAlive or Discarded.
	Closed func(why Reason, err error)
}

// New returns a Pool and starts to dial MinIdle connections. It panics if c.Dial is nil,
// or if c.MaxWaiters or c.AliveAfter is negative.
func New[C any](c Config[C]) *Pool[C] {
	switch {
	case c.Dial == nil:
		panic("conns: Config.Dial is nil")
	case c.MaxWaiters < 0:
		panic("conns: Config.MaxWaiters is negative; to let nobody wait, set NoWaiting")
	case c.AliveAfter < 0:
		panic("conns: Config.AliveAfter is negative; to call Alive before every loan, set AlwaysAsk")
	}
	p := &Pool[C]{
		config: c.resolved(),
		epoch:  time.Now(),
		gone:   make(chan struct{}),
	}
	r := &p.config
	p.tick = max(time.Millisecond, min(time.Second, r.AliveAfter, r.MaxIdleTime/8, r.ProbeAfter/8))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balance()
	return p
}

// resolved returns c with zeros replaced by defaults, and never where there is no limit.
func (c Config[C]) resolved() Config[C] {
	if c.Close == nil {
		c.Close = func(conn C) {
			if closer, ok := any(conn).(io.Closer); ok {
				closer.Close()
			}
		}
	}
	if c.Alive == nil {
		c.Alive = func(conn C, _ time.Duration) error { return peek(conn) }
	}
	c.Max = or(c.Max, 64, math.MaxInt)
	c.MinIdle = min(max(0, c.MinIdle), c.Max)
	if c.MaxWaiters = cmp.Or(c.MaxWaiters, 10_000); c.NoWaiting {
		c.MaxWaiters = 0
	}
	c.MaxDials = or(c.MaxDials, 16, math.MaxInt)
	c.MaxIdleTime = or(c.MaxIdleTime, 90*time.Second, never)
	c.MaxLifetime = or(c.MaxLifetime, 30*time.Minute, never)
	c.Jitter = min(or(c.Jitter, 0.1, 0), 1)
	c.DialTimeout = or(c.DialTimeout, 5*time.Second, never)
	c.MaxBackoff = or(c.MaxBackoff, 5*time.Second, 0)
	c.AliveAfter = cmp.Or(c.AliveAfter, time.Second)
	c.ProbeAfter = or(c.ProbeAfter, 30*time.Second, never)
	if c.Probe == nil {
		c.ProbeAfter = never
	}
	return c
}

// or returns n, or the given value when n is zero or negative.
func or[N int | time.Duration | float64](n, zero, negative N) N {
	switch {
	case n == 0:
		return zero
	case n < 0:
		return negative
	}
	return n
}

// timeout returns the context of one dial or probe.
func (p *Pool[C]) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.config.DialTimeout == never {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.config.DialTimeout)
}
