package torture

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// stormScenarios attack with honest clients that lost their server.
var stormScenarios = []Scenario{
	{Name: "storm", Kinds: AllKinds, Whole: true, Attack: comeBack,
		Title: "A crowd of clients loses all connections at the same moment and comes back at once, as after a restart."},
}

// comeWithin is in what time a client comes again that was not served.
const comeWithin = time.Second

// comeBack lets clients connect and ask, resets all of them, and lets them come back until each was served.
func comeBack(ctx context.Context, a *Arena) Finding {
	opening, cancel := context.WithTimeout(ctx, a.Within/2)
	crowd, err := a.Crowd(opening, a.Conns-1, (*target).Dial, asksOnce)
	if cancel(); len(crowd) == 0 {
		return unknown("%v", err)
	}
	rests := make([]time.Duration, len(crowd))
	for i, c := range crowd {
		rests[i] = time.Duration(a.Rand.Int64N(int64(comeWithin)))
		a.noteError(c.Reset(), "client %d", i+1)
	}
	began := time.Now()
	var again atomic.Int64
	took := atOnce(len(crowd), func(i int) time.Duration {
		for {
			c, err := a.Open(ctx, (*target).Dial)
			if err == nil {
				if err = c.Ask(); err == nil {
					return time.Since(began) // it stays
				}
				c.Close()
			}
			again.Add(1)
			if !pause(ctx, rests[i]) {
				return a.Within
			}
		}
	})
	slices.Sort(took)
	last := took[len(took)-1]
	if last >= a.Within {
		served, _ := slices.BinarySearch(took, a.Within)
		return falls("%d of %d clients that came back at once were not served, %d times", len(took)-served, len(took), again.Load())
	}
	return survives("%d clients that came back at once were served within %s, half of them within %s; %d tries were not", len(took), elapsed(last), elapsed(took[len(took)/2]), again.Load())
}
