// Package fleet has one load sent by several processes, on this machine or on many.
//
// A coordinator gives each agent one part of a plan (load.Part) and one moment to begin,
// and merges what they count: the requests, their moments and their sizes are those that
// one process would send, and the result is made of the sum of the histograms, bucket by
// bucket. Response times never cross machines, so clocks matter for the start only. They
// are compared before it, and watched: one that goes wrong makes the result not valid, as
// does an agent that is late, slow, stopped or gone. Nothing is scaled up for it.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// Fleet is a load with those who send it.
type Fleet struct {
	// Plan is the load as one process would run it. Its Progress, WindowOpens and
	// WindowCloses are called here, those of idle connections never.
	Plan load.Plan
	// Job is what the agents make the same plan of.
	Job []byte
	// Version is the program's, which must be the agents'.
	Version string
	// From is where the agents are. Required.
	From Source
	// Told is called once a second with how each agent does. Zero: nobody.
	Told func([]Now)
}

// Now is how an agent does.
type Now struct {
	Name, Machine string
	Phase         string // of load.Progress
	Conns         int
	Rate          float64 // answers a second since it was asked last
	Errors        int64
	CPUShare      *float64
	Clock         time.Duration // how far its clock is ahead
	P50, P99      *float64      // of its last interval; nil: there was none
	Fault         string        // why it is not to be believed; empty: nothing is known
}

// Source is where agents come from: Local or NATS.
type Source interface {
	// open begins to have agents join, each once with its link, until close.
	open(c *coordinator) error
	// want is how many there should be, within how long; 0: all that come in that time.
	want() (count int, within time.Duration)
	// absent explains that only so many have come.
	absent(come int) error
	// lost explains why an agent's link has ended.
	lost(m *member, why error) string
	close()
}

// member is an agent that has joined.
type member struct {
	link   *link
	hello  hello
	number int // of a Source's own

	index  int
	heard  time.Time
	pings  int64
	asked  map[int64]time.Time // when pings were sent whose answers are still to come
	trips  int                 // pings that were answered, of those that compare the clocks
	ready  bool
	first  reading // before the start
	latest reading
	seen   seen
	before int64 // answers at the last report
	times  load.Quantiles

	sum   load.Measured // of its intervals
	told  bool          // it has had any
	done  *done
	fault string
}

// event is what a link has brought.
type event struct {
	from    *member
	message message
	joined  bool
	ended   error
}

// The steps of a coordinator.
const (
	gathering = iota
	connecting
	comparing // clocks
	running
	stopping
)

