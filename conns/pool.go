// Package conns lends client connections that are used again and again.
//
// A Pool opens at most Max connections and lends each to one borrower at a
// time. A connection's slot is the permit: there is one structure under one
// lock, and no second count that could disagree with it. Do is the way to
// borrow; Get and Lease are for a loan that one function cannot hold.
//
// A protocol with request ids needs no pool: many callers can share one
// connection, which is faster (see docs/conns.md).
package conns

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrClosed is the answer of a pool that has been closed.
	ErrClosed = errors.New("conns: pool closed")
	// ErrBusy means that Max connections are taken and MaxWaiters wait already.
	ErrBusy = errors.New("conns: too many wait for a connection")
	// ErrBackoff means that dialing failed a moment ago, nothing is open, and
	// nothing was tried this time. It wraps the error of the last dial.
	ErrBackoff = errors.New("conns: not dialing again yet")
	// ErrKeepConn, anywhere in the error of a function given to Do, says that the
	// connection is healthy all the same: the server's "no such key", for example.
	// Join it (errors.Join), or let your error's Is method know it.
	ErrKeepConn = errors.New("conns: the connection is healthy")

	errPanicked = errors.New("conns: the borrower panicked")
)

// Pool lends connections of type C; New makes one and Close ends it. All methods
// may be called at the same time.
//
// Who waits is served in the order of arrival, and who has given up is passed
// over. Idle connections are lent last in, first out, so that those beyond need
// grow old and are closed.
//
// Cost: no clock, system call or allocation in Get and Release while there is an
// idle connection that was used within the last second (BenchmarkGetRelease).
type Pool[C any] struct {
	config   Config[C] // zeros replaced; Resize changes Max and MinIdle
	distrust bool      // check before every loan
	tick     time.Duration
	epoch    time.Time

	mu     sync.Mutex
	ctx    context.Context // of dials and probes; ends with Reset and Close
	cancel context.CancelFunc
	// Every connection that is open, being dialed or being closed is in all; that
	// is its permit. idle has those that may be lent, longest idle first. If
	// somebody waits, idle is empty.
	all     []*slot[C]
	idle    []*slot[C]
	waiting queue[C]
	warming []*warmer
	dialing int
	probing int
	closing int
	worn    int // of idle: doomed, and lent only until a replacement is there

	failures int           // failed dials in a row, one counted per pause
	lastErr  error         // of the last failed dial
	retryAt  time.Duration // end of the pause

	timer   *time.Timer
	due     time.Duration // when the timer fires; zero: it is not set
	ticking bool          // a sweep will come within a tick, or none is needed

	ended   bool          // Close was called
	running int           // goroutines and timers of ours that have not ended
	gone    chan struct{} // closed when ended, all is empty and nothing runs

	count  counters
	waited atomic.Int64 // nanoseconds that callers have waited
	spare  sync.Pool    // of *waiter[C] that nobody refers to
}

// slot is one connection and its place in the pool. It is in the hands of one
// at a time: a dial, the idle list, a borrower, a probe, or a closing.
type slot[C any] struct {
	pool *Pool[C]
	conn C
	// loan is how often it came back; a Lease with another number is stale.
	// Changed under the lock.
	loan    atomic.Uint64
	place   int           // in Pool.all
	doomed  Reason        // not zero: to be closed when it comes back
	expires time.Duration // end of its life; never when it has none
	quiet   time.Duration // first sweep that saw it idle; zero: none has yet
	probed  time.Duration // end of its last probe
}

const never = time.Duration(1<<63 - 1)

// Do borrows a connection for f. When f returns nil, or an error that is
// ErrKeepConn, the connection goes back to the pool; when it returns another
// error or panics, the connection is closed. f must not keep it. A deadline that
// f sets on it should be taken back by f.
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

// Get borrows a connection; Release or Discard of the Lease ends the loan. When
// none is idle it waits for one that comes back or is dialed, whichever is
// first. The error is
//
//   - ctx's cause when ctx ended first: no connection is lent any more then;
//   - that of a Dial, when one failed and this was the first in the queue or
//     nothing is open that could come back;
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

// borrow is Get where more is to be done than taking what is there.
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
	w, err := p.enqueue(ctx) // still under the lock that found nothing (vitess #17662)
	p.mu.Unlock()
	if err != nil {
		return Lease[C]{}, err
	}
	return p.await(ctx, w)
}

// takeIdle takes the i-th connection out of idle; mu is held.
func (p *Pool[C]) takeIdle(i int) *slot[C] {
	s := p.idle[i]
	last := len(p.idle) - 1
	copy(p.idle[i:], p.idle[i+1:])
	p.idle[last] = nil
	p.idle = p.idle[:last]
	if s.doomed != 0 {
		p.worn--
	}
	return s
}

// comeBack decides what becomes of a connection that is in nobody's hands; mu
// is held.
func (p *Pool[C]) comeBack(s *slot[C]) {
	switch {
	case s.doomed != 0:
		p.retire(s, s.doomed, nil)
	case p.handOver(s):
	default:
		p.rest(s)
	}
}

// rest puts s among the idle, where its idle time says; mu is held.
func (p *Pool[C]) rest(s *slot[C]) {
	i := len(p.idle)
	for s.quiet != 0 && i > 0 && (p.idle[i-1].quiet == 0 || p.idle[i-1].quiet > s.quiet) {
		i--
	}
	p.idle = append(p.idle, nil)
	copy(p.idle[i+1:], p.idle[i:])
	p.idle[i] = s
	s.loan.CompareAndSwap(0, 1) // not fresh from the dial for its first borrower
	if p.distrust && s.quiet == 0 {
		s.quiet = p.now()
	}
	if !p.ticking {
		p.ticking = true
		p.arm(p.now() + p.tick)
	}
}

// now is the pool's clock. It is never zero.
func (p *Pool[C]) now() time.Duration { return time.Since(p.epoch) + 1 }
