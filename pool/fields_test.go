package pool

import (
	"math"
	"testing"
)

// A negative limit is no limit, and so is the largest value.
func TestNoLimits(t *testing.T) {
	for _, most := range []int{-1, math.MaxInt} {
		needDrop(t)
		p := &Buffers{Max: most, Warm: most}
		p.Get(maxSize).Release()
		if s := p.Stats(); s.TooLarge != 0 || s.WarmBytes != maxSize {
			t.Errorf("Max and Warm %d: %+v after a buffer of %d bytes", most, s, maxSize)
		}
		l := &Local[int]{Max: most}
		for range 2 * localMax {
			l.Put(new(int))
		}
		if len(l.free) != 2*localMax {
			t.Errorf("Max %d: a Local keeps %d objects", most, len(l.free))
		}
	}
}
