package framed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/hone-go/hone/wire"
)

const (
	defaultDialTime  = 5 * time.Second
	defaultHeartbeat = time.Minute

	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second

	// stallSteps is how many looks at a connection make a StallTime.
	stallSteps = 4
)

// keep keeps one connection open until Close.
func (m *Mux) keep() {
	failures := 0
	for m.ctx.Err() == nil {
		c, err := m.connect()
		if err == nil {
			m.join(c)
			m.resume()
			began := time.Now()
			m.tend(c)
			c.Close()
			failures = failuresAfter(failures, time.Since(began), c)
			m.retire(c)
		} else {
			failures++
			if m.failed(err) {
				m.resume() // to fail
			}
		}
		m.rest(pause(failures))
	}
}

// failuresAfter is how many dials in a row count as failed after a connection
// has ended: none when it lived long, one when it was of use. A server that
// accepts and closes is not dialled without pause.
func failuresAfter(failures int, lived time.Duration, c *Client) int {
	switch {
	case lived >= longestPause:
		return 0
	case c.answered():
		return 1
	}
	return failures + 1
}

// pause is how long to wait after so many failures in a row: half of it is
// random, so that the clients of a server that restarts come one by one.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(longestPause, firstPause<<min(failures-1, 16))
	return d/2 + rand.N(d/2)
}

// rest waits for d, or until Close.
func (m *Mux) rest(d time.Duration) {
	if d == 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-m.ctx.Done():
	}
}

// connect opens a connection and has its credentials accepted.
func (m *Mux) connect() (*Client, error) {
	limit := m.DialTime
	if limit <= 0 {
		limit = defaultDialTime
	}
	ctx, cancel := context.WithTimeout(m.ctx, limit)
	defer cancel()
	var credentials []byte
	if m.Credentials != nil {
		var err error
		if credentials, err = m.Credentials(ctx); err != nil {
			return nil, err
		}
	}
	nc, err := m.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := NewClient(nc, m.Client)
	if m.Credentials != nil {
		answer, err := c.Connect(ctx, nil, credentials)
		if m.OnConnect != nil && (err == nil || refuses(err)) {
			m.OnConnect(answer, err)
		}
		if err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (m *Mux) dial(ctx context.Context) (net.Conn, error) {
	if m.Dial != nil {
		return m.Dial(ctx)
	}
	return dial(ctx, m.Addr)
}

// tend sends heartbeats and watches for a stall until the connection ends, or
// the Mux is closed.
func (m *Mux) tend(c *Client) {
	every := m.Heartbeat
	if every == 0 {
		every = defaultHeartbeat
	}
	beats, stopBeats := ticks(every)
	defer stopBeats()
	looks, stopLooks := ticks(m.StallTime / stallSteps)
	defer stopLooks()
	var sent uint64
	var marks [stallSteps]uint64 // the ids issued by the last looks, the oldest first
	for {
		select {
		case <-c.done:
			return
		case <-m.ctx.Done():
			return
		case <-beats:
			sent = c.beat(sent)
		case <-looks:
			oldest, issued := c.oldest()
			if oldest <= marks[0] {
				c.broken(ErrStalled)
				return
			}
			copy(marks[:], marks[1:])
			marks[stallSteps-1] = issued
		}
	}
}

// ticks is a ticker, or nothing for a time that is none.
func ticks(every time.Duration) (<-chan time.Time, func()) {
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// lookAgain wakes all who wait for a connection; mu is held.
func (m *Mux) lookAgain() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// join lets calls have c.
func (m *Mux) join(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past.Dialled++
	m.refused = nil
	m.open = append(m.open, c)
	m.setLive(append(m.liveWithout(c), c))
	m.lookAgain()
}

// leave lets calls have c no more. Whoever finds out first that it has ended
// says so, or calls would choose it again and again until its keeper runs.
func (m *Mux) leave(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLive(m.liveWithout(c))
}

// retire forgets c and keeps its counts.
func (m *Mux) retire(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLive(m.liveWithout(c))
	m.open = slices.DeleteFunc(m.open, func(o *Client) bool { return o == c })
	c.count(&m.past)
	if err := c.Err(); err != ErrClosed { // not by Close
		m.past.Lost++
		m.past.LastError = err
		if errors.Is(err, ErrStalled) {
			m.past.Stalled++
		}
	}
}

// failed counts a dial that failed. When the server has refused the
// credentials, it reports so: calls need not wait.
func (m *Mux) failed(err error) (refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.past.DialsFailed++
	m.past.LastError = err
	m.refused = nil
	if refuses(err) {
		m.refused = err
		m.lookAgain()
	}
	return m.refused != nil
}

// refuses reports whether err is the server's answer to the credentials, and no
// outage.
func refuses(err error) bool {
	return errors.As(err, new(wire.Result)) && !errors.Is(err, ErrClosed)
}

func (m *Mux) setLive(live []*Client) { m.live.Store(&live) }

// liveWithout is a fresh list of the connections that take calls, but c.
func (m *Mux) liveWithout(c *Client) (others []*Client) {
	if live := m.live.Load(); live != nil {
		for _, l := range *live {
			if l != c {
				others = append(others, l)
			}
		}
	}
	return others
}
