package pool_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hone-go/hone/pool"
)

// sink makes allocations of the benchmarks escape to the heap.
type sink struct{ bytes []byte }

// BenchmarkBuffers gets one buffer, touches it and releases it.
func BenchmarkBuffers(b *testing.B) {
	for _, n := range []int{256, 1 << 10, 4 << 10, 32 << 10, 33 << 10, 64 << 10} {
		size := fmt.Sprintf("%dB", n)
		if n >= 1<<10 {
			size = fmt.Sprintf("%dKiB", n>>10)
		}
		b.Run("Buffers/"+size, func(b *testing.B) {
			var p pool.Buffers
			b.ReportAllocs()
			for b.Loop() {
				buf := p.Get(n)
				buf.Bytes()[0] = 1
				buf.Release()
			}
		})
		b.Run("sync.Pool/"+size, func(b *testing.B) {
			p := sync.Pool{New: func() any { s := make([]byte, n); return &s }}
			b.ReportAllocs()
			for b.Loop() {
				s := p.Get().(*[]byte)
				(*s)[0] = 1
				p.Put(s)
			}
		})
		b.Run("make/"+size, func(b *testing.B) {
			var to sink
			b.ReportAllocs()
			for b.Loop() {
				to.bytes = make([]byte, n)
				to.bytes[0] = 1
			}
		})
	}
}

// BenchmarkBuffersParallel detects contention between processors; there should be none.
func BenchmarkBuffersParallel(b *testing.B) {
	b.Run("Buffers", func(b *testing.B) {
		var p pool.Buffers
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Get(4 << 10).Release()
			}
		})
	})
	b.Run("sync.Pool", func(b *testing.B) {
		p := sync.Pool{New: func() any { s := make([]byte, 4<<10); return &s }}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Put(p.Get().(*[]byte))
			}
		})
	})
}

// BenchmarkWrite writes content of unknown size, 100 bytes at a time.
func BenchmarkWrite(b *testing.B) {
	part := make([]byte, 100)
	for _, n := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			var p pool.Buffers
			b.ReportAllocs()
			for b.Loop() {
				buf := p.Get(0)
				for wrote := 0; wrote < n; wrote += len(part) {
					buf.Write(part)
				}
				buf.Release()
			}
		})
	}
}

type (
	bytes8   struct{ n [8]byte }
	bytes64  struct{ n [64]byte }
	bytes512 struct{ n [512]byte }
	bytes4k  struct{ n [4 << 10]byte }
)

// BenchmarkObjects compares the ways to get an object.
func BenchmarkObjects(b *testing.B) {
	b.Run("8B", func(b *testing.B) { benchObjects(b, func(x *bytes8) { x.n[0]++ }) })
	b.Run("64B", func(b *testing.B) { benchObjects(b, func(x *bytes64) { x.n[0]++ }) })
	b.Run("512B", func(b *testing.B) { benchObjects(b, func(x *bytes512) { x.n[0]++ }) })
	b.Run("4KiB", func(b *testing.B) { benchObjects(b, func(x *bytes4k) { x.n[0]++ }) })
}

func benchObjects[T any](b *testing.B, use func(*T)) {
	b.Run("field", func(b *testing.B) {
		owner := new(struct{ x T })
		b.ReportAllocs()
		for b.Loop() {
			use(&owner.x)
		}
	})
	b.Run("Local", func(b *testing.B) {
		var p pool.Local[T]
		b.ReportAllocs()
		for b.Loop() {
			x := p.Get()
			use(x)
			p.Put(x)
		}
	})
	b.Run("Objects", func(b *testing.B) {
		var p pool.Objects[T]
		b.ReportAllocs()
		for b.Loop() {
			x := p.Get()
			use(x)
			p.Put(x)
		}
	})
	b.Run("new", func(b *testing.B) {
		var to struct{ x *T }
		b.ReportAllocs()
		for b.Loop() {
			to.x = new(T)
			use(to.x)
		}
	})
}
