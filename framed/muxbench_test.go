//go:build linux

package framed_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// callFor runs callers for a while and returns their calls per second.
func callFor(b *testing.B, callers int, window time.Duration, call func(ctx context.Context, request, room []byte) error) float64 {
	var calling sync.WaitGroup
	counts := make([]int64, callers)
	start := time.Now()
	for i := range callers {
		calling.Go(func() {
			ctx, cancel := context.WithCancel(b.Context()) // cancellable, as in real calls
			defer cancel()
			request, room := make([]byte, 100), make([]byte, 0, 100)
			n := int64(0)
			for n == 0 || n%8 != 0 || time.Since(start) < window {
				if err := call(ctx, request, room); err != nil {
					b.Error(err)
					return
				}
				n++
			}
			counts[i] = n
		})
	}
	calling.Wait()
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(start).Seconds()
}

// pooled is a pool of connections for one request at a time.
type pooled chan *pooledConn

type pooledConn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func newPooled(b *testing.B, addr string, conns int) pooled {
	p := make(pooled, conns)
	for range conns {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { nc.Close() })
		p <- &pooledConn{nc, bufio.NewReaderSize(nc, 512), nil}
	}
	return p
}

func (p pooled) call(_ context.Context, request, room []byte) error {
	c := <-p
	defer func() { p <- c }()
	c.out = wire.Standard.Append(c.out[:0], wire.Packet{Command: wire.Submit, ID: 1, Content: request})
	if _, err := c.Write(c.out); err != nil {
		return err
	}
	head, err := c.in.Peek(wire.HeaderSize)
	if err != nil {
		return err
	}
	_, need, err := wire.Frame(head, 1<<20)
	if err != nil {
		return err
	}
	frame := room[:wire.HeaderSize+need]
	_, err = io.ReadFull(c.in, frame)
	return err
}

// BenchmarkMux has a Mux and its server in another process.
func BenchmarkMux(b *testing.B) {
	_, ready := startServer(b)
	for _, of := range []struct{ callers, conns int }{{1, 1}, {8, 1}, {64, 1}, {64, 2}, {2000, 1}, {2000, 2}, {2000, 4}} {
		b.Run(fmt.Sprintf("callers=%d/conns=%d", of.callers, of.conns), func(b *testing.B) {
			m := newMux(b, &framed.Mux{Addr: ready.Addr, Conns: of.conns})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			if err := m.Open(ctx); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var calling sync.WaitGroup
			for i := range of.callers {
				calls := b.N / of.callers
				if i < b.N%of.callers {
					calls++
				}
				calling.Go(func() {
					ctx, cancel := context.WithCancel(ctx) // one per caller
					defer cancel()
					request, room := make([]byte, 100), make([]byte, 0, 100)
					for range calls {
						if _, err := m.Call(ctx, room, request); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			calling.Wait()
		})
	}
}

// BenchmarkMuxBesidePool compares one connection with 2 000 that 2 000 callers use for
// one request at a time, on one server in another process. A round is 200 ms of each in
// turn; -benchtime 10x makes ten. It reports medians.
func BenchmarkMuxBesidePool(b *testing.B) {
	const conns, window = 2000, 200 * time.Millisecond
	if err := raiseDescriptorLimit(); err != nil {
		b.Fatal(err)
	}
	_, ready := startServer(b, "HONE_TEST_LIMITS=4000")
	pool := newPooled(b, ready.Addr, conns)
	m := newMux(b, &framed.Mux{Addr: ready.Addr})
	multiplexed := func(ctx context.Context, request, room []byte) error {
		_, err := m.Call(ctx, room, request)
		return err
	}
	callFor(b, conns, window, pool.call)
	callFor(b, conns, window, multiplexed)
	var few, many, pools, byFew, byMany []float64
	for b.Loop() {
		p := callFor(b, conns, window, pool.call)
		f := callFor(b, 64, window, multiplexed)
		n := callFor(b, conns, window, multiplexed)
		pools, few, many = append(pools, p), append(few, f), append(many, n)
		byFew, byMany = append(byFew, f/p), append(byMany, n/p)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(pools), "pool-req/s")
	b.ReportMetric(median(few), "mux64-req/s")
	b.ReportMetric(median(many), "mux2000-req/s")
	b.ReportMetric(median(byFew), "mux64/pool")
	b.ReportMetric(median(byMany), "mux2000/pool")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// asker keeps one request in flight with Mux.Go, for a number of requests.
type asker struct {
	m              *framed.Mux
	ctx            context.Context
	request, reply []byte
	left           *atomic.Int64
	asking         *sync.WaitGroup
	fault          func(...any)
	done           func(reply []byte, err error) // allocated once, so that a call allocates nothing
}

func (a *asker) start() {
	a.done = func(reply []byte, err error) {
		if err != nil {
			a.fault(err)
		}
		a.reply = reply[:0]
		a.next()
	}
	a.asking.Add(1)
	a.next()
}

func (a *asker) next() {
	if a.left.Add(-1) < 0 {
		a.asking.Done()
		return
	}
	if err := a.m.Go(a.ctx, a.reply, a.request, a.done); err != nil {
		a.fault(err)
		a.asking.Done()
	}
}

// BenchmarkMuxGo is BenchmarkMux without the callers' goroutines.
func BenchmarkMuxGo(b *testing.B) {
	_, ready := startServer(b)
	for _, of := range []struct{ calls, conns int }{{1, 1}, {8, 1}, {64, 1}, {1000, 1}, {2000, 2}} {
		b.Run(fmt.Sprintf("calls=%d/conns=%d", of.calls, of.conns), func(b *testing.B) {
			m := newMux(b, &framed.Mux{Addr: ready.Addr, Conns: of.conns})
			if err := m.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var asking sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range of.calls {
				(&asker{m: m, ctx: b.Context(), request: make([]byte, 100), reply: make([]byte, 0, 100), left: &left, asking: &asking, fault: b.Error}).start()
			}
			asking.Wait()
		})
	}
}
