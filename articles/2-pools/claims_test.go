package pools_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/articles/claim"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/probe"
)

// The article's data.
const written = 1000 // bytes

func BenchmarkNoPool(b *testing.B) {
	data := make([]byte, written)
	b.ReportAllocs()
	for b.Loop() {
		var buf bytes.Buffer
		buf.Write(data)
	}
}

func BenchmarkWithPool(b *testing.B) {
	data := make([]byte, written)
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	b.ReportAllocs()
	for b.Loop() {
		buf := buffers.Get().(*bytes.Buffer)
		buf.Write(data)
		buf.Reset()
		buffers.Put(buf)
	}
}

// BenchmarkHone does the same with package pool, whose buffers panic when they are used after Release.
func BenchmarkHone(b *testing.B) {
	data := make([]byte, written)
	var buffers pool.Buffers
	b.ReportAllocs()
	for b.Loop() {
		buf := buffers.Get(written)
		copy(buf.Bytes(), data)
		buf.Release()
	}
}

func TestClaimObjects(t *testing.T) {
	claim.Slow(t)
	claim.Gain(t, claim.Timed(t, "Buffer", BenchmarkNoPool, BenchmarkWithPool), "", 232.2/32.81, "What is saved is memory: 1 KiB is allocated, cleared and collected each time.")
	claim.Gain(t, claim.Timed(t, "Hone", BenchmarkNoPool, BenchmarkHone), "", 0, "Ours: cheaper than a new buffer, though it counts every loan.")
}

func TestClaimWorkers(t *testing.T) {
	claim.Slow(t)
	plan := load.Plan{Conns: 1}
	long := plan
	long.For = 8 * time.Second // for a hundred requests
	claim.Gain(t, claim.Servers(t, "each", "pool", claim.Web("/"), long), "p50", 41_407_678.0/5_608_174, "10,000 tasks of 100 calls.")
	claim.Gain(t, claim.Servers(t, "each", "pool", claim.Web("/?calls=1"), plan), "p50", 41_407_678.0/5_608_174,
		"Tasks of one call. The article says that goroutines are expensive to create and schedule; then the gain would be as large here.")
	claim.Gain(t, claim.Servers(t, "pool", "hone", claim.Web("/"), plan), "p50", 0, "Ours: less time than the article's pool.")
}

func TestClaimStacks(t *testing.T) {
	claim.Slow(t)
	s := claim.Start(t, "each")
	plan := load.Plan{Target: codec.HTTP{URL: "http://" + s.Addr + "/"}}
	stacks := s.Shares(t, probe.CPU, true, plan, "runtime.newstack")
	created := s.Shares(t, probe.CPU, true, plan, "runtime.newproc", "runtime.schedule")
	claim.Log(t, "a goroutine each: creating and scheduling, of the CPU", created, "%", 0, claim.If(created > 5), "The part that the article sees in its flame graph.")
	claim.Log(t, "a goroutine each: growing stacks, of the CPU", stacks, "%", 0, claim.If(stacks > created), "The main cost, which the article does not name: each goroutine begins with 2 KiB.")
}