// coordinator is one Fleet.Run.
type coordinator struct {
	*Fleet
	clock    func() time.Time
	events   chan event
	over     chan struct{}
	members  []*member // before the run those that have joined, then by their index
	left     []*member // those that are not needed, or were lost too early
	step     int
	began    time.Time // Run
	compared time.Time // the clocks
	start    time.Time // the load's moment
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

// Run runs the load. The error and the Result are as of load.Run; the Result has a line
// for each agent. When it returns, agents on this machine have ended, and others are free.
// An agent that is lost is found within 3 s, and ends the run.
func (f *Fleet) Run(ctx context.Context) (*load.Result, error) {
	c := &coordinator{Fleet: f, clock: steady(), events: make(chan event, mostQueued), over: make(chan struct{}), began: time.Now()}
	var err error
	if c.from, c.till, err = f.Plan.Measures(); err != nil {
		return nil, err
	}
	if len(f.Job) > mostJob {
		return nil, &load.Error{Kind: load.BadPlan, What: fmt.Sprintf("the load with its files takes %d MiB, and agents are sent %d MiB at most", len(f.Job)>>20, mostJob>>20), Try: "use smaller files"}
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
			for range len(c.events) { // who has spoken is not to be taken for silent
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

// join adds an agent, whose link comes from connect. It is called by Sources.
func (c *coordinator) join(number int, connect func(take func(message), ended func(error)) *link) {
	m := &member{number: number, asked: make(map[int64]time.Time)}
	tell := func(e event) {
		select {
		case c.events <- e:
		case <-c.over:
		}
	}
	m.link = connect(func(said message) { tell(event{from: m, message: said}) }, func(err error) { tell(event{from: m, ended: err}) })
	tell(event{from: m, joined: true})
}

// take takes what a link has brought.
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
			c.lose(m, c.From.lost(m, e.ended))
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

// answered compares clocks.
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
			c.lose(m, fmt.Sprintf("has a clock that has moved by %v within %v of the others', so that its rate or its start is another; look at its machine's clock",
				apart.Round(time.Millisecond), after.Round(100*time.Millisecond)))
		}
	}
}

// pings asks all how they do, when it is time.
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

// ended takes an agent's last word.
func (c *coordinator) ended(m *member, d *done) {
	m.done = d
	switch {
	case d.Leaves:
		c.lose(m, "was interrupted on its own machine; let it run to the end")
	case d.Failure != nil:
		if c.err == nil {
			c.err = d.Failure.fault(m.hello.Name)
		}
		c.stop()
	case c.step == running:
		m.fault = c.doubt(m)
	}
}

// doubt is why an agent that has come to its end is not to be believed.
func (c *coordinator) doubt(m *member) string {
	measured := m.done.Measured
	if measured == nil {
		return "has not said what it measured; look into its log"
	}
	latency, _ := measured.Times()
	if late := measured.Late(); late > mostError {
		return fmt.Sprintf("began %v late; give it CPUs of its own", late.Round(time.Millisecond))
	}
	if (m.told || latency.TotalCount() > 0) && !m.sum.Same(measured) {
		return "has told other figures from second to second than at its end; look into its log"
	}
	return ""
}

// lose says why an agent is not to be believed, and ends the run.
func (c *coordinator) lose(m *member, why string) {
	if m.fault == "" {
		m.fault = why
	}
	_, here := c.From.(*Local)
	switch {
	case c.step == gathering && !here: // others may come
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

// finished reports whether all have said what they measured, or never will.
func (c *coordinator) finished() bool {
	if c.step < running {
		return false
	}
	for _, m := range c.members {
		if m.done == nil && (m.fault == "" || c.step == stopping && m.alive() && time.Now().Before(c.deadline)) {
			return false
		}
	}
	return true
}

// alive reports whether an agent with a fault may still say what it measured.
func (m *member) alive() bool {
	select {
	case <-m.link.over:
		return false
	default:
		return time.Since(m.heard) < silence
	}
}

// advance does what is due.
func (c *coordinator) advance(now time.Time, count int) {
	for _, m := range slices.Clone(c.members) {
		if m.done == nil && m.fault == "" && now.Sub(m.heard) > c.patience() {
			c.lose(m, fmt.Sprintf("has not been heard for %v: it has stopped, or what is between has; look at its machine and the network", c.patience().Round(time.Second/10)))
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
				clear(m.asked) // they may have waited for the connections
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

// patience is how long an agent may be silent: longer while it has to receive the job,
// for which a quarter of a megabyte a second is enough.
func (c *coordinator) patience() time.Duration {
	if c.step == connecting {
		return silence + 4*time.Duration(len(c.Job))*time.Microsecond
	}
	return silence
}

func (c *coordinator) all(holds func(*member) bool) bool {
	return !slices.ContainsFunc(c.members, func(m *member) bool { return !holds(m) })
}

// gather hands out the parts when enough agents have come.
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
	slices.SortStableFunc(come, func(a, b *member) int {
		if a.number != b.number {
			return a.number - b.number
		}
		return strings.Compare(a.hello.Name, b.hello.Name)
	})
	for _, m := range c.members {
		if !slices.Contains(come[:count], m) {
			m.link.send(message{Stop: true})
			c.left = append(c.left, m)
		}
	}
	c.members = come[:count]
	c.step = connecting
	names := make(map[string]int)
	for i, m := range c.members {
		if names[m.hello.Name]++; names[m.hello.Name] > 1 {
			m.hello.Name = fmt.Sprintf("%s-%d", m.hello.Name, names[m.hello.Name])
		}
		if m.hello.Version != c.Version && c.err == nil {
			c.err = &load.Error{Kind: load.BadPlan, What: fmt.Sprintf("agent %s is hone %s, and this is %s", m.hello.Name, m.hello.Version, c.Version), Try: "run the same version everywhere"}
		}
		m.index = i
	}
	plan := c.Plan
	plan.Part = load.Part{Of: count}
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

// begin names the moment, in each agent's clock.
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
			c.lose(m, fmt.Sprintf("has a clock that can be compared to within %v only (the limit is %v); look at the network between", m.first.error.Round(time.Millisecond), limit))
			return
		}
	}
	for _, m := range c.members {
		m.link.send(message{Start: start.Add(m.first.ahead).UnixNano()})
	}
}

// edges calls who reads a server's clocks at the edges of the measured time.
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

// result merges what the agents have measured.
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
