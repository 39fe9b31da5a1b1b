package page

import (
	"context"
	"maps"
	"math"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/machine"
)

// sampling polls the sources.
type sampling struct {
	mu   sync.Mutex
	runs bool
}

// begin starts the polling goroutine unless it runs.
func (s *sampling) begin(p *Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs || len(p.Sources) == 0 || p.ctx.Err() != nil {
		return
	}
	s.runs = true
	p.busy.Go(func() { p.sample(s) })
}

// sample polls every second until the page closes, or has had no reader for long.
func (p *Page) sample(s *sampling) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		if !p.frozen() {
			values := map[string]float64{}
			for _, source := range p.Sources {
				maps.Copy(values, source(p.ctx))
			}
			p.sampled(values)
		}
		select {
		case <-second.C:
		case <-p.ctx.Done():
			return
		}
		s.mu.Lock()
		if p.OnlyWatched && !p.stream.watched() {
			s.runs = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// frozen reports whether the load has ended: later figures do not belong to it.
func (p *Page) frozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Status.final()
}

// sampled publishes the sources' figures unless the load has ended meanwhile.
func (p *Page) sampled(values map[string]float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || p.state.Status.final() {
		return
	}
	p.lane.counted(values)
	if clean := numbers(values); len(clean) > 0 {
		p.stream.add(encode("point", point{T: number(p.now()), Values: clean}))
	}
	if p.serves(values) {
		p.tell()
	}
}

// ThisHost reports on the machine, where it has the counters.
func ThisHost() Source {
	var before machine.Vitals
	return func(context.Context) map[string]float64 {
		now := machine.ReadVitals()
		busy, interrupts, steal, retransmits := now.Since(before)
		before = now
		return map[string]float64{"h.busy": busy, "h.softirq": interrupts, "h.steal": steal, "h.retrans": retransmits}
	}
}

// ThisRuntime reports on the Go runtime of this process. Reading takes about 50 µs.
func ThisRuntime() Source {
	names := []string{
		"/sched/goroutines:goroutines", "/gc/heap/live:bytes", "/gc/heap/goal:bytes", "/gc/cycles/total:gc-cycles",
		"/sched/pauses/total/gc:seconds", "/sched/latencies:seconds",
	}
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	var cycles uint64
	var pauses, waits []uint64
	return func(context.Context) map[string]float64 {
		metrics.Read(samples)
		values := map[string]float64{
			"g.goroutines": float64(samples[0].Value.Uint64()), "g.heap": float64(samples[1].Value.Uint64()),
			"g.goal": float64(samples[2].Value.Uint64()),
		}
		now, paused, waited := samples[3].Value.Uint64(), samples[4].Value.Float64Histogram(), samples[5].Value.Float64Histogram()
		if pauses != nil {
			values["g.gc"] = float64(now - cycles)
			values["g.pause"] = 1e6 * quantileSince(pauses, paused, 1)
			values["g.sched"] = 1e6 * quantileSince(waits, waited, 0.99)
		}
		cycles, pauses, waits = now, append([]uint64{}, paused.Counts...), append([]uint64{}, waited.Counts...)
		return values
	}
}

// quantileSince returns a quantile of the observations added to a histogram since before;
// 0 if there are none.
func quantileSince(before []uint64, h *metrics.Float64Histogram, part float64) float64 {
	total := uint64(0)
	for i, n := range h.Counts {
		total += n - before[i]
	}
	wanted, seen := uint64(math.Ceil(part*float64(total))), uint64(0)
	for i, n := range h.Counts {
		if seen += n - before[i]; total > 0 && seen >= wanted {
			if top := h.Buckets[i+1]; !math.IsInf(top, 0) {
				return top
			}
			return h.Buckets[i]
		}
	}
	return 0
}
