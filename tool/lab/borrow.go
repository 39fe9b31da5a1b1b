package lab

import (
	"errors"
	"net"
	"sync"
	"time"
)

// borrowed is the article's pool of connections, in redigo's old manner: a stack
// of idle ones under a mutex, a count of open ones, and MaxIdle. Its faults that
// have no part in the measurement (a nil connection beside an error, a second Put
// that jams it, no context anywhere) are left out.
type borrowed struct {
	dial            func() (net.Conn, error)
	mostIdle, most  int
	idleTime        time.Duration
	mu              sync.Mutex
	idle            []idleConn // the last one is the freshest
	active          int
	dials, failures int
}

type idleConn struct {
	conn  net.Conn
	since time.Time
}

var errExhausted = errors.New("lab: the article's pool has no connection left")

// get takes an idle connection, or dials. Who finds idle ones that are too old
// closes them, while the others wait.
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

// put gives a connection back. MaxIdle closes the oldest that is idle, which may
// be wanted in a moment.
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
