package framed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/fifo"
)

// ErrStalled is why a Mux ended a connection: a request on it was in flight for longer
// than Mux.StallTime.
var ErrStalled = errors.New("framed: the server does not answer")

// Mux is a client that reconnects: it keeps one or a few connections to one server open
// and shares them among any number of goroutines. Fill the fields, then call Call or Go;
// do not change the fields afterwards. The zero value of every field but Addr is a
// working default. Close ends it.
//
// A call uses the less loaded of two connections chosen at random. A request is never
// executed twice: if its connection ends and it may have been executed, it fails (see
// Client.Call); if it certainly was not (ErrNotSent), it is sent on another connection,
// so a draining server fails no call. A call tries about twenty connections at most.
//
// While there is no connection, calls wait for the next one until their ctx ends, and
// then fail with ErrNotSent and the error of the last dial. So give every ctx a deadline.
// As many goroutines dial as there are connections, whatever the number of callers: the
// first dial starts at once, then with backoff from 50 ms to 5 s, each with up to 50 %
// jitter; a server that refuses or drains may ask for a longer pause. Only when the server answers the credentials with a wire.Result, which is not
// an outage, do calls fail with it at once.
//
// Cost: three goroutines per connection; no allocations for a call whose reply fits its
// dst (TestMuxAllocations).
type Mux struct {
	// Addr is the server's address, host:port or unix:PATH. Required without Dial.
	Addr string
	// Dial opens a connection, TLS for example. It must return when ctx ends: Close waits
	// for it. Zero: the Mux dials Addr.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialTime is the timeout for Credentials, Dial and the reply to the credentials
	// together. Zero: 5 s. Negative: off.
	DialTime time.Duration
	// Credentials returns the content of the Conn packet that is sent first on every new
	// connection; calls wait for its reply. Zero: none is sent.
	Credentials func(ctx context.Context) ([]byte, error)
	// OnConnect is called with the server's reply to the credentials, before calls use
	// the connection: its content, and nil or the wire.Result with which the server
	// refused them. The content is valid until it returns. Connections are opened
	// concurrently, so OnConnect may run several times at once, and DialTime does not
	// bound it. It must not wait for the Mux: a Call in it may wait for this connection,
	// and Close waits for it. Zero: the content is dropped.
	OnConnect func(answer []byte, err error)
	// Conns is the number of connections to keep open. Zero: 1; more helps when thousands
	// of goroutines call at once (docs/protocol.md).
	Conns int
	// Client configures each connection. OnDeliver may be called by all of them at once.
	Client ClientOptions
	// Heartbeat is after how long without a request a connection sends an empty Conn, at
	// the latest after twice that time. Zero: 1 min, for a server with an idle timeout of
	// 3. Negative: off.
	Heartbeat time.Duration
	// StallTime ends a connection on which a request, heartbeats included, has been in
	// flight for that long, up to a quarter longer: all its calls fail with ErrStalled.
	// It must be longer than the slowest legitimate reply. Zero: never; calls then wait
	// for as long as their ctx allows.
	StallTime time.Duration

	live atomic.Pointer[[]*Client] // connections that take calls; copy on write, under mu

	keepers sync.WaitGroup
	ctx     context.Context // of the keepers
	waiting atomic.Int64    // calls that wait for a connection
	calls   sync.Pool       // free list of *asyncCall

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: not started
	closed  bool
	changed chan struct{} // closed to make waiting calls look for a connection again
	refused error         // the server's reply to the credentials, until it accepts them
	open    []*Client     // connections whose counters are not yet in past
	past    MuxStats      // counters of connections that have ended, and LastError

	parked fifo.Queue[*asyncCall] // calls of Go that wait for a connection
}

