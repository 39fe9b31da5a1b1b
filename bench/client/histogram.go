package client

import "math/bits"

// histogram counts durations in buckets that are at most 1.6 % wide: the upper
// seven bits and how many are below them. An add costs about 2 ns (BenchmarkAdd).
type histogram struct {
	counts [64 * 58]uint64
	total  uint64
}

func (h *histogram) add(ns int64) {
	v := uint64(max(ns, 0))
	below := max(bits.Len64(v)-7, 0)
	h.counts[below*64+int(v>>below)]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile is the middle, in microseconds, of the bucket that parts in whole of all
// durations do not exceed; nil when there are too few to have one above it.
func (h *histogram) quantile(parts, whole uint64) *float64 {
	if h.total*(whole-parts) < whole {
		return nil
	}
	rank := (h.total*parts + whole - 1) / whole
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			below := max(i/64-1, 0)
			us := (float64(uint64(i-below*64)<<below) + float64(uint64(1)<<below-1)/2) / 1e3
			return &us
		}
	}
	return nil
}
