package framed_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// What others notice of a handler that does not return soon. The yardstick is
// Parked, in the same minute on the same machine: there every connection has a
// goroutine of its own. The bounds are wide; what they must tell apart is wider.

// beside compares the modes of Events that promise not to let others wait with
// Parked: a few rounds in turn, of which the best counts, because whatever else the
// machine does makes things worse. within is the bound for a yardstick.
func beside(t *testing.T, measure func(t *testing.T, e engine.Engine) time.Duration, within func(parked time.Duration) time.Duration) {
	t.Helper()
	const rounds = 3
	for _, e := range []engine.Engine{engine.Events(engine.Auto), engine.Events(engine.Offload)} {
		t.Run(e.Name(), func(t *testing.T) {
			best := map[engine.Engine]time.Duration{}
			parked := engine.Parked(0)
			for round := range rounds {
				for _, one := range []engine.Engine{parked, e} {
					t.Run(one.Name(), func(t *testing.T) {
						t.Cleanup(countLeaks(t))
						took := measure(t, one)
						if round == 0 || took < best[one] {
							best[one] = took
						}
					})
				}
				t.Logf("round %d: %v, on Parked %v", round, best[e], best[parked])
				if best[e] <= within(best[parked]) {
					return
				}
			}
			t.Errorf("others wait %v, want %v at most, since they wait %v on Parked", best[e], within(best[parked]), best[parked])
		})
	}
}

// TestManyFreshSleepersDelayNobody: five hundred connections of which nobody knew
// that their handlers block ask at once. A tick for each would be a quarter of a
// second at least, for everybody else on the loop.
func TestManyFreshSleepersDelayNobody(t *testing.T) {
	const sleepers, others, each = 500, 20, 10
	beside(t, func(t *testing.T, e engine.Engine) time.Duration {
		var entered atomic.Int64
		release := make(chan struct{})
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "sleep" {
				entered.Add(1)
				<-release
			}
			return append(dst, req...), nil
		})}
		addr := serve(t, s)
		var asleep, awake []*peer
		for range others {
			p := dial(t, addr)
			p.exchange(1, "hello")
			awake = append(awake, p)
		}
		for range sleepers {
			asleep = append(asleep, dial(t, addr))
		}
		eventually(t, "all are there", func() bool { return s.Stats().Open == sleepers+others })
		request := submit(1, "sleep")
		talking := make(chan struct{})
		go func() {
			defer close(talking)
			for _, p := range asleep {
				p.Write(request)
			}
		}()
		worst := make([]time.Duration, others)
		inParallel(t, others, func(i int) error {
			request, answer := submit(2, "awake"), ack(2, "awake")
			for n := 0; n < each || entered.Load() < sleepers; n++ {
				begun := time.Now()
				if err := awake[i].converse(answer, whole(request)); err != nil {
					return err
				}
				worst[i] = max(worst[i], time.Since(begun))
			}
			return nil
		})
		<-talking
		close(release)
		for _, p := range asleep {
			p.want(ack(1, "sleep"))
		}
		return slices.Max(worst)
	}, func(parked time.Duration) time.Duration { return 100*time.Millisecond + 3*parked })
}

// TestHandlersThatBurnDelayOthersNoMoreThanOnParked: handlers that do not block but
// compute, more of them than processors. Go preempts after 10 ms; a loop must not
// make it worse than that.
func TestHandlersThatBurnDelayOthersNoMoreThanOnParked(t *testing.T) {
	const burners, others, burn, watched = 4, 10, 200 * time.Millisecond, 500 * time.Millisecond
	beside(t, func(t *testing.T, e engine.Engine) time.Duration {
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "burn" {
				for begun := time.Now(); time.Since(begun) < burn; {
					dst = append(dst[:0], req...)
				}
			}
			return append(dst, req...), nil
		})})
		over := make(chan struct{})
		var burning sync.WaitGroup
		for range burners {
			p := dial(t, addr)
			burning.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					if err := p.converse(ack(1, "burnburn"), whole(submit(1, "burn"))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		var mu sync.Mutex
		var all []time.Duration
		begun := time.Now()
		inParallel(t, others, func(i int) error {
			p, err := dialed(t, addr)
			if err != nil {
				return err
			}
			for time.Since(begun) < watched {
				asked := time.Now()
				if err := p.converse(ack(2, "quick"), whole(submit(2, "quick"))); err != nil {
					return err
				}
				mu.Lock()
				all = append(all, time.Since(asked))
				mu.Unlock()
				passes(5 * time.Millisecond)
			}
			return nil
		})
		close(over)
		burning.Wait()
		slices.Sort(all)
		t.Logf("%d answers; median %v, p90 %v, worst %v", len(all), all[len(all)/2], all[len(all)*9/10], all[len(all)-1])
		return all[len(all)*9/10]
	}, func(parked time.Duration) time.Duration { return 50*time.Millisecond + 2*parked })
}