// MuxStats are the counters and gauges of a Mux.
type MuxStats struct {
	Conns    int // connections that take calls
	InFlight int // requests in flight, including those whose caller gave up
	Waiting  int // calls that wait for the window, the backlog or a connection

	Sent        uint64 // requests given to a connection, including heartbeats and credentials
	Late        uint64 // replies to heartbeats, and to callers that had given up
	Dialled     uint64 // connections opened whose credentials were accepted
	DialsFailed uint64 // other dials
	Lost        uint64 // connections that ended before Close
	Stalled     uint64 // of these, with ErrStalled
	LastError   error  // why the last dial failed or connection was lost; nil: neither has happened
}

// moreTries is how often a request that was certainly not executed is sent again, beyond
// once per connection: by then every server is draining.
const moreTries = 16

// Call is Client.Call on one of the connections; it waits for one if necessary.
func (m *Mux) Call(ctx context.Context, dst, content []byte) ([]byte, error) {
	for tries := max(1, m.Conns) + moreTries; ; tries-- { // each iteration ends with the call, or with a connection that has ended
		c, err := m.choose(ctx)
		if err != nil {
			return dst, err
		}
		reply, err := c.Call(ctx, dst, content)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrNotSent) || tries <= 1 {
			return reply, err
		}
		m.leave(c)
	}
}

// Open waits for the first connection, as a call does. Use it in a program that only
// listens for pushes, or to fail early at start.
func (m *Mux) Open(ctx context.Context) error {
	_, err := m.choose(ctx)
	return err
}

// Close ends all connections at once, as Client.Close does, and returns when
// the goroutines of the Mux have ended. Its error is always nil.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	if m.cancel != nil {
		m.cancel()
		m.wakeWaiters()
	}
	m.mu.Unlock()
	m.keepers.Wait()
	m.resume() // fails what is parked
	return nil
}

// Stats returns the counters and gauges of the Mux.
func (m *Mux) Stats() MuxStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.past
	for _, c := range m.open {
		c.count(&s)
	}
	s.Conns = len(m.takers())
	s.Waiting += int(m.waiting.Load())
	return s
}

// choose returns a connection for a call and waits for one if necessary.
func (m *Mux) choose(ctx context.Context) (*Client, error) {
	if c := m.pick(); c != nil {
		return c, nil
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	for {
		changed, err := m.wait() // before the next pick, so that no change is missed
		if err != nil {
			return nil, err
		}
		if c := m.pick(); c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, m.outage(context.Cause(ctx))
		}
	}
}

// wait returns a channel that is closed when it is time to look again, or why waiting is
// pointless. The first call starts the keepers.
func (m *Mux) wait() (changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.mayWait()
	return m.changed, err
}

// mayWait returns why waiting for a connection is pointless, or nil; mu is held.
func (m *Mux) mayWait() error {
	switch {
	case m.closed:
		return notSent(ErrClosed)
	case m.cancel == nil:
		m.start()
	case m.refused != nil:
		return notSent(m.refused)
	}
	return nil
}

// start starts the keepers; mu is held.
func (m *Mux) start() {
	if m.Addr == "" && m.Dial == nil {
		panic("framed: Mux has neither Addr nor Dial")
	}
	m.Client.check() // here, and not on a keeper's goroutine
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.changed = make(chan struct{})
	for range max(1, m.Conns) {
		m.keepers.Go(m.keep)
	}
}

// outage returns the error of a call that gave up waiting for a connection.
func (m *Mux) outage(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past.LastError == nil {
		return notSent(why)
	}
	return fmt.Errorf("%w: %w; no connection: %w", ErrNotSent, why, m.past.LastError)
}

// pick returns the less loaded of two random connections, or nil if there is none.
func (m *Mux) pick() *Client {
	live := m.takers()
	switch len(live) {
	case 0:
		return nil
	case 1:
		return live[0]
	}
	i, j := rand.IntN(len(live)), rand.IntN(len(live)-1)
	if j >= i {
		j++
	}
	if live[j].load.Load() < live[i].load.Load() {
		return live[j]
	}
	return live[i]
}
