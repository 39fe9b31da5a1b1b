// Package fleet runs one load from several processes, on as many machines.
//
// A coordinator gives each agent one part of a plan (load.Partition) and one start time, and merges the
// agents' counts: the requests, their moments and their sizes are those that one process would
// send, and the result is computed from the sum of the histograms, bucket by bucket. Response
// times never cross machines, so clocks matter only for the start. The coordinator measures clock
// offsets before the start and watches them: a clock that drifts makes the result invalid, as does
// an agent that is late, slow, stopped or gone. Figures are never scaled up for a missing agent.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// Fleet is a load and the agents that send it.
type Fleet struct {
	// Plan is the load as one process would run it. Run calls its Progress, WindowOpens and
	// WindowCloses, but not those of idle connections.
	Plan load.Plan
	// Job is the plan in the form that Agent.Prepare takes.
	Job []byte
	// Version is the program's version, which must be the agents'.
	Version string
	// From is where the agents wait. Required.
	From *NATS
	// Told is called once a second with the state of each agent. It may be nil.
	Told func([]Now)
}

// Now is the state of an agent.
type Now struct {
	Name, Machine string
	Phase         string   // of load.Progress
	Rate          float64  // answers a second since the last report
	P50, P99      *float64 // of its last interval; nil: none
	Fault         string   // why its figures are not valid; empty: no fault is known
}

// member is an agent that has joined.
type member struct {
	link  *link
	hello hello // its Name is empty until it has come

	heard  time.Time
	pings  int64
	asked  map[int64]time.Time // when unanswered pings were sent
	trips  int                 // answered pings, of those that compare the clocks
	ready  bool
	first  reading // before the start
	latest reading
	seen   load.Progress
	before int64 // answers at the last report
	times  load.Quantiles

	sum   load.Measured // sum of its intervals
	told  bool          // it has sent at least one interval
	done  *done
	fault string
}

// event is something that happened on a link.
type event struct {
	from    *member
	message message
	joined  bool
	ended   error
}

// The coordinator's phases.
const (
	gathering = iota
	connecting
	comparing // clocks
	running
	stopping
)

// coordinator is the state of one Fleet.Run.
type coordinator struct {
	*Fleet
	clock    func() time.Time
	events   chan event
	over     chan struct{}
	members  []*member // before the run in the order of joining, then by the index of their parts
	left     []*member // not needed, or lost too early
	step     int
	began    time.Time // when Run began
	compared time.Time // when the clocks were compared
	start    time.Time // when the load starts
	from     time.Duration
	till     time.Duration
	pinged   time.Time
	reported time.Time
	opened   bool
	closed   bool
	deadline time.Time // of gathering, and of stopping
	canceled bool
	err      error

	series series
}

// Run runs the load. The error and the Result are as those of load.Run; the Result has a line for
// each agent. When Run returns, the agents are free. Run
// notices within 3 s that an agent is lost, which ends the run.
func (f *Fleet) Run(ctx context.Context) (*load.Result, error) {
	c := &coordinator{Fleet: f, clock: steady(), events: make(chan event, mostQueued), over: make(chan struct{}), began: time.Now()}
	var err error
	if c.from, c.till, err = f.Plan.Measures(); err != nil {
		return nil, err
	}
	if len(f.Job) > mostJob {
		return nil, &load.Error{Kind: load.BadPlan, What: fmt.Sprintf("the load has %d bytes in the form in which agents receive it, and the limit is %d", len(f.Job), mostJob), Try: "use a smaller scenario or smaller files"}
	}
	count, within := f.From.want()
	c.deadline = time.Now().Add(within)
	defer func() {
		close(c.over)
		var ends sync.WaitGroup
		for _, m := range append(c.members, c.left...) {
			m.link.send(message{Stop: true})
			ends.Go(m.link.finish)
		}
		ends.Wait()
		f.From.close()
	}()
	if err := f.From.open(c); err != nil {
		return nil, err
	}
	tick := time.NewTicker(pingEach / 5)
	defer tick.Stop()
	interrupted := ctx.Done()
	for !c.finished() {
		select {
		case e := <-c.events:
			c.take(e)
			for range len(c.events) { // drain the events first, so that no agent with pending messages counts as silent
				c.pings(time.Now())
				c.take(<-c.events)
			}
		case <-tick.C:
		case <-interrupted:
			interrupted, c.canceled = nil, true
			if c.step < running {
				return nil, context.Canceled
			}
			c.stop()
		}
		c.advance(time.Now(), count)
		if c.err != nil && c.step < running {
			return nil, c.err
		}
	}
	return c.result()
}

// join adds an agent.
func (c *coordinator) join(by *letters) {
	m := &member{asked: make(map[int64]time.Time)}
	tell := func(e event) {
		select {
		case c.events <- e:
		case <-c.over:
		}
	}
	m.link = newLink(by, func(said message) { tell(event{from: m, message: said}) }, func(err error) { tell(event{from: m, ended: err}) })
	tell(event{from: m, joined: true})
}

