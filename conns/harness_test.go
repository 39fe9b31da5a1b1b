package conns_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/conns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close() // opens the runtime's own descriptors
	}
	goleak.VerifyTestMain(m)
}

var errDown = errors.New("the server is down")

// server is what the pools of these tests dial: it counts, and follows instructions.
type server struct {
	mu      sync.Mutex
	onDial  func(ctx context.Context) error // nil: succeed at once
	onClose func()
	dials   int
	pending int     // dials that have not ended
	open    []*fake // those not closed yet
	most    int     // peak of open and dialing together
	closed  int
}

// fake is one connection.
type fake struct {
	id   int
	born time.Time
}

func (s *server) dial(ctx context.Context) (*fake, error) {
	s.mu.Lock()
	s.dials++
	id := s.dials
	s.pending++
	onDial := s.onDial
	s.most = max(s.most, s.pending+len(s.open))
	s.mu.Unlock()
	var c *fake
	defer func() { // a panic too
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending--
		if c != nil {
			s.open = append(s.open, c)
		}
	}()
	if onDial != nil {
		if err := onDial(ctx); err != nil {
			return nil, err
		}
	}
	c = &fake{id, time.Now()}
	return c, nil
}

func (s *server) close(c *fake) {
	s.mu.Lock()
	onClose := s.onClose
	s.mu.Unlock()
	if onClose != nil {
		onClose()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.open {
		if o == c {
			s.open = append(s.open[:i], s.open[i+1:]...)
			s.closed++
			return
		}
	}
	panic("a connection was closed twice")
}

// dialing sets the behaviour of the next dials.
func (s *server) dialing(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDial = f
}

// closing sets the behaviour of the next closes.
func (s *server) closing(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onClose = f
}

// counts returns the dials started and the connections closed so far.
func (s *server) counts() (dials, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials, s.closed
}

func (s *server) wantCounts(t *testing.T, dials, closed int) {
	t.Helper()
	synctest.Wait()
	if d, c := s.counts(); d != dials || c != closed {
		t.Errorf("%d dials and %d closes, want %d and %d", d, c, dials, closed)
	}
}

// config is the default of these tests: connections last for ever, without checks.
func (s *server) config(most int) conns.Config[*fake] {
	return conns.Config[*fake]{
		Dial: s.dial, Close: s.close, Max: most,
		MaxIdleTime: -1, MaxLifetime: -1, DialTimeout: -1,
	}
}

// in runs a test in a bubble with fake time and a pool that must end without a goroutine
// or connection left.
func in(t *testing.T, s *server, c conns.Config[*fake], test func(t *testing.T, p *conns.Pool[*fake])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := conns.New(c)
		test(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
		st := p.Stats()
		if st.Open+st.Dialing+st.Closing+st.Waiters != 0 || len(s.open) != 0 {
			t.Errorf("left behind: %+v, %d connections", st, len(s.open))
		}
	})
}

// get borrows a connection and fails the test if there is none.
func get(t *testing.T, p *conns.Pool[*fake]) conns.Lease[*fake] {
	t.Helper()
	l, err := p.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// result is the result of a Get in the background.
type result struct {
	lease conns.Lease[*fake]
	err   error
}

// later calls Get on a new goroutine, and returns when that blocks.
func later(ctx context.Context, p *conns.Pool[*fake]) <-chan result {
	done := make(chan result, 1)
	go func() {
		l, err := p.Get(ctx)
		done <- result{l, err}
	}()
	synctest.Wait()
	return done
}

// pending fails the test if a Get in the background has returned.
func pending(t *testing.T, r <-chan result) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-r:
		t.Fatalf("Get returned already, error %v", got.err)
	default:
	}
}

// settled returns the result of a Get in the background.
func settled(t *testing.T, r <-chan result) result {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-r:
		return got
	default:
		t.Fatal("Get is still waiting")
		panic("not reached")
	}
}

// pass advances fake time, and lets what is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// panics reports whether f panics.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return
}
