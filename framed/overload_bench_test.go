package framed_test

import (
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// BenchmarkLateOverload offers a handler that answers 50 000 requests per second, late,
// its capacity and then ten times that, from 100 connections, for two seconds each: it
// reports the replies per second, the refusals, and the memory.
func BenchmarkLateOverload(b *testing.B) {
	const capacity, crowd, lasts = 50_000, 100, 2 * time.Second
	for _, e := range engine.All() {
		for _, offered := range []int{1, 10} {
			name := map[int]string{1: "/peak", 10: "/10x"}[offered]
			b.Run(e.Name()+name, func(b *testing.B) {
				for range b.N {
					overload(b, e, capacity, offered*capacity, crowd, lasts)
				}
			})
		}
	}
}

// overload runs one load against one server.
func overload(b *testing.B, e engine.Engine, capacity, offered, crowd int, lasts time.Duration) {
	late := make(chan framed.Reply, 1<<20)
	s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
		late <- c.Later()
		return dst, nil
	})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(ln)
	defer s.Close()
	over := make(chan struct{})
	var all sync.WaitGroup
	paced := func(rate int, do func(n int) bool) {
		all.Go(func() {
			ticks := time.NewTicker(10 * time.Millisecond)
			defer ticks.Stop()
			begun, done := time.Now(), 0
			for {
				select {
				case <-over:
					return
				case <-ticks.C:
				}
				due := int(time.Since(begun).Seconds() * float64(rate))
				if !do(due - done) {
					return
				}
				done = due
			}
		})
	}
	paced(capacity, func(n int) bool {
		for range n {
			select {
			case r := <-late:
				r.Send(nil)
			default:
				return true // requests that were not sent in time are lost
			}
		}
		return true
	})
	var answered, failed atomic.Int64
	frames := make([]byte, 0, 1<<20)
	for range 1 << 10 {
		frames = wire.Standard.Append(frames, wire.Packet{Command: wire.Submit, ID: 1, Content: make([]byte, 50)})
	}
	each := len(frames) >> 10
	var peers []net.Conn
	for range crowd {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		peers = append(peers, nc)
		all.Go(func() {
			buf := make([]byte, 14<<10)
			for {
				n, err := io.ReadAtLeast(nc, buf, 14)
				rest := n % 14
				if rest > 0 && err == nil {
					more, _ := io.ReadFull(nc, buf[n:n+14-rest])
					n += more
				}
				for i := 0; i+14 <= n; i += 14 {
					if buf[i+13] == 0 {
						answered.Add(1)
					} else {
						failed.Add(1)
					}
				}
				if err != nil {
					return
				}
			}
		})
		paced(offered/crowd, func(n int) bool {
			for n > 0 {
				some := min(n, 1<<10)
				if _, err := nc.Write(frames[:some*each]); err != nil {
					return false
				}
				n -= some
			}
			return true
		})
	}
	memory := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	<-time.After(lasts / 2)
	before, from, halfway := answered.Load(), time.Now(), memory()
	<-time.After(lasts)
	rate := float64(answered.Load()-before) / time.Since(from).Seconds()
	st := s.Stats()
	b.ReportMetric(rate, "answers/s")
	b.ReportMetric(float64(failed.Load()+int64(crowd-st.Open)), "errors")
	b.ReportMetric(halfway, "MiB-halfway")
	b.ReportMetric(memory(), "MiB-end")
	b.ReportMetric(float64(st.Owed), "owed")
	b.ReportMetric(float64(st.Paused), "paused")
	close(over)
	for _, nc := range peers {
		nc.Close()
	}
	all.Wait()
}
