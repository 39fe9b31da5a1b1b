package page

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load"
)

// BenchmarkSecond measures Load for one second of a load, without readers.
func BenchmarkSecond(b *testing.B) {
	h := hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)
	for i := range int64(50_000) {
		h.RecordValue(100_000 + i*i%900_000)
	}
	h.RecordValue(40_000_000)
	p := &Page{}
	defer p.Close()
	share := 0.3
	b.ReportAllocs()
	for b.Loop() {
		p.Load(Second{Progress: load.Progress{Phase: load.Measuring, Rate: 50_000, Conns: 100, CPUShare: &share, Latency: h}})
	}
}
