package workers_test

import (
	"context"
	"math"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/workers"
)

// The largest value of each field works, and so do the largest limits.
func TestLargestValues(t *testing.T) {
	try := func(t *testing.T, o workers.Options) {
		o.Overflow = workers.Reject
		in(t, o, func(t *testing.T, p *workers.Pool) {
			g := newGate()
			close(g.open)
			g.fill(t, p, 2)
		})
	}
	testrun.EachLargest(t, func(t *testing.T, o *workers.Options) { try(t, *o) })
	testrun.EachLargest(t, func(t *testing.T, o *workers.AutoOptions) {
		try(t, workers.Options{Limit: workers.Auto(*o)})
	})
	for _, queue := range []int{noQueue, 1, 0} {
		try(t, fixed(math.MaxInt, queue))
	}
	testrun.EachLargest(t, func(t *testing.T, like *workers.Group) {
		in(t, workers.Options{}, func(t *testing.T, p *workers.Pool) {
			g := p.Group(t.Context())
			g.Limit = like.Limit
			g.Go(func(context.Context) error { return nil })
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	})
}
