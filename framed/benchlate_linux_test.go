package framed_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hone-go/hone/framed"
)

// lateWays are ways to acknowledge: inline; late within the visit; late from another
// goroutine, one reply at a time; in batches from a goroutine that takes all queued
// replies; and in batches to which handlers add directly.
var lateWays = []string{"inline", "visit", "goroutine", "batch", "batch-in-place"}

// lateHandler acknowledges in one of the lateWays. Call stop when the server has closed.
func lateHandler(way string) (h framed.HandlerFunc, stop func()) {
	nothing := func() {}
	switch way {
	case "inline":
		return func(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }, nothing
	case "visit":
		return func(c framed.Call, dst, _ []byte) ([]byte, error) { return dst, c.Later().Send(nil) }, nothing
	case "goroutine":
		owed, stopped := make(chan framed.Reply, 8192), make(chan struct{})
		go func() {
			defer close(stopped)
			for r := range owed {
				r.Send(nil) // ignores a connection that has ended
			}
		}()
		return func(c framed.Call, dst, _ []byte) ([]byte, error) {
			owed <- c.Later()
			return dst, nil
		}, func() { close(owed); <-stopped }
	case "batch":
		var mu sync.Mutex
		var waiting, taken []framed.Reply
		gathered, stopped := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(stopped)
			var batch framed.Batch
			for range gathered {
				mu.Lock()
				waiting, taken = taken[:0], waiting
				mu.Unlock()
				for i := range taken {
					batch.Add(taken[i], nil)
				}
				batch.Send()
			}
		}()
		return func(c framed.Call, dst, _ []byte) ([]byte, error) {
			r := c.Later()
			mu.Lock()
			waiting = append(waiting, r)
			first := len(waiting) == 1
			mu.Unlock()
			if first {
				gathered <- struct{}{}
			}
			return dst, nil
		}, func() { close(gathered); <-stopped }
	case "batch-in-place":
		var mu sync.Mutex
		waiting, taken := new(framed.Batch), new(framed.Batch)
		gathered, stopped := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(stopped)
			for range gathered {
				mu.Lock()
				waiting, taken = taken, waiting
				mu.Unlock()
				taken.Send()
			}
		}()
		return func(c framed.Call, dst, _ []byte) ([]byte, error) {
			r := c.Later()
			mu.Lock()
			waiting.Add(r, nil)
			first := waiting.Len() == 1
			mu.Unlock()
			if first {
				gathered <- struct{}{}
			}
			return dst, nil
		}, func() { close(gathered); <-stopped }
	}
	return nil, nil
}

// BenchmarkLate compares the ways to send late replies with inline ones, by the CPU time
// of the server's process, with 100 connections and 64 requests in flight on each. The
// ways are interleaved, as the engines are in BenchmarkEngines, with the same settings.
//
//	HONE_BENCH_ENGINES=events go test -run '^$' -bench Late -benchtime 1x ./framed
func BenchmarkLate(b *testing.B) {
	set := settings(b)
	order := rand.New(rand.NewPCG(set.seed, 0))
	for _, name := range set.names {
		b.Run(name, func(b *testing.B) {
			samples := map[string][]sample{}
			for range set.rounds {
				for _, i := range order.Perm(len(lateWays)) {
					way := lateWays[i]
					s, _ := measure(b, set, scenario{name: way, plan: loadPlan{Conns: 100, Depth: 64}, pinned: true, late: way}, name)
					samples[way] = append(samples[way], s)
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, way := range lateWays {
				b.ReportMetric(spreadOf(samples[way], func(s sample) float64 { return s.cpu }).median, way+"-cpu-µs/req")
				if way != "inline" {
					b.ReportMetric(ratioTo(samples["inline"], samples[way]).median, way+"/inline")
				}
			}
		})
	}
}

// Every way must answer every request; otherwise its figure is meaningless.
func TestLateWaysAnswerAll(t *testing.T) {
	for _, way := range lateWays {
		t.Run(way, func(t *testing.T) {
			server, ready := startServer(t, "HONE_TEST_ENGINE=events", "HONE_TEST_LATE="+way)
			defer server.end(t)
			r := startLoad(t, loadPlan{Network: "tcp", Addr: ready.Addr, Conns: 7, Depth: 3, WindowMS: 30, Size: 16, CPU: -1, Check: true}).report(t)
			if r.Wrong != 0 || r.Unanswered != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}
