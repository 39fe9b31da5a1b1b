package page

import (
	"context"
	"maps"
	"time"

	"github.com/hone-go/hone/tool/machine"
)

// sample polls the sources every second until the page closes.
func (p *Page) sample() {
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
