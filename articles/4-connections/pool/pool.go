// Package pool is a connection pool with the article's knobs and its behaviour.
package pool

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The errors of Get.
var (
	ErrClosed    = errors.New("pool: it is closed")
	ErrExhausted = errors.New("pool: no connection is left") // the article: pool 耗尽了
)

// Pool lends connections; the one that was returned last goes first.
type Pool struct {
	// Dial opens a connection.
	Dial func() (net.Conn, error)
	// TestOnBorrow refuses a connection that has been idle since then. Nil: no test.
	TestOnBorrow func(conn net.Conn, since time.Time) error
	// MaxIdle is how many idle connections are kept; MaxActive how many are open, 0 is any number.
	MaxIdle, MaxActive int
	// IdleTimeout and MaxConnLifetime close older connections when they are met. Zero: never.
	IdleTimeout, MaxConnLifetime time.Duration
	// Wait makes Get wait for a connection instead of failing.
	Wait bool

	// Dials counts.
	Dials atomic.Int64

	mu     sync.Mutex
	closed bool
	active int
	idle   []*Conn // the last one was used last
	once   sync.Once
	tokens chan struct{} // with Wait: one for each connection that may be open
}

// Conn is a connection on loan.
type Conn struct {
	net.Conn
	created, since time.Time
}

// Get returns an idle connection or dials one. With Wait it waits as long as it takes: it has no context.
func (p *Pool) Get() (*Conn, error) {
	waits := p.Wait && p.MaxActive > 0
	if waits {
		p.once.Do(func() {
			p.tokens = make(chan struct{}, p.MaxActive)
			for range p.MaxActive {
				p.tokens <- struct{}{}
			}
		})
		<-p.tokens
	}
	conn, err := p.take()
	if err != nil && waits {
		p.tokens <- struct{}{} // the article loses that of a closed pool, whose callers then wait for ever
	}
	return conn, err
}

func (p *Pool) take() (*Conn, error) {
	p.mu.Lock()
	for p.IdleTimeout > 0 && len(p.idle) > 0 && time.Since(p.idle[0].since) > p.IdleTimeout {
		p.drop(0)
	}
	for n := len(p.idle); n > 0; n = len(p.idle) {
		conn := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if (p.TestOnBorrow == nil || p.TestOnBorrow(conn, conn.since) == nil) &&
			(p.MaxConnLifetime == 0 || time.Since(conn.created) < p.MaxConnLifetime) {
			return conn, nil
		}
		conn.Close()
		p.mu.Lock()
		p.active--
	}
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if !p.Wait && p.MaxActive > 0 && p.active >= p.MaxActive {
		return nil, ErrExhausted
	}
	p.active++
	p.mu.Unlock()
	conn, err := p.Dial()
	p.Dials.Add(1)
	p.mu.Lock()
	if err != nil {
		p.active--
		return nil, err
	}
	return &Conn{Conn: conn, created: time.Now()}, nil
}

// Put returns a connection. Beyond MaxIdle it closes the one that has been idle longest, which may be
// needed a moment later.
func (p *Pool) Put(conn *Conn, broken bool) {
	p.mu.Lock()
	if p.closed || broken {
		conn.Close()
		p.active--
	} else {
		conn.since = time.Now()
		if p.idle = append(p.idle, conn); len(p.idle) > p.MaxIdle {
			p.drop(0)
		}
	}
	p.mu.Unlock()
	if p.tokens != nil {
		p.tokens <- struct{}{}
	}
}

// drop closes an idle connection.
func (p *Pool) drop(i int) {
	p.idle[i].Close()
	p.idle = append(p.idle[:i], p.idle[i+1:]...)
	p.active--
}

// Close closes the idle connections, and the others when they come back.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for len(p.idle) > 0 {
		p.drop(0)
	}
}