// take handles an event of a link.
func (c *coordinator) take(e event) {
	m := e.from
	switch {
	case e.joined:
		if m.heard = time.Now(); c.step == gathering {
			c.members = append(c.members, m)
			return
		}
		c.left = append(c.left, m)
		m.link.send(message{Stop: true})
		return
	case e.ended != nil:
		if m.done == nil {
			c.lose(m, fmt.Sprintf("is lost: %v; look at its machine, and at the NATS server's log", e.ended))
		}
		return
	}
	m.heard = time.Now()
	switch said := e.message; {
	case said.Hello != nil:
		m.hello = *said.Hello
	case said.Ready:
		m.ready = true
	case said.Pong != nil:
		c.answered(m, said.Pong)
	case said.Interval != nil:
		m.told = true
		m.sum.Add(said.Interval)
		latency, _ := said.Interval.Times()
		m.times = load.QuantilesOf(latency)
		c.series.add(said.Interval, len(c.members))
	case said.Done != nil && m.done == nil:
		c.ended(m, said.Done)
	}
}

// answered handles a pong and compares the clocks.
func (c *coordinator) answered(m *member, p *pong) {
	asked, ok := m.asked[p.Number]
	if !ok {
		return
	}
	delete(m.asked, p.Number)
	m.seen = p.Seen
	r := readingOf(asked, c.clock(), time.Unix(0, p.Clock))
	switch {
	case c.step == comparing:
		if m.trips++; m.trips == 1 || r.error < m.first.error {
			m.first = r
		}
		if m.latest = m.first; m.trips < roundTrips {
			c.ping(m)
		}
	case c.step >= running:
		m.latest = r
		after := time.Since(c.compared)
		if apart := r.wandered(m.first, after); apart > 0 && m.fault == "" {
			c.lose(m, fmt.Sprintf("has a clock that drifted by %s within %s from the coordinator's, so its rate or its start is wrong; look at its machine's clock",
				figure.Time(apart), figure.Time(after)))
		}
	}
}

// pings sends pings to all agents when they are due.
func (c *coordinator) pings(now time.Time) {
	if now.Sub(c.pinged) < pingEach {
		return
	}
	c.pinged = now
	for _, m := range c.members {
		c.ping(m)
	}
}

func (c *coordinator) ping(m *member) {
	m.pings++
	m.asked[m.pings] = c.clock()
	m.link.send(message{Ping: m.pings})
}

// ended handles an agent's final message.
func (c *coordinator) ended(m *member, d *done) {
	m.done = d
	switch {
	case d.Leaves:
		c.lose(m, "was interrupted on its own machine; let it run to the end")
	case d.Failure != nil:
		if c.err == nil {
			c.err = d.Failure
			d.Failure.What = "agent " + m.hello.Name + ": " + d.Failure.What
		}
		c.stop()
	case c.step == running:
		m.fault = c.doubt(m)
	}
}

// doubt returns why the figures of an agent that has finished are not valid.
func (c *coordinator) doubt(m *member) string {
	measured := m.done.Measured
	if measured == nil {
		return "has not reported its counts; look into its log"
	}
	latency, _ := measured.Times()
	if late := measured.Late; late > mostError {
		return fmt.Sprintf("began %s late; give it CPUs of its own", figure.Time(late))
	}
	if (m.told || latency.TotalCount() > 0) && !m.sum.Same(measured) {
		return "has reported seconds that do not add up to its total; look into its log"
	}
	return ""
}

// lose records why an agent's figures are not valid, and ends the run.
func (c *coordinator) lose(m *member, why string) {
	if m.fault == "" {
		m.fault = why
	}
	switch {
	case c.step == gathering: // other agents may come
		c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
		c.left = append(c.left, m)
	case c.step < running && c.err == nil:
		c.err = &load.Error{Kind: load.Unreachable, What: "agent " + m.hello.Name + " " + m.fault}
	default:
		c.stop()
	}
}

// stop ends the run on all agents.
func (c *coordinator) stop() {
	if c.step != running {
		return
	}
	c.step, c.deadline = stopping, time.Now().Add(silence)
	for _, m := range c.members {
		m.link.send(message{Stop: true})
	}
}

// finished reports whether all agents have reported, or never will.
func (c *coordinator) finished() bool {
	if c.step < running {
		return false
	}
	for _, m := range c.members {
		heard := m.link.over.Err() == nil && time.Since(m.heard) < silence // it may still report, fault or not
		if m.done == nil && (m.fault == "" || c.step == stopping && heard && time.Now().Before(c.deadline)) {
			return false
		}
	}
	return true
}

// advance does what is due.
func (c *coordinator) advance(now time.Time, count int) {
	for _, m := range slices.Clone(c.members) {
		if m.done == nil && m.fault == "" && now.Sub(m.heard) > c.patience() {
			c.lose(m, fmt.Sprintf("has been silent for %v: it, or the network, has stopped; look at its machine and the network", c.patience().Round(time.Second/10)))
		}
		if m.done == nil && c.step == stopping && now.After(c.deadline) && m.fault == "" {
			m.fault = "has not ended when it was asked to; look into its log"
		}
	}
	c.pings(now)
	switch c.step {
	case gathering:
		c.gather(now, count)
	case connecting:
		if c.all(func(m *member) bool { return m.ready }) {
			c.step = comparing
			for _, m := range c.members {
				clear(m.asked) // they may have been delayed by the opening of connections
				c.ping(m)
			}
		}
	case comparing:
		if c.all(func(m *member) bool { return m.trips >= roundTrips }) {
			c.begin(now)
		}
	}
	c.edges(now)
	if now.Sub(c.reported) >= time.Second {
		c.report(now)
	}
}

