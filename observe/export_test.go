package observe

import "time"

// Taking reports whether a capture with that name is in progress.
func (a *Admin) Taking(name string) bool {
	a.captures.mu.Lock()
	defer a.captures.mu.Unlock()
	return a.captures.taken[name]
}

// SetWriteTime shortens the write timeout; call it before Serve.
func (a *Admin) SetWriteTime(d time.Duration) {
	a.init()
	a.server.WriteTimeout = d
}

// CoreSeries returns the series, label to value, for cores that were busy for one second each.
func CoreSeries(cores int) map[string]float64 {
	h := host{cores: map[int64]core{}}
	for id := range cores {
		h.cores[int64(id)] = core{busy: 1}
	}
	series := map[string]float64{}
	h.perCore(func(c core) float64 { return c.busy }, func(v float64, labels ...string) { series[labels[0]] = v })
	return series
}
