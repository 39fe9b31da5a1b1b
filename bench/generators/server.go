package generators

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// status is what the server says when it starts, and when it is asked with a line.
type status struct {
	Addr     string `json:"addr"`
	Requests int64  `json:"requests"` // that have come
}

// Serve is the server: over HTTP/1.1 it answers at once, but for the first stall of every
// period, counted from its start, in which it answers nothing. It ends with its input.
func Serve(stdin io.Reader, stdout io.Writer, period, stall time.Duration) error {
	if period <= 0 || stall < 0 || stall >= period {
		return fmt.Errorf("a stall of %v in every %v cannot be", stall, period)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &gate{period: period, stall: stall, epoch: time.Now()}
	g.open.Store(new(make(chan struct{})))
	var requests atomic.Int64
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-*g.open.Load()
		_, _ = io.WriteString(w, "hello")
	})}
	var all sync.WaitGroup
	all.Go(func() { g.run(ctx) })
	all.Go(func() { _ = srv.Serve(ln) }) // ends with Close
	defer all.Wait()
	defer srv.Close()
	defer stop()
	lines, out := bufio.NewScanner(stdin), json.NewEncoder(stdout)
	for more := true; more; more = lines.Scan() {
		if err := out.Encode(status{ln.Addr().String(), requests.Load()}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// gate is closed in stalls: open is a channel to wait for, which is closed when the gate opens.
type gate struct {
	period, stall time.Duration
	epoch         time.Time
	open          atomic.Pointer[chan struct{}]
}

// run opens and closes the gate, until ctx ends; then it stays open.
func (g *gate) run(ctx context.Context) {
	for n := 0; ; n++ {
		begins := g.epoch.Add(time.Duration(n) * g.period)
		opened := *g.open.Load()
		if n > 0 {
			until(ctx, begins)
			opened = make(chan struct{})
			g.open.Store(&opened)
		}
		until(ctx, begins.Add(g.stall))
		close(opened)
		if ctx.Err() != nil {
			return
		}
	}
}

// until waits for a moment to some microseconds: timers of the runtime may be late by a
// millisecond, hence the rest.
func until(ctx context.Context, moment time.Time) {
	timer := time.NewTimer(time.Until(moment) - 2*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	for time.Now().Before(moment) {
		runtime.Gosched()
	}
}
