// Package client loads a server that speaks hone's frames, HTTP/1.1 or WebSocket, at as little CPU a
// request as the kernel allows, so that a comparison of servers is limited by the
// servers. Linux only.
//
// Each of its loops is a goroutine with an epoll instance and a share of the
// connections to itself. In one turn a loop reads once from every connection
// that has answers, verifies them, and writes the next requests of that connection
// with one call. Requests are made once; a turn only writes their ids, allocates
// nothing and reads the clock once.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is what to ask of a server. The process should have nothing else to do while
// Run lasts: a loop keeps its processor while it waits, for a millisecond at a time.
type Plan struct {
	Addr    string        // the server's, on this machine: 127.0.0.1:7000
	Conns   int           // connections, at most 65,536
	Depth   int           // requests outstanding on each of them, at most 65,536
	Rate    float64       // requests a second over all of them; 0: the next as soon as an answer has come
	Content []byte        // of every request; its answer must have the same
	HTTP    *HTTP         // what to ask instead. Zero: hone's frames
	WS      *WS           // or messages of WebSocket, which carry Content, eight bytes of it an id
	Warmup  time.Duration // how long to ask before the window
	Window  time.Duration // how long to measure
	Loops   int           // 0: as many as GOMAXPROCS
	// Opened and Closed are called when the window opens and closes, to read a
	// server's clocks. They hold up a loop and must return soon. nil: nobody.
	Opened, Closed func()
}

// Result is what was measured.
type Result struct {
	Answered int64 // right answers at any time
	// Requests were answered within the window; at a rate, they were due within it.
	Requests int64
	Rate     float64 // answers a second within the window
	Wrong    int64   // answers at any time that have another id, result or content than expected
	Missing  int64   // requests at any time that have no answer a second after the window
	// P50, P99 and P999 are response times in microseconds: from the moment at which
	// a request was due, or without a rate from when it was sent; nil when there are
	// too few. A request of the window that is missing counts with the time it waited.
	P50, P99, P999 *float64
	// Late is how late the client sent 99 of 100 requests at most, in microseconds,
	// which is part of the response times. nil without a rate.
	Late *float64
	// Spun is how long, within the window, the loops polled and found nothing, since
	// the next request was about to be due. It is CPU time as far as nothing else
	// runs on their processors.
	Spun time.Duration
}

// drainTime is how long the last answers may take.
const drainTime = time.Second

const (
	mostConns = 1 << 16 // an id has 16 bits for the connection
	mostDepth = 1 << 16 // and 16 for the request's slot
	mostRate  = 1e9
)

func (p *Plan) check() error {
	switch {
	case p.Conns < 1 || p.Conns > mostConns:
		return fmt.Errorf("client: %d connections: there must be 1 to %d", p.Conns, mostConns)
	case p.Depth < 1 || p.Depth > mostDepth:
		return fmt.Errorf("client: depth %d: it must be 1 to %d", p.Depth, mostDepth)
	case !(p.Rate >= 0 && p.Rate <= mostRate):
		return fmt.Errorf("client: %v requests a second: it must be 0 to %v", p.Rate, mostRate)
	case p.Warmup < 0 || p.Window <= 0:
		return fmt.Errorf("client: warm-up %v and window %v: the first must not be negative, the second be positive", p.Warmup, p.Window)
	case p.HTTP != nil && len(p.HTTP.Request) == 0:
		return errors.New("client: with HTTP there must be a request")
	case p.WS != nil && (p.HTTP != nil || len(p.Content) < idSize || len(p.Content) > longestWS):
		return fmt.Errorf("client: with WebSocket there is no HTTP, and the content has %d to %d bytes", idSize, longestWS)
	case p.Loops < 0:
		return fmt.Errorf("client: %d loops: it must be 1 or more, or 0 for GOMAXPROCS", p.Loops)
	}
	return nil
}

// Run carries out a plan. It returns an error as soon as the server closes a
// connection or sends something that is not a frame; otherwise it takes the warm-up, the
// window and at most drainTime. When ctx ends, so does Run, soon.
func Run(ctx context.Context, p Plan) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	loops, err := open(ctx, &p)
	defer func() {
		for _, l := range loops {
			l.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	var (
		stop    atomic.Bool
		running sync.WaitGroup
		start   = time.Now()
		errs    = make([]error, len(loops))
	)
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	for i, l := range loops {
		l.start, l.stop = start, &stop
		running.Go(func() {
			if errs[i] = l.run(); errs[i] != nil {
				stop.Store(true)
			}
		})
	}
	running.Wait()
	if err := cmp.Or(ctx.Err(), errors.Join(errs...)); err != nil {
		return nil, err
	}
	return sum(loops), nil
}

// open makes the loops with their connections. Those that it has made it returns
// beside an error, too.
func open(ctx context.Context, p *Plan) (loops []*loop, err error) {
	to, err := parseAddr(p.Addr)
	if err != nil {
		return nil, err
	}
	if p.Loops == 0 {
		p.Loops = runtime.GOMAXPROCS(0)
	}
	p.Loops = min(p.Loops, p.Conns)
	for i := range p.Loops {
		l, err := newLoop(p, i)
		if err != nil {
			return loops, err
		}
		loops = append(loops, l)
	}
	for i := range p.Conns {
		if err := ctx.Err(); err != nil {
			return loops, err
		}
		fd, err := dial(to)
		if err == nil {
			err = loops[i%len(loops)].add(fd, i)
		}
		if err != nil {
			return loops, fmt.Errorf("client: connection %d of %d: %w", i+1, p.Conns, err)
		}
	}
	return loops, nil
}

// sum makes the result of what the loops have counted.
func sum(loops []*loop) *Result {
	r := new(Result)
	var latency, late histogram
	for _, l := range loops {
		r.Rate += float64(l.closedAt.answered-l.openedAt.answered) / time.Duration(l.closedAt.now-l.openedAt.now).Seconds()
		r.Answered += l.answered
		r.Wrong += l.wrong
		r.Missing += l.pending
		r.Spun += time.Duration(l.spun)
		latency.merge(&l.latency)
		late.merge(&l.late)
	}
	r.Requests = int64(latency.total)
	r.P50, r.P99, r.P999 = latency.quantile(1, 2), latency.quantile(99, 100), latency.quantile(999, 1000)
	r.Late = late.quantile(99, 100)
	return r
}
