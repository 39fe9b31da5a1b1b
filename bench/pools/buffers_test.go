package pools

import (
	"fmt"
	"sync"
	"testing"

	"github.com/valyala/bytebufferpool"

	"github.com/hone-go/hone/pool"
)

// BenchmarkBuffersOf compares what it costs to borrow a buffer of a size and to
// give it back, with one byte written.
func BenchmarkBuffersOf(b *testing.B) {
	for _, size := range []int{4 << 10, 32 << 10, 33 << 10} {
		name := fmt.Sprintf("%dKiB", size>>10)
		b.Run(name+"/hone", func(b *testing.B) {
			var buffers pool.Buffers
			b.ReportAllocs()
			for b.Loop() {
				lent := buffers.Get(size)
				lent.Bytes()[0] = 1
				lent.Release()
			}
		})
		b.Run(name+"/syncpool", func(b *testing.B) {
			var free sync.Pool
			b.ReportAllocs()
			for b.Loop() {
				p, _ := free.Get().(*[]byte)
				if p == nil {
					fresh := make([]byte, size)
					p = &fresh
				}
				(*p)[0] = 1
				free.Put(p)
			}
		})
		b.Run(name+"/bytebufferpool", func(b *testing.B) {
			var free bytebufferpool.Pool
			content := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				lent := free.Get()
				if cap(lent.B) < size {
					lent.B = append(lent.B, content...) // it does not know sizes
				}
				lent.B = lent.B[:size]
				lent.B[0] = 1
				free.Put(lent)
			}
		})
		b.Run(name+"/make", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				made = make([]byte, size)
				made[0] = 1
			}
		})
	}
}

var made []byte // so that what is made is not on the stack
