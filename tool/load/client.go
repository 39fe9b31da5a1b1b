package load

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// With Plan.Traffic, each arrival begins a session, whose steps follow each other on one
// connection. A later step is due when the answer before it has come, plus the think time. When
// several requests are due on a connection, later steps go first. In an open loop a thinking
// client does not occupy a place of the connection; in a closed loop, whose places are its
// clients, it does.

// client is a session and its connection.
type client struct {
	traffic.Session
	due int64 // when its next request is due
}

func (c *client) step() int32 { return int32(c.Request().Index) }

// sessions holds a connection's clients.
type sessions struct {
	live    int                  // clients that have begun and not ended
	later   codec.Queue[*client] // clients whose next request is due and has no place
	retired []*client            // free list
	message []byte               // content of the current request
}

// flowState is the progress of one flow in a closed loop.
type flowState struct {
	begun atomic.Int64 // sessions
	first int32        // step
	limit int64        // number of sessions; 0: unlimited
}

// prepareTraffic allocates what sessions need.
func (r *run) prepareTraffic() {
	if r.plan.Traffic == nil {
		return
	}
	shares, requests := r.plan.Traffic.Shares(), r.plan.Traffic.Requests()
	r.flows = make([]flowState, len(shares))
	first := 0
	for i := range r.flows {
		r.flows[i].first, r.flows[i].limit = int32(first), shares[i].Limit
		first += shares[i].Steps
	}
	for _, s := range r.counters {
		s.steps = make([]counts, len(requests))
		for i := range s.steps {
			s.steps[i] = newCounts(r.paced)
			s.timeouts = append(s.timeouts, int64(cmp.Or(requests[i].Timeout, r.plan.Timeout)))
		}
		r.shortest = time.Duration(slices.Min(s.timeouts))
	}
	if r.plan.Traffic.Thinks() {
		r.thoughts = &thoughts{run: r, lag: newHistogram()}
	}
}

// firstStep returns the index of a flow's first step.
func (r *run) firstStep(flow int32) (step int32) {
	if r.flows != nil {
		step = r.flows[flow].first
	}
	return step
}

// choose picks the flow and data of session n of a closed loop; ok is false when the data is used
// up.
func (r *run) choose(a arrival, n uint64) (arrival, bool) {
	a.flow = int32(r.plan.Traffic.Choose(n))
	f := &r.flows[a.flow]
	number := int64(r.plan.Partition.number(int(f.begun.Add(1) - 1)))
	if f.limit > 0 && number >= f.limit {
		r.usedUp.Store(true)
	}
	a.number = uint64(number)
	return a, !r.usedUp.Load()
}

// longest returns the upper bound of a request's size in bytes.
func (p Plan) longest() int {
	request := len(p.Target.Codec().AppendRequest(nil, 1, p.Content, nil))
	if p.Traffic != nil {
		request += p.Traffic.Most()
	}
	return request
}

// stepAt returns the step of the request at a place; 0 without Traffic. c.mu is held, as in all
// methods below.
func (c *conn) stepAt(place int) (step int32) {
	if c.clients != nil {
		step = c.clients[place].step()
	}
	return step
}

// admit begins a session.
func (c *conn) admit(a arrival) *client {
	var of *client
	if last := len(c.retired) - 1; last >= 0 {
		of, c.retired = c.retired[last], c.retired[:last]
	} else {
		of = &client{}
	}
	of.Start(c.run.plan.Traffic, int(a.flow), a.number)
	c.live++
	return of
}

// retire puts an ended session on the free list.
func (c *conn) retire(of *client) {
	c.live--
	c.retired = append(c.retired, of)
}

// ask passes the answer to the session, which takes its values and runs its checks.
func (c *conn) ask(place int) error {
	seen := traffic.Answer{Body: c.answer.Content, Length: int64(len(c.answer.Content))}
	if c.answer.Seen != nil {
		seen = *c.answer.Seen
	}
	return c.clients[place].Answer(seen)
}

// follow continues a session whose request was answered at now.
func (c *conn) follow(of *client, now int64, well bool) {
	think, more := of.Next()
	if of.due = now + int64(think); !well || !more {
		c.retire(of)
		return
	}
	if of.due >= c.counter.window.till || c.run.stopping.Load() {
		c.retire(of) // the load is over
		return
	}
	if c.counter.window.has(of.due) {
		c.run.followed.Add(1)
	}
	switch {
	case of.due == now:
		c.later.Push(of)
	case !c.run.thoughts.push(thought{of.due, c, of}):
		c.counter.drop(Timeout, of.step(), of.due, of.due) // more think at once than a run keeps
		c.retire(of)
	}
}

// goOn sends the later steps that are due while there are free places.
func (c *conn) goOn(now int64) {
	for c.later.Len() > 0 && c.room() {
		of := c.later.Pop()
		if now-of.due > c.counter.timeout {
			c.counter.drop(Timeout, of.step(), of.due, now)
			c.retire(of)
			continue
		}
		if !c.run.paced {
			of.due = now // a closed loop has no schedule
		}
		place := c.occupy(of.due, now)
		c.clients[place] = of
		c.encode(place)
	}
}

// wake continues a session after its think time.
func (c *conn) wake(of *client, now int64) {
	c.mu.Lock()
	c.later.Push(of)
	if !c.ending {
		c.refill(now)
	}
	c.unlock()
}

// Step is the result of one step of the plan's Traffic.
type Step struct {
	Name string `json:"name"`
	Flow string `json:"flow,omitempty"`
	// Requests, Errors, Unsent, Rate and the times have the same meaning as in Result.
	Requests int64            `json:"requests"`
	Errors   map[string]int64 `json:"errors"`
	Unsent   int64            `json:"unsent"`
	Rate     *float64         `json:"rate"`
	Latency  Quantiles        `json:"latency_us"`
	Service  Quantiles        `json:"service_us"`
}

// addSteps adds the counts of other to all; both are of the same Traffic, or nil.
func addSteps(all, other []counts) []counts {
	if all == nil {
		return other
	}
	for i := range min(len(all), len(other)) {
		all[i].add(&other[i])
	}
	return all
}

// stepsOf computes the published figures of the steps.
func (m *Measured) stepsOf() (steps []Step) {
	if m.plan.Traffic == nil || m.Steps == nil {
		return nil
	}
	for i, request := range m.plan.Traffic.Requests() {
		all := &m.Steps[i]
		step := Step{
			Name: request.Name, Flow: request.Flow, Requests: all.requests(),
			Errors: namedErrors(&all.Errors), Unsent: all.Unsent, Rate: m.perSecond(all.Good), Latency: QuantilesOf(all.Latency.Histogram),
		}
		if step.Service = step.Latency; all.Service.Histogram != nil {
			step.Service = QuantilesOf(all.Service.Histogram)
		}
		steps = append(steps, step)
	}
	return steps
}
