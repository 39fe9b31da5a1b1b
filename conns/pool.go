// Package conns is a connection pool for clients.
//
// A Pool opens at most Max connections and lends each to one borrower at a time. A
// connection's slot is the permit: there is one structure under one lock, and no second
// count that could disagree with it. Borrow with Do where possible; use Get and Lease for
// loans that outlast a function.
//
// A protocol with request ids needs no pool: many callers can share one connection, which
// is faster (see docs/pools.md).
package conns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/fifo"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("conns: pool closed")
	// ErrBusy means that Max connections are in use and MaxWaiters callers wait already.
	ErrBusy = errors.New("conns: too many callers wait for a connection")
	// ErrBackoff means that nothing is open and the pool is in backoff after a failed
	// dial, so that it did not dial this time. It wraps the error of the last dial.
	ErrBackoff = errors.New("conns: in backoff after a failed dial")
	// ErrKeepConn, wrapped by the error of a function given to Do, means that the
	// connection is healthy nevertheless, as with "no such key" from a server. Wrap it
	// with errors.Join, or match it in your error's Is method.
	ErrKeepConn = errors.New("conns: the connection is healthy")

	errPanicked = errors.New("conns: the borrower panicked")
)

// Pool is a pool of connections of type C; New makes one and Close ends it. All methods
// are safe for concurrent use.
//
// Waiting callers are served in FIFO order; those that have given up are skipped. Idle
// connections are lent in LIFO order, so that surplus ones reach the idle timeout and are
// closed.
//
// Cost: Get and Release make no clock read, system call or allocation while there is an
// idle connection that was used within the last second (BenchmarkGetRelease).
type Pool[C any] struct {
	config Config[C] // with defaults; Resize changes Max and MinIdle
	tick   time.Duration
	epoch  time.Time

	mu     sync.Mutex
	ctx    context.Context // of dials and probes; ends with Reset and Close
	cancel context.CancelFunc
	// all holds every connection that is open, being dialed or being closed; its place
	// there is its permit. idle holds those that may be lent, longest idle first. While
	// callers wait, idle is empty.
	all     []*slot[C]
	idle    []*slot[C]
	waiting fifo.Queue[*waiter[C]]
	warming []*warmer
	dialing int
	probing int
	closing int
	worn    int // idle ones past their lifetime, lent only until a replacement is open

	failures int           // consecutive failed dials, counted once per backoff
	lastErr  error         // of the last failed dial
	retryAt  time.Duration // end of the backoff

	timer   *time.Timer
	due     time.Duration // when the timer fires; zero: not set
	ticking bool          // a sweep is due within a tick, or none is needed

	ended   bool          // Close was called
	running int           // goroutines and timers of the pool that have not ended
	gone    chan struct{} // closed when ended, and all is empty and nothing runs

	count  counters
	waited atomic.Int64 // nanoseconds spent waiting
	spare  sync.Pool    // free list of *waiter[C]
}

// slot is a connection and its place in the pool. It has one owner at a time: a dial, the
// idle list, a borrower, a probe, or a close.
type slot[C any] struct {
	pool *Pool[C]
	conn C
	// loan counts how often the connection was released; a Lease with another number is
	// stale. Changed under the lock.
	loan    atomic.Uint64
	place   int           // index in Pool.all
	doomed  Reason        // if not zero, close when released
	expires time.Duration // end of its lifetime, or never
	quiet   time.Duration // first sweep that saw it idle; zero: none yet
	probed  time.Duration // end of its last probe
}

const never = time.Duration(1<<63 - 1)

// Do borrows a connection for f. When f returns nil, or an error that wraps ErrKeepConn,
// the connection goes back to the pool; when f returns another error or panics, the
// connection is closed. f must not keep the connection, and must clear any deadline that
// it sets on it.
func (p *Pool[C]) Do(ctx context.Context, f func(ctx context.Context, c C) error) error {
	l, err := p.Get(ctx)
	if err != nil {
		return err
	}
	err = errPanicked
	defer func() {
		if err == nil || errors.Is(err, ErrKeepConn) {
			l.Release()
		} else {
			l.Discard(err)
		}
	}()
	err = f(ctx, l.conn)
	return err
}

// Get borrows a connection; Release or Discard of the Lease ends the loan. When none is
// idle, Get waits until one is released or dialed, whichever comes first. The error is
//
//   - ctx's cause when ctx ended first;
//   - the error of a Dial, when this caller was first in the queue or
//     nothing is open that could be released;
//   - ErrBackoff, ErrBusy or ErrClosed, at once.
func (p *Pool[C]) Get(ctx context.Context) (Lease[C], error) {
	if ctx.Err() != nil {
		return Lease[C]{}, context.Cause(ctx)
	}
	p.mu.Lock()
	if n := len(p.idle); n > p.config.MinIdle {
		if s := p.idle[n-1]; s.quiet == 0 {
			p.idle[n-1] = nil
			p.idle = p.idle[:n-1]
			p.count.gets++
			l := Lease[C]{s.conn, s, s.loan.Load()}
			p.mu.Unlock()
			return l, nil
		}
	}
	p.mu.Unlock()
	return p.borrow(ctx)
}

// borrow is the slow path of Get.
func (p *Pool[C]) borrow(ctx context.Context) (Lease[C], error) {
	p.mu.Lock()
	p.count.gets++
	for len(p.idle) > 0 {
		s := p.takeIdle(len(p.idle) - 1)
		p.balance()
		p.mu.Unlock()
		l := Lease[C]{s.conn, s, s.loan.Load()}
		if s.quiet == 0 || l.check() {
			return l, nil
		}
		p.mu.Lock()
	}
	w, err := p.enqueue(ctx) // still under the lock under which nothing was idle (vitess #17662)
	p.mu.Unlock()
	if err != nil {
		return Lease[C]{}, err
	}
	return p.await(ctx, w)
}

// takeIdle removes the i-th connection from idle; mu is held.
func (p *Pool[C]) takeIdle(i int) *slot[C] {
	s := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	if s.doomed != 0 {
		p.worn--
	}
	return s
}

// comeBack hands a connection without an owner to a waiter, or makes it idle, or closes
// it; mu is held.
func (p *Pool[C]) comeBack(s *slot[C]) {
	switch {
	case s.doomed != 0:
		p.retire(s, s.doomed, nil)
	case p.handOver(s):
	default:
		p.rest(s)
	}
}

// rest inserts s into idle, ordered by its idle time; mu is held.
func (p *Pool[C]) rest(s *slot[C]) {
	i := len(p.idle)
	for s.quiet != 0 && i > 0 && (p.idle[i-1].quiet == 0 || p.idle[i-1].quiet > s.quiet) {
		i--
	}
	p.idle = slices.Insert(p.idle, i, s)
	s.loan.CompareAndSwap(0, 1) // lent before, for Lease.Reused
	if p.config.AlwaysAsk && s.quiet == 0 {
		s.quiet = p.now()
	}
	if !p.ticking {
		p.ticking = true
		p.arm(p.now() + p.tick)
	}
}

// now returns the pool's time. It is never zero.
func (p *Pool[C]) now() time.Duration { return time.Since(p.epoch) + 1 }
