package lab

import (
	"errors"
	"net"
	"sync"
	"time"
)

// borrowed is the article's connection pool, in the manner of early redigo: a stack of
// idle connections under a mutex, a count of open ones, and MaxIdle. Faults that do not
// affect the measurement (a nil connection returned with an error, a second Put that
// deadlocks it, no context anywhere) are left out.
type borrowed struct {
	dial            func() (net.Conn, error)
	mostIdle, most  int
	idleTime        time.Duration
	mu              sync.Mutex
	idle            []idleConn // the last one was used most recently
	active          int
	dials, failures int
}

type idleConn struct {
	conn  net.Conn
	since time.Time
}

var errExhausted = errors.New("lab: the article's pool has no connection left")

// get takes an idle connection or dials. A caller that finds expired idle connections
// closes them while the others wait.
func (p *borrowed) get() (net.Conn, error) {
	p.mu.Lock()
	for len(p.idle) > 0 && time.Since(p.idle[0].since) > p.idleTime {
		p.idle[0].conn.Close()
		p.idle = p.idle[1:]
		p.active--
	}
	if n := len(p.idle); n > 0 {
		conn := p.idle[n-1].conn
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return conn, nil
	}
	if p.active >= p.most {
		p.mu.Unlock()
		return nil, errExhausted
	}
	p.active++
	p.dials++
	p.mu.Unlock()
	conn, err := p.dial()
	if err != nil {
		p.mu.Lock()
		p.active--
		p.failures++
		p.mu.Unlock()
	}
	return conn, err
}

// put returns a connection. Beyond MaxIdle it closes the oldest idle one, which may be
// needed a moment later.
func (p *borrowed) put(conn net.Conn, broken bool) {
	p.mu.Lock()
	if !broken {
		p.idle = append(p.idle, idleConn{conn, time.Now()})
		if conn = nil; len(p.idle) > p.mostIdle {
			conn = p.idle[0].conn
			p.idle = p.idle[1:]
		}
	}
	if conn != nil {
		p.active--
	}
	p.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

func (p *borrowed) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.conn.Close()
	}
	p.idle, p.active = nil, 0
}
