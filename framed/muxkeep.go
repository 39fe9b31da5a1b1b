package framed

import (
	"cmp"
	"context"
	"errors"
	"math"
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

	// stallSteps is how often a connection is checked per StallTime.
	stallSteps = 4
)

// keep keeps one connection open until Close.
func (m *Mux) keep() {
	failures := 0
	for m.ctx.Err() == nil {
		c, err := m.connect()
		back := time.Duration(0)
		if err == nil {
			m.join(c)
			m.resume()
			began := time.Now()
			m.tend(c)
			c.Close()
			back = c.back
			failures = failuresAfter(failures, time.Since(began), c)
			m.retire(c)
		} else {
			failures++
			if m.failed(err) {
				m.resume() // fails what is parked
			}
			if c != nil {
				back = c.back
			}
		}
		m.rest(max(pause(failures), back))
	}
}

// failuresAfter returns how many consecutive dials count as failed after a connection has
// ended: none when it lived long, one when it answered a request. So a server that
// accepts and closes is dialled with backoff.
func failuresAfter(failures int, lived time.Duration, c *Client) int {
	switch {
	case lived >= longestPause:
		return 0
	case c.answered():
		return 1
	}
	return failures + 1
}

// pause returns the backoff after that many consecutive failures. Half of it is jitter,
// so that the clients of a restarting server do not reconnect at once.
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

// connect opens a connection and sends its credentials. With an error, the client is closed, or nil.
func (m *Mux) connect() (*Client, error) {
	limit := cmp.Or(m.DialTime, defaultDialTime)
	if limit < 0 {
		limit = math.MaxInt64
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
			return c, err
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

// tend sends heartbeats and detects stalls until the connection ends or the Mux is
// closed.
func (m *Mux) tend(c *Client) {
	beats, stopBeats := ticks(cmp.Or(m.Heartbeat, defaultHeartbeat))
	defer stopBeats()
	looks, stopLooks := ticks(m.StallTime / stallSteps)
	defer stopLooks()
	var sent uint64
	var marks [stallSteps]uint64 // ids issued at the last checks, the oldest first
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

// ticks returns a ticker's channel, or nil when every is not positive.
func ticks(every time.Duration) (<-chan time.Time, func()) {
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// wakeWaiters wakes all calls that wait for a connection; mu is held.
func (m *Mux) wakeWaiters() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// join makes c available to calls.
func (m *Mux) join(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past.Dialled++
	m.refused = nil
	m.open = append(m.open, c)
	m.setLive(append(m.liveWithout(c), c))
	m.wakeWaiters()
}

// leave makes c unavailable to calls. Whoever detects first that it has ended calls
// leave; otherwise calls would choose c until its keeper runs.
func (m *Mux) leave(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLive(m.liveWithout(c))
}

// retire forgets c and keeps its counters.
func (m *Mux) retire(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLive(m.liveWithout(c))
	m.open = slices.DeleteFunc(m.open, func(o *Client) bool { return o == c })
	c.count(&m.past)
	if err := c.Err(); err != ErrClosed { // not ended by Close
		m.past.Lost++
		m.past.LastError = err
		if errors.Is(err, ErrStalled) {
			m.past.Stalled++
		}
	}
}

// failed counts a failed dial. It reports whether the server refused the credentials,
// because calls then need not wait.
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
		m.wakeWaiters()
	}
	return m.refused != nil
}

// refuses reports whether err is the server's reply to the credentials rather than an
// outage.
func refuses(err error) bool {
	return errors.As(err, new(wire.Result)) && !errors.Is(err, ErrClosed)
}

func (m *Mux) setLive(live []*Client) { m.live.Store(&live) }

// takers returns the connections that take calls.
func (m *Mux) takers() []*Client {
	if live := m.live.Load(); live != nil {
		return *live
	}
	return nil
}

// liveWithout returns a new list of them without c.
func (m *Mux) liveWithout(c *Client) []*Client {
	return slices.DeleteFunc(slices.Clone(m.takers()), func(l *Client) bool { return l == c })
}
