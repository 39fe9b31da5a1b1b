package generators

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
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

// answer is what every request gets.
const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// Serve is the server: over HTTP/1.1 it answers at once, but for the first stall of every
// period, counted from its start, in which it answers nothing. It ends with its input.
//
// It reads requests without a body, and looks into none: what it needs for an answer is in
// the response times of those behind it, hundreds at the end of a stall.
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
	s := &server{gate: g, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() { g.run(ctx) })
	all.Go(func() { s.accept(ln) })
	defer all.Wait()
	defer s.close(ln)
	defer stop()
	lines, out := bufio.NewScanner(stdin), json.NewEncoder(stdout)
	for more := true; more; more = lines.Scan() {
		if err := out.Encode(status{ln.Addr().String(), s.requests.Load()}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// server answers on connections that stay open.
type server struct {
	gate     *gate
	requests atomic.Int64

	mu    sync.Mutex
	open  map[net.Conn]bool // nil: no more are let in
	conns sync.WaitGroup
}

// accept serves until the listener is closed, and returns when all connections are.
func (s *server) accept(ln net.Listener) {
	defer s.conns.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.open == nil {
			nc.Close()
		} else {
			s.open[nc] = true
			s.conns.Go(func() { s.serve(nc) })
		}
		s.mu.Unlock()
	}
}

func (s *server) serve(nc net.Conn) {
	defer func() {
		nc.Close()
		s.mu.Lock()
		delete(s.open, nc)
		s.mu.Unlock()
	}()
	in := bufio.NewReader(nc)
	for {
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(bytes.TrimSpace(line)) == 0 {
				break
			}
		}
		s.requests.Add(1)
		<-*s.gate.open.Load()
		if _, err := io.WriteString(nc, answer); err != nil {
			return
		}
	}
}

// close ends the listener and all connections.
func (s *server) close(ln net.Listener) {
	ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.open {
		nc.Close()
	}
	s.open = nil
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
