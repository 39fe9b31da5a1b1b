package conns

import (
	"context"
	"io"
	"time"
)

// Config says how a Pool gets its connections and how long it keeps them. Only
// Dial has to be set.
//
// None of its functions is called under the pool's lock. A panic in Dial is that
// dial's failure, and one in Alive or Hooks.Waited is the borrower's. A panic in
// the others has nobody to be told, and ends the process as in any goroutine.
type Config[C any] struct {
	// Dial opens a connection. It runs on a goroutine of the pool: ctx ends with
	// DialTimeout, Reset or Close, not with the caller that wanted the
	// connection, because the next one in the queue may have it instead.
	Dial func(ctx context.Context) (C, error)
	// Close closes a connection, on a goroutine of its own. The connection counts
	// against Max until it returns. Zero: C's own Close method, if it has one.
	Close func(c C)

	// Max is how many connections may be open, being dialed or being closed
	// together. Zero: 64, which is more than most servers can use at once.
	Max int
	// MinIdle is how many connections are kept idle: dialed ahead from New on,
	// replaced as soon as one is missing, and not closed for being idle.
	// Zero: none.
	MinIdle int
	// MaxWaiters is how many callers may wait for a connection that others have;
	// a further one gets ErrBusy. Zero: 10 000. Negative: nobody waits for others.
	MaxWaiters int
	// MaxDials is how many dials, and how many probes, run at the same time.
	// Zero: 16.
	MaxDials int

	// MaxIdleTime is how long a connection may be idle. It is closed up to an
	// eighth of that later, at most a second, so stay well under the server's own
	// limit. Zero: 90 s. Negative: for ever.
	MaxIdleTime time.Duration
	// MaxLifetime is how old a connection may get. It is closed when it is idle
	// or comes back. One that MinIdle needs is lent until its replacement is
	// there, at most DialTimeout longer. Zero: 30 min. Negative: for ever.
	MaxLifetime time.Duration
	// Jitter is the part of MaxLifetime by which a connection's life may be
	// shorter. It is drawn once, at birth. Zero: 0.1. Negative: none.
	Jitter float64
	// DialTimeout bounds one Dial, and one Probe. Zero: 5 s. Negative: nothing.
	DialTimeout time.Duration
	// MaxBackoff is the longest pause after failed dials. The first is 25 to
	// 50 ms, each further one up to twice as long. When it has passed, one dial
	// alone is tried. Zero: 5 s. Negative: no pause.
	MaxBackoff time.Duration

	// Alive says why a connection must not be lent again, or nil. It is asked
	// before a loan when the connection has been idle for AliveAfter or longer.
	// It delays the borrower: no round trips here. Zero: for a connection with a
	// SyscallConn method, on Unix, one system call finds unread bytes, the end of
	// the stream, an error or an expired deadline; nobody else may be reading from
	// it then. Other connections, TLS among them, are not asked. idle may be a
	// second too low.
	Alive func(c C, idle time.Duration) error
	// AliveAfter is how long a connection is trusted to stay as its borrower left
	// it. Zero: 1 s. Negative: not at all, Alive is asked before every loan.
	AliveAfter time.Duration
	// Probe checks an idle connection in the background, with a round trip if it
	// likes; meanwhile the connection is not lent. An error closes it. It neither
	// counts as use nor delays a borrower. Zero: no probes.
	Probe func(ctx context.Context, c C) error
	// ProbeAfter is how long a connection is idle before it is probed, and again
	// between probes. Zero: 30 s.
	ProbeAfter time.Duration

	// Hooks are told what happens.
	Hooks Hooks
}

// Hooks are told what happens. They should return soon: they run on the
// goroutine that did it. Zero: nobody is told.
type Hooks struct {
	// Dialed is called after each Dial.
	Dialed func(took time.Duration, err error)
	// Waited is called by each Get that had to wait, before it returns.
	Waited func(waited time.Duration, err error)
	// Closed is called after each Close. err is what Alive, Probe or the borrower
	// said, if the reason is NotAlive or Discarded.
	Closed func(why Reason, err error)
}

// New makes a Pool, which dials what MinIdle asks for. It panics if c.Dial is nil.
func New[C any](c Config[C]) *Pool[C] {
	if c.Dial == nil {
		panic("conns: Config.Dial is nil")
	}
	p := &Pool[C]{
		config:   c.resolved(),
		distrust: c.AliveAfter < 0,
		epoch:    time.Now(),
		gone:     make(chan struct{}),
	}
	r := &p.config
	p.tick = max(time.Millisecond, min(time.Second, r.AliveAfter, r.MaxIdleTime/8, r.ProbeAfter/8))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balance()
	return p
}

// resolved is c with its zeros replaced, and never where there is no limit.
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
	c.Max = or(c.Max, 64, 1)
	c.MinIdle = min(max(0, c.MinIdle), c.Max)
	c.MaxWaiters = or(c.MaxWaiters, 10_000, 0)
	c.MaxDials = or(c.MaxDials, 16, 1)
	c.MaxIdleTime = or(c.MaxIdleTime, 90*time.Second, never)
	c.MaxLifetime = or(c.MaxLifetime, 30*time.Minute, never)
	c.Jitter = min(or(c.Jitter, 0.1, 0), 1)
	c.DialTimeout = or(c.DialTimeout, 5*time.Second, never)
	c.MaxBackoff = or(c.MaxBackoff, 5*time.Second, 0)
	c.AliveAfter = or(c.AliveAfter, time.Second, never)
	c.ProbeAfter = or(c.ProbeAfter, 30*time.Second, 30*time.Second)
	if c.Probe == nil {
		c.ProbeAfter = never
	}
	return c
}

// or is n, or what is meant where n is zero or negative.
func or[N int | time.Duration | float64](n, zero, negative N) N {
	switch {
	case n == 0:
		return zero
	case n < 0:
		return negative
	}
	return n
}

// timeout is a context for one dial or probe.
func (p *Pool[C]) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.config.DialTimeout == never {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.config.DialTimeout)
}
