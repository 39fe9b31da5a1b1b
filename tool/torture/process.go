package torture

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/trial"
)

// Process is the server's process, with what it has started. Its methods may be called
// concurrently.
type Process struct {
	pid    int          // 0: owned
	server trial.Server // how it is started, if it is owned
	target codec.Target

	child atomic.Pointer[child.Child] // nil: not owned, or not started
}

// Used returns what the process uses; false when that is not known: it has ended, or this system
// does not tell.
func (p *Process) Used() (child.Use, bool) {
	if p == nil {
		return child.Use{}, false
	}
	if c := p.child.Load(); c != nil {
		u, err := c.Used()
		return u, err == nil
	}
	u, err := child.UsedBy(p.pid)
	return u, err == nil
}

// owned reports whether the process is this program's child.
func (p *Process) owned() bool { return p != nil && p.pid == 0 }

// start starts an owned server, after the one that runs, if any, has ended. It lives until stop, also
// when ctx ends before.
func (p *Process) start(ctx context.Context) error {
	p.stop()
	c, err := p.server.Start(context.WithoutCancel(ctx), p.target)
	if err != nil {
		return err
	}
	p.child.Store(c)
	return nil
}

// stop ends an owned server.
func (p *Process) stop() {
	if c := p.child.Load(); c != nil {
		c.Stop()
	}
}

// ended reports whether an owned server has ended, and what it said last.
func (p *Process) ended() (last string, ended bool) {
	if !p.owned() {
		return "", false
	}
	c := p.child.Load()
	if c == nil {
		return "", true
	}
	select {
	case <-c.Ended():
		return c.Said(), true
	default:
		return "", false
	}
}

// CPU measures which share of one CPU the process uses over a time; negative: not known.
func (p *Process) CPU(ctx context.Context, over time.Duration) float64 {
	before, ok := p.Used()
	began := time.Now()
	if !ok || !pause(ctx, over) {
		return -1
	}
	after, ok := p.Used()
	if !ok {
		return -1
	}
	return max(0, (after.CPU-before.CPU).Seconds()/time.Since(began).Seconds())
}

// busy reports whether the process uses that share of a CPU or more at each look for so long, as it may still work
// off what came, or collect garbage, and the least that it used; negative: not known.
func (p *Process) busy(ctx context.Context, limit float64, over time.Duration) (least float64, yes bool) {
	least = 1e9
	for looked := time.Duration(0); looked < over; looked += idleFor {
		share := p.CPU(ctx, idleFor)
		if least = min(least, share); share < limit {
			return least, false
		}
	}
	return least, true
}

// Used is how much a scenario made the process use.
type Used struct {
	// Grown is the highest that its memory grew above what it was before, in bytes.
	Grown int64 `json:"grown"`
	// CPU is its CPU time.
	CPU float64 `json:"cpu_seconds"`
	// Left is how many more descriptors it has open once all have left.
	Left int `json:"descriptors_left"`
	// Idle is the share of one CPU that it uses once all have left and nobody asks.
	Idle float64 `json:"idle_cpu"`
}

const watchStep = 50 * time.Millisecond

var errNotWatched = errors.New("torture: the process cannot be watched")

// follow begins to watch the process, and returns what ends that: it waits a while for the descriptors of
// those who have left to be closed, and returns nil when the process is not known.
func (p *Process) follow(ctx context.Context, limits Limits) (end func() *Used) {
	before, ok := p.Used()
	if !ok {
		return func() *Used { return nil }
	}
	fds := before.Descriptors()
	used := &Used{Left: -1, Idle: -1}
	look := func() {
		if u, ok := p.Used(); ok {
			used.Grown, used.CPU = max(used.Grown, u.Resident-before.Resident), max(used.CPU, (u.CPU-before.CPU).Seconds())
		}
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for pause(watching, watchStep) {
			look()
		}
	})
	return func() *Used {
		stop()
		watcher.Wait()
		look()
		for until := time.Now().Add(limits.Gone); ; {
			u, ok := p.Used()
			if !ok {
				return used
			}
			if used.Left = max(0, u.Descriptors()-fds); used.Left <= fewLeft || time.Now().After(until) || !pause(ctx, watchStep) {
				return used
			}
		}
	}
}

const (
	fewLeft = 3 // descriptors more than before: newcomers come and go
	idleFor = 250 * time.Millisecond
	spins   = 0.1 // of a CPU more than before the attacks: it may share it with many others
)

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
