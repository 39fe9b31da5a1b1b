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
)

// ErrStalled is why a Mux ended a connection: a request on it had waited for
// its answer longer than Mux.StallTime.
var ErrStalled = errors.New("framed: the server does not answer")

// Mux is a client that outlives its connections: it keeps one or a few open to
// one server and shares them among any number of goroutines. Fill the fields,
// call Call or Go; do not change them afterwards. The zero value of every field but
// Addr is a working default. Close ends it.
//
// A call takes the less loaded of two connections chosen at random. A request
// is never executed twice: one that may have been executed on a connection that
// ended fails (see Client.Call), one that was certainly not (ErrNotSent) is sent on
// another, so that a server that drains fails no call. A call tries some twenty
// connections at most.
//
// While there is no connection, calls wait for the next one until their ctx
// ends, and then fail with ErrNotSent and what the last dial failed of. So give
// every ctx an end. Behind that are as many dialling goroutines as connections,
// whatever the number of callers: the first dial comes at once, then after
// pauses that grow from 50 ms to 5 s, each cut by up to half at random. Only
// when the server answers the credentials with a wire.Result, which is no
// outage, do calls fail with it at once.
//
// Cost: three goroutines a connection; no allocations for a call whose reply
// fits its dst (BenchmarkMux).
type Mux struct {
	// Addr is the server, host:port or unix:PATH. Required without Dial.
	Addr string
	// Dial opens a connection, TLS for example. It must heed ctx: Close waits
	// for it. Zero: Addr is dialled.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialTime bounds Credentials, Dial and the answer to the credentials, all
	// together. Zero: 5 s.
	DialTime time.Duration
	// Credentials returns the content of the Conn packet that is sent first on
	// every new connection; calls wait for its answer. Zero: none is sent.
	Credentials func(ctx context.Context) ([]byte, error)
	// OnConnect is called with the server's answer to the credentials, before calls
	// get the connection: its content, and nil or the wire.Result with which the
	// server refused them. The content is valid until it returns. Connections are
	// opened side by side, so it may be called by several at once, and DialTime does
	// not bound it. It must not wait for the Mux: a Call in it may wait for this
	// connection, and Close waits for it. Zero: the content is dropped.
	OnConnect func(answer []byte, err error)
	// Conns is how many connections are kept open. Zero: 1; more pay where
	// thousands call at once (docs/client.md).
	Conns int
	// Client is what each connection is. OnDeliver may be called by all of
	// them at once.
	Client ClientOptions
	// Heartbeat is how long a connection may send nothing before it sends an
	// empty Conn, at the latest after twice that time. Zero: 1 min, for a server
	// that closes after 3. Negative: none is sent.
	Heartbeat time.Duration
	// StallTime ends a connection on which a request, a heartbeat too, has
	// waited that long for its answer, and up to a quarter longer: all its calls
	// fail with ErrStalled. It must be longer than the slowest honest answer.
	// Zero: never; calls then wait for as long as their ctx.
	StallTime time.Duration

	live atomic.Pointer[[]*Client] // connections that take calls; replaced under mu, never changed

	keepers sync.WaitGroup
	ctx     context.Context // of the keepers
	waiting atomic.Int64    // calls that wait for a connection
	calls   sync.Pool       // of *asyncCall that nobody refers to any more

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: not started
	closed  bool
	changed chan struct{} // closed when those who wait for a connection look again
	refused error         // the server's answer to the credentials, until it accepts them
	open    []*Client     // connections whose counts are not yet in past
	past    MuxStats      // counters of connections that have ended, and LastError

	parked, lastParked *asyncCall // calls of Go that wait for a connection
}

// MuxStats is what a Mux has counted and what it holds.
type MuxStats struct {
	Conns    int // connections that take calls
	InFlight int // requests without an answer, those whose caller gave up included
	Waiting  int // calls that wait for room or for a connection

	Sent        uint64 // requests given to a connection, heartbeats and credentials too
	Late        uint64 // answers to heartbeats, and to callers who had given up
	Dialled     uint64 // connections opened, their credentials accepted
	DialsFailed uint64 // others
	Lost        uint64 // connections that ended before Close
	Stalled     uint64 // of these, with ErrStalled
	LastError   error  // why the last dial failed or connection was lost; nil: neither has happened
}

// moreTries is how often a request that was certainly not executed is sent again,
// beyond once for each connection: by then the servers do nothing but drain.
const moreTries = 16

// Call is Client.Call on one of the connections, opened when there is none.
func (m *Mux) Call(ctx context.Context, dst, content []byte) ([]byte, error) {
	for tries := max(1, m.Conns) + moreTries; ; tries-- { // each ends with the call, or with a connection that has ended
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

// Open waits for the first connection, as a call does. A program that only
// listens for pushes calls it, and one that wants to know at its start.
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
		m.lookAgain()
	}
	m.mu.Unlock()
	m.keepers.Wait()
	m.resume() // to fail
	return nil
}

// Stats reports what the Mux has counted and what it holds.
func (m *Mux) Stats() MuxStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.past
	for _, c := range m.open {
		c.count(&s)
	}
	if live := m.live.Load(); live != nil {
		s.Conns = len(*live)
	}
	s.Waiting += int(m.waiting.Load())
	return s
}

// choose returns a connection to call on, and waits for one if need be.
func (m *Mux) choose(ctx context.Context) (*Client, error) {
	if c := m.pick(); c != nil {
		return c, nil
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	for {
		changed, err := m.wait() // before the next look, so that no change is missed
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

// wait returns what is closed when there is reason to look again, or why there
// is no sense in waiting. The first to wait starts the keepers.
func (m *Mux) wait() (changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.mayWait()
	return m.changed, err
}

// mayWait is why there is no sense in waiting for a connection; mu is held.
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
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.changed = make(chan struct{})
	for range max(1, m.Conns) {
		m.keepers.Go(m.keep)
	}
}

// outage is why a call ends that has waited for a connection.
func (m *Mux) outage(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past.LastError == nil {
		return notSent(why)
	}
	return fmt.Errorf("%w: %w; no connection: %w", ErrNotSent, why, m.past.LastError)
}

// pick takes two connections at random and returns the one with less in flight;
// nil: there is none.
func (m *Mux) pick() *Client {
	var live []*Client
	if p := m.live.Load(); p != nil {
		live = *p
	}
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
