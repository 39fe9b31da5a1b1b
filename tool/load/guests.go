package load

import (
	"context"
	"net"
	"sync"
	"time"
)

// Guests are idle connections that have received one answer each, for measuring a server's memory
// per connection. Nothing reads from them, so pings stay unanswered. The zero value has none.
type Guests struct {
	mu   sync.Mutex
	open []net.Conn
}

// UpTo opens connections to the plan's target and sends the plan's request on each, until n of
// them have received an answer.
func (g *Guests) UpTo(ctx context.Context, p Plan, n int) error {
	p, err := p.complete()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(fromSources(ctx, p.Sources))
	defer cancel(nil)
	r := &run{plan: p, start: time.Now(), dialing: ctx}
	r.rampUp(n-len(g.open), func(int) bool {
		err := g.enter(ctx, r)
		if err != nil {
			cancel(err)
		}
		return err == nil
	})
	return context.Cause(ctx)
}

// enter opens one connection and uses it.
func (g *Guests) enter(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Timeout)
	defer cancel()
	nc, err := r.plan.Target.Dial(ctx)
	if err != nil {
		return err
	}
	if _, wrong := r.use(ctx, nc, r.plan.Target.Caller(), r.plan.Content); wrong != nil {
		nc.Close()
		return wrong
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = append(g.open, nc)
	return nil
}

// Leave resets all connections, which avoids TIME_WAIT.
func (g *Guests) Leave() {
	for _, nc := range g.open {
		if tcp, ok := nc.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		nc.Close()
	}
	g.open = nil
}
