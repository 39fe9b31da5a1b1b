package workers

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// inHand returns how many tasks are in a worker's hand.
func (c *crew[T]) inHand() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 {
		return 0
	}
	s := c.hand.span.Load()
	return int(s&(1<<32-1)) - int(s>>32)
}

// withHand runs 100 tasks in a pool with one free worker. Task 20 calls act while its
// worker has more tasks in its hand; the task after it closes next. busy more workers
// hold a task until release is called. When everything that can run has run, withHand
// calls after.
func withHand(t *testing.T, o Options, busy int, act func(p *Pool, release func(), next <-chan struct{}), after func(p *Pool)) {
	synctest.Test(t, func(t *testing.T) {
		o.Limit = Fixed(busy + 1)
		p := New(o)
		var mu sync.Mutex
		var ran []int
		begin, blocked, next := make(chan struct{}), make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(blocked) })
		ctx := context.Background()
		for range busy {
			p.Go(ctx, func() { <-blocked })
		}
		p.Go(ctx, func() { <-begin })
		for i := range 100 {
			p.Go(ctx, func() {
				mu.Lock()
				ran = append(ran, i)
				mu.Unlock()
				switch i {
				case 20:
					if n := p.crew.inHand(); n == 0 {
						t.Error("the hand is empty")
					}
					act(p, release, next)
				case 21:
					close(next)
				}
			})
		}
		synctest.Wait()
		close(begin)
		synctest.Wait()
		if after != nil {
			after(p)
		}
		release()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
		seen := map[int]bool{}
		for i, n := range ran {
			if seen[n] || busy == 0 && n != i {
				t.Fatalf("tasks ran in the order %v", ran)
			}
			seen[n] = true
		}
		if st := p.Stats(); st.Started != st.Done || st.Started+st.Cancelled != st.Submitted || len(ran)+int(st.Cancelled) != 100 {
			t.Errorf("%d tasks ran: %+v", len(ran), st)
		}
	})
}

func TestHandCounts(t *testing.T) {
	withHand(t, Options{}, 0, func(p *Pool, _ func(), _ <-chan struct{}) {
		if st := p.Stats(); st.Queued != 79 || st.Started != 22 || st.Done != 21 || st.Submitted != 101 {
			t.Errorf("in the 21st of 100 tasks: %+v", st)
		}
	}, nil)
}

// A task that waits for the next one, which its own worker has already taken, is not
// stuck: a free worker runs it.
func TestHandIsNoTrap(t *testing.T) {
	withHand(t, Options{}, 1, func(_ *Pool, release func(), next <-chan struct{}) {
		release()
		<-next
	}, nil)
}

// When the limit shrinks, the hand is recalled.
func TestHandObeysTheLimit(t *testing.T) {
	withHand(t, Options{}, 1, func(p *Pool, _ func(), _ <-chan struct{}) { p.Resize(1) }, func(p *Pool) {
		if st := p.Stats(); st.Started != 23 || st.Workers != 1 {
			t.Errorf("a task started over the limit: %+v", st)
		}
	})
}

// Tasks in a hand count as queued.
func TestHandTakesRoom(t *testing.T) {
	more := 0
	withHand(t, Options{Queue: 101}, 0, func(p *Pool, _ func(), _ <-chan struct{}) {
		for more < 1000 && p.TryGo(func() {}) {
			more++
		}
	}, nil)
	if more != 22 {
		t.Errorf("%d tasks more than 79 fit into a queue of 101", more)
	}
}

func TestHandIsGivenBackByGoexit(t *testing.T) {
	withHand(t, Options{}, 0, func(*Pool, func(), <-chan struct{}) { runtime.Goexit() }, nil)
}

func TestHandIsAbandoned(t *testing.T) {
	withHand(t, Options{}, 0, func(p *Pool, _ func(), _ <-chan struct{}) {
		late := errors.New("late")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(late)
		if err := p.Close(ctx); !errors.Is(err, late) {
			t.Error(err)
		}
		if st := p.Stats(); st.Cancelled != 79 {
			t.Errorf("%+v", st)
		}
	}, nil)
}

// Every task runs once, whoever runs it, while hands are filled and recalled.
func TestHandLosesNothing(t *testing.T) {
	p := New(Options{Limit: Fixed(4)})
	const each = 5000
	var ran [4 * each]atomic.Int32
	ctx, stop := context.Background(), make(chan struct{})
	var producers, watcher sync.WaitGroup
	for k := range 4 {
		producers.Go(func() {
			for i := range each {
				p.Go(ctx, func() { ran[k*each+i].Add(1) })
			}
		})
	}
	watcher.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				p.Resize(1 + n%4)
				if st := p.Stats(); st.Queued > 1024+4 || st.Done > st.Started {
					t.Errorf("%+v", st)
				}
				runtime.Gosched()
			}
		}
	})
	producers.Wait()
	close(stop)
	watcher.Wait()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	for i := range ran {
		if n := ran[i].Load(); n != 1 {
			t.Fatalf("task %d ran %d times", i, n)
		}
	}
}