// patience returns how long an agent may be silent: longer while it receives the job, for which it
// assumes a quarter of a megabyte a second.
func (c *coordinator) patience() time.Duration {
	if c.step == connecting {
		return silence + 4*time.Duration(len(c.Job))*time.Microsecond
	}
	return silence
}

func (c *coordinator) all(holds func(*member) bool) bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return !holds(m) })
}

// gather assigns the parts when enough agents have joined.
func (c *coordinator) gather(now time.Time, count int) {
	come := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m.hello.Name == "" })
	if len(come) < count || count == 0 {
		if now.Before(c.deadline) {
			return
		}
		if len(come) < max(count, 1) {
			c.err = c.From.absent(len(come))
			return
		}
	}
	if count == 0 {
		count = len(come)
	}
	slices.SortStableFunc(come, func(a, b *member) int { return strings.Compare(a.hello.Name, b.hello.Name) })
	for _, m := range c.members {
		if !slices.Contains(come[:count], m) {
			m.link.send(message{Stop: true})
			c.left = append(c.left, m)
		}
	}
	c.members = come[:count]
	c.step = connecting
	names := make(map[string]int)
	for _, m := range c.members {
		if names[m.hello.Name]++; names[m.hello.Name] > 1 {
			m.hello.Name = fmt.Sprintf("%s-%d", m.hello.Name, names[m.hello.Name])
		}
		if m.hello.Version != c.Version && c.err == nil {
			c.err = &load.Error{Kind: load.BadPlan, What: fmt.Sprintf("agent %s is hone %s, and this is %s", m.hello.Name, m.hello.Version, c.Version), Try: "run the same version everywhere"}
		}
	}
	plan := c.Plan
	plan.Partition = load.Partition{Of: count}
	if _, _, err := plan.Measures(); err != nil && c.err == nil {
		c.err = err
	}
	if c.err != nil {
		return
	}
	for i, m := range c.members {
		m.link.send(message{Job: &job{i, count, c.Job}})
	}
}

// begin sends each agent the start time, in the agent's clock.
func (c *coordinator) begin(now time.Time) {
	lead := 500 * time.Millisecond
	for _, m := range c.members {
		lead = max(lead, 8*m.first.error)
	}
	c.step, c.compared, c.start = running, now, now.Add(lead)
	start := c.clock().Add(lead)
	limit := max(mostError, (c.till-c.from)/errorPercent)
	for _, m := range c.members {
		if m.first.error > limit {
			c.lose(m, fmt.Sprintf("has a clock offset that is known only to within %s (the limit is %s); look at the network", figure.Time(m.first.error), figure.Time(limit)))
			return
		}
	}
	for _, m := range c.members {
		m.link.send(message{Start: start.Add(m.first.ahead).UnixNano()})
	}
}

// edges calls the plan's functions at the beginning and end of the measured time.
func (c *coordinator) edges(now time.Time) {
	if c.step < running || c.Plan.WindowOpens == nil {
		return
	}
	if !c.opened && c.step == running && now.Sub(c.start) >= c.from {
		c.opened = true
		c.Plan.WindowOpens()
	}
	if c.opened && !c.closed && (now.Sub(c.start) >= c.till || c.finished() || c.step == stopping) {
		c.closed = true
		if c.Plan.WindowCloses != nil {
			c.Plan.WindowCloses()
		}
	}
}

// result merges the agents' counts.
func (c *coordinator) result() (*load.Result, error) {
	c.edges(time.Now())
	agents := make([]load.Agent, len(c.members))
	for i, m := range c.members {
		a := load.Agent{Name: m.hello.Name, Machine: m.hello.Machine, Fault: m.fault}
		if m.trips > 0 {
			a.Clock, a.ClockError = new(float64(m.first.ahead)/1e3), new(float64(m.first.error)/1e3)
		}
		switch {
		case m.done != nil && m.done.Measured != nil:
			a.Measured = m.done.Measured
		case m.told:
			a.Measured = &m.sum
		}
		agents[i] = a
	}
	r, err := c.Plan.Merge(agents, c.series.all())
	switch {
	case err != nil:
		return nil, err
	case c.err != nil && !c.canceled:
		if slices.ContainsFunc(agents, func(a load.Agent) bool { return a.Measured != nil }) {
			return r, c.err
		}
		return nil, c.err
	}
	if c.canceled && !r.Interrupted {
		r.Interrupted, r.Valid = true, false
		r.InvalidReasons = append(r.InvalidReasons, "interrupted; let it run to the end")
	}
	return r, nil
}
