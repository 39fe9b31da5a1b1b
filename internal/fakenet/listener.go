package fakenet

import (
	"net"
	"sync"

	"github.com/hone-go/hone/internal/sys"
)

// Listener accepts what is dialled in this process. Its fields are set before it is used.
type Listener struct {
	Limit   int                                  // what a connection holds in each direction; 0: Buffer
	Shuffle func(n int, swap func(i, j int))     // the order in which a loop learns what is ready together; nil: as it became ready
	Fault   sys.Fault                            // of the loops' waits and registrations; nil: none
	Faults  func(conn int) sys.Fault             // of each connection's reads and writes, counted from 0; nil: none
	Wrap    func(near *Conn) (accepted net.Conn) // what Accept returns; nil: the connection itself

	dialled chan *Conn
	closed  chan struct{}
	once    sync.Once
	mu      sync.Mutex
	count   int
}

// Listen returns a Listener.
func Listen() *Listener {
	return &Listener{dialled: make(chan *Conn), closed: make(chan struct{})}
}

// Dial connects, and waits until the connection is accepted.
func (l *Listener) Dial() (*Conn, error) {
	limit := l.Limit
	if limit == 0 {
		limit = Buffer
	}
	l.mu.Lock()
	n := l.count
	l.count++
	l.mu.Unlock()
	far, near := pair(limit, 2+n%60_000)
	if l.Faults != nil {
		near.fault = l.Faults(n)
	}
	select {
	case l.dialled <- near:
		return far, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		if l.Wrap != nil {
			return l.Wrap(c), nil
		}
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address(1) }

// NewPoll has the loops of an Events server serve these connections.
func (l *Listener) NewPoll() (*sys.Poll, error) { return sys.NewEndsPoll(l.Fault, l.Shuffle), nil }
