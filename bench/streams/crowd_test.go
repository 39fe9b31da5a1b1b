//go:build linux

package streams

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
)

// TestCrowd has many streams at once take little memory each, and none wait for others.
func TestCrowd(t *testing.T) {
	conns, length, rate := size(100, 500), size(mib, 4*mib), 200_000
	path := program(t, "streams")
	for _, engine := range engines() {
		for _, way := range []struct {
			name string
			do   func(*stream, int) error
		}{{"down", (*stream).download}, {"up", (*stream).upload}} {
			t.Run(way.name+"/"+engine, func(t *testing.T) {
				s := start(t, path, "-addr", "127.0.0.1:0", "-engine", engine)
				crowd := make([]*stream, conns)
				for i := range crowd {
					c, r := dial(t, s.addr, 16<<10)
					crowd[i] = &stream{c: c, r: r, pace: pace{ctx: t.Context(), rate: rate}}
					if err := ask(c, r, "get 0", "0"); err != nil {
						t.Fatal(err)
					}
				}
				fleet.Wait(t.Context(), 3*time.Second) // they rest
				idle := s.resident(t)
				stop := s.peaks(t)
				speeds := make([]float64, conns)
				var streaming sync.WaitGroup
				for i, one := range crowd {
					streaming.Go(func() {
						began := time.Now()
						if err := way.do(one, length); err != nil {
							t.Error(err)
						}
						speeds[i] = float64(length) / time.Since(began).Seconds()
					})
				}
				streaming.Wait()
				most, _ := stop()
				slices.Sort(speeds)
				median := speeds[conns/2]
				t.Logf("%d streams of %d MiB, identical; RSS idle %d KiB, at most %d; slowest, median and fastest %.0f, %.0f and %.0f KB/s of %d",
					conns, length/mib, idle>>10, most>>10, speeds[0]/1000, median/1000, speeds[conns-1]/1000, rate/1000)
				judge(t, "memory of a stream", float64(most-idle)/float64(conns)/1024, "%.1f KiB", "<=", 64)
				judge(t, "slowest to median", speeds[0]/median, "%.2f", ">=", 0.5)
			})
		}
	}
}
