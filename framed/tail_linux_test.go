package framed_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// The effect of slow handlers on other connections. These tests count replies and
// hand-offs and measure no time: the latency of a reply depends on the machine's load,
// but whether it is sent while a handler runs does not.

// onEventLoops runs test on the modes of Events in which other connections do not wait
// for a handler.
func onEventLoops(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range []engine.Engine{engine.Events(engine.Auto), engine.Events(engine.Offload)} {
		t.Run(e.Name(), func(t *testing.T) {
			t.Cleanup(countLeaks(t))
			test(t, e)
		})
	}
}

// TestManyFreshSleepersDelayNobody: hundreds of connections send requests at once, and
// the engine does not know yet that their handlers block. After the first few it has to
// assume that of the others too: a hand-off for each would cost all other connections of
// the loop a tick of the watchdog each.
func TestManyFreshSleepersDelayNobody(t *testing.T) {
	// Three hand-offs raise a loop's alarm, so a handful is normal, and a stall of the
	// machine may cost a few more. Without the alarm there is one per sleeper.
	const others, each, most = 20, 10, 50
	sleepers := testrun.Sized(200, 500)
	onEventLoops(t, func(t *testing.T, e engine.Engine) {
		entered, release := make(chan struct{}, sleepers), make(chan struct{})
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "sleep" {
				entered <- struct{}{}
				<-release
			}
			return append(dst, req...), nil
		})}
		addr := serve(t, s)
		wake := sync.OnceFunc(func() { close(release) })
		t.Cleanup(wake)
		var asleep, awake []*peer
		for range others {
			p := dial(t, addr)
			p.exchange(1, "hello")
			awake = append(awake, p)
		}
		for range sleepers {
			asleep = append(asleep, dial(t, addr))
		}
		eventually(t, "all connections are open", func() bool { return s.Stats().Open == sleepers+others })
		before := s.Stats().HandOffs
		for _, p := range asleep {
			p.send(submit(1, "sleep"))
		}
		for range sleepers {
			heard(t, entered, "a sleeper's handler")
		}
		if n := s.Stats().HandOffs - before; n > most {
			t.Errorf("%d hand-offs for %d sleepers, want %d at most", n, sleepers, most)
		}
		inParallel(t, others, func(i int) error {
			for range each {
				if err := awake[i].converse(ack(2, "awake"), whole(submit(2, "awake"))); err != nil {
					return err
				}
			}
			return nil
		})
		wake()
		for _, p := range asleep {
			p.want(ack(1, "sleep"))
		}
	})
}

// TestHandlersThatBurnDoNotHoldOthersUp: more CPU-bound handlers than processors. They
// end when every other connection has its replies, so on a loop that waits for a handler
// those replies never arrive. In the first round the loop is taken away from the
// handlers, in the others it knows them and serves them off the loop.
func TestHandlersThatBurnDoNotHoldOthersUp(t *testing.T) {
	const others, rounds = 4, 2
	burners := runtime.GOMAXPROCS(0) + 1
	onEventLoops(t, func(t *testing.T, e engine.Engine) {
		var over atomic.Bool
		burning := make(chan struct{}, burners)
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "burn" {
				burning <- struct{}{}
				for !over.Load() {
				}
			}
			return append(dst, req...), nil
		})})
		t.Cleanup(func() { over.Store(true) })
		var hot, cool []*peer
		for range burners {
			hot = append(hot, dial(t, addr))
		}
		for range others {
			cool = append(cool, dial(t, addr))
		}
		for range rounds {
			over.Store(false)
			for _, p := range hot {
				p.send(submit(1, "burn"))
			}
			for range burners {
				heard(t, burning, "a burner's handler")
			}
			inParallel(t, others, func(i int) error {
				return cool[i].converse(ack(2, "quick"), whole(submit(2, "quick")))
			})
			over.Store(true)
			for _, p := range hot {
				p.want(ack(1, "burn"))
			}
		}
	})
}
