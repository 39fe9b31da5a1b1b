package workers_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/workers"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// in runs a test in a bubble with fake time and a pool that must end without a goroutine
// or task left.
func in(t *testing.T, o workers.Options, test func(t *testing.T, p *workers.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := workers.New(o)
		test(t, p)
		closeAll(t, p)
	})
}

func closeAll(t testing.TB, p *workers.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	st := p.Stats()
	if st.Workers+st.Idle+st.Queued+st.Waiting != 0 || st.Started != st.Done {
		t.Errorf("left behind: %+v", st)
	}
}

// gate blocks tasks until it is opened, and counts them.
type gate struct {
	open    chan struct{}
	running atomic.Int32
	most    atomic.Int32
	ran     atomic.Int32
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) pass() {
	n := g.running.Add(1)
	for {
		most := g.most.Load()
		if n <= most || g.most.CompareAndSwap(most, n) {
			break
		}
	}
	<-g.open
	g.running.Add(-1)
	g.ran.Add(1)
}

// fill submits n tasks that block at the gate.
func (g *gate) fill(t *testing.T, p *workers.Pool, n int) {
	t.Helper()
	for range n {
		if err := p.Go(t.Context(), g.pass); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

// later calls f in the background, and returns when the bubble has settled.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

func pending(t *testing.T, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("returned already, with %v", err)
	default:
	}
}

func settled(t *testing.T, c <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		return err
	default:
		t.Fatal("still waiting")
		return nil
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return
}

// names is a list that tasks append to.
type names struct {
	mu  sync.Mutex
	all string
}

func (n *names) add(s string) func() {
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.all += s
	}
}

func (n *names) want(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all != want {
		t.Errorf("ran %q, want %q", n.all, want)
	}
}
