package workers

import (
	"fmt"
	"strings"
	"testing"
)

// The kinds of load of these tests, for a machine with 4 processors.
const procs = 4

var (
	computing = kind{cpu: 0.002, sigma: 0.01, kappa: 0.00002}
	asking    = kind{cpu: 0.00002, wait: 0.05}
	asking150 = kind{cpu: 0.00002, wait: 0.05, downstream: 150}
	mixed     = kind{cpu: 0.001, wait: 0.03, kappa: 0.00001}
)

const mostWorkers = 256

// load is a kind and the throughput of its best fixed limit.
type load struct {
	name string
	kind
	rate float64
}

func loads(t *testing.T) []load {
	all := []load{{"computing", computing, 0}, {"asking", asking, 0}, {"asking of 150", asking150, 0}, {"mixed", mixed, 0}}
	for i, l := range all {
		var limit int
		limit, all[i].rate = best(l.kind)
		t.Logf("%s: the best fixed limit is %d with %.0f/s", l.name, limit, all[i].rate)
	}
	return all
}

func (p *pilotage) story() string {
	var b strings.Builder
	for _, d := range p.log[max(0, len(p.log)-40):] {
		fmt.Fprintf(&b, "%6.1fs %4d -> %4d %-9v %7.0f/s busy %.0f waiting %.0f cpu %.2f runnable %.0f\n",
			float64(d.At.UnixNano())/1e9, d.From, d.To, d.Reason, d.Throughput, d.Running, d.Waiting, d.CPU, d.Runnable)
	}
	return b.String()
}

// wantNear lets 10 s pass, and then wants 95 % of the best fixed limit.
func (p *pilotage) wantNear(t *testing.T, l load) {
	t.Helper()
	p.become(l.kind)
	p.steer(p.now + 10)
	rate := p.rate(5)
	t.Logf("%.0f/s at %d, %.1f %% of the best", rate, p.limit, 100*rate/l.rate)
	if rate < 0.95*l.rate {
		t.Errorf("less than 95 %%:\n%s", p.story())
	}
}

func TestFindsTheLimitAndFindsItAgain(t *testing.T) {
	all := loads(t)
	for i, from := range all {
		t.Run("cold to "+from.name, func(t *testing.T) { newPilotage(from.kind, 3).wantNear(t, from) })
		for j, to := range all {
			if i == j {
				continue
			}
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				p := newPilotage(from.kind, uint64(i))
				p.steer(15 + float64(j)) // in the midst of whatever it tries just then
				p.wantNear(t, to)
			})
		}
		// Where the processors are not known, throughput alone has to do.
		t.Run("blind to "+from.name, func(t *testing.T) {
			p := newPilotage(from.kind, 7)
			p.blind = true
			p.steer(20)
			if rate := p.rate(10); rate < 0.85*from.rate {
				t.Errorf("%.0f/s at %d, %.0f %% of the best:\n%s", rate, p.limit, 100*rate/from.rate, p.story())
			}
		})
	}
}

// gradient2 adds a queue to its limit in every round: at a load that is modest
// but for moments, it grew without end (Netflix/concurrency-limits #134).
func TestNetflix134NoDriftAtModestOverload(t *testing.T) {
	for _, share := range []float64{0.5, 0.9, 1.02} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			k := kind{cpu: 0.006, wait: 0.018, sigma: 0.001} // at best about 650/s
			k.rate = share * 650
			p := newPilotage(k, 4)
			p.steer(60)
			first := p.limit
			p.highest = 0
			rate := p.rate(600)
			t.Logf("%.0f/s of %.0f/s, limit %d after a minute, %d after eleven, %d at most", rate, k.rate, first, p.limit, p.highest)
			if p.highest > 128 || p.limit > 64 || rate < 0.92*min(k.rate, 650) {
				t.Error(p.story())
			}
		})
	}
}

// Vegas took its best latency from an overloaded moment, and later took overload
// for normal (Netflix/concurrency-limits #165): here a start in overload ends as
// a calm one does.
func TestNetflix165StartInOverload(t *testing.T) {
	p := newPilotage(computing, 5)
	p.limit, p.climb.limit = mostWorkers, mostWorkers
	p.steer(20)
	if p.limit > 4*procs {
		t.Errorf("the limit is %d:\n%s", p.limit, p.story())
	}
}

// A baseline that moves learns the incident, and the limit rises again in the
// midst of it (failsafe-go #127). Here something elsewhere takes ten times as
// long and serves no more than 20 at once, for five minutes.
func TestFailsafe127IncidentIsNotLearnt(t *testing.T) {
	p := newPilotage(asking150, 6)
	p.steer(20)
	incident := asking150
	incident.wait, incident.downstream = 0.5, 20
	p.become(incident)
	p.highest = 0
	p.steer(p.now + 60)
	p.highest = 0
	p.steer(p.now + 240)
	if p.highest > 225 || p.limit > 190 { // it tries a quarter more now and then
		t.Errorf("the limit has risen to %d and is %d:\n%s", p.highest, p.limit, p.story())
	}
	p.become(asking150)
	p.steer(p.now + 10)
	if rate := p.rate(5); rate < 0.95*150/0.05 {
		t.Errorf("%.0f/s when it is over:\n%s", rate, p.story())
	}
}
