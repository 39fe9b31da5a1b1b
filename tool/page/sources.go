package page

import (
	"context"
	"maps"
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
	p.segment.counted(values)
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
