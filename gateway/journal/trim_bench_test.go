package journal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkTrim appends envelopes of 64 KB to a log of 3 GB, alone and while the older half of it is
// deleted: p99 and the slowest append.
func BenchmarkTrim(b *testing.B) {
	for _, trims := range []bool{false, true} {
		name := map[bool]string{false: "alone", true: "trim"}[trims]
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "data")
			log, err := OpenSegments(dir, SegmentsOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			defer log.Close()
			envelope := sample("client", 1, 400)
			pos := uint64(0)
			for log.size.Load() < 3<<30 {
				if pos, err = log.Append(context.Background(), envelope); err != nil {
					b.Fatal(err)
				}
			}
			trimmed := make(chan error, 1)
			var all []time.Duration
			b.ResetTimer()
			if trims {
				go func() { trimmed <- log.Trim(context.Background(), pos/2) }()
			} else {
				trimmed <- nil
			}
			ended := false
			for n := 0; n < b.N || !ended; n++ { // to the end of the trim at least
				began := time.Now()
				if _, err := log.Append(context.Background(), envelope); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(began))
				select {
				case err := <-trimmed:
					if ended = true; err != nil {
						b.Fatal(err)
					}
				default:
				}
			}
			b.StopTimer()
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "max-ms")
			first, _, _ := log.Bounds()
			if trims && first < pos/3 {
				b.Errorf("the log begins at position %d of %d after the trim", first, pos)
			}
		})
	}
}
