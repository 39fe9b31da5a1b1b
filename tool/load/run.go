package load

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
)

// Run opens the plan's connections, loads the target for the plan's time, waits for the last
// answers (no longer than Plan.Timeout), and reports.
//
// An *Error explains why the run could not go on: its Kind is for programs, its text is one line
// for people. The Result returned with it is nil when nothing was measured, else it holds what was
// measured until then and is never valid. When ctx ends first, the Result holds what was measured
// until then, is Interrupted and never valid, and the error is nil. Nothing is left running when
// Run returns. Run takes at most Plan.Timeout longer than the plan's own times, and after ctx ends
// it returns within that time.
//
// Run's own cost: a few kilobytes per connection, 26 bytes per request of the largest number ever
// in flight, no allocations per request (TestSteadyStateAllocatesNothing), and the CPU time that
// BenchmarkGenerator shows. It counts the CPU time of the whole process as the generator's.
func Run(ctx context.Context, p Plan) (*Result, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	if err := p.preflight(); err != nil {
		return nil, err
	}
	r := newRun(p)
	r.startReaders()
	go r.connect()
	r.watch(ctx)
	r.stop()
	return r.result()
}

// run is one Run. The goroutine that called Run supervises: it alone opens and closes the window,
// collects the counters and stops everything.
type run struct {
	plan     Plan
	start    time.Time
	paced    bool            // an open loop
	sized    bool            // requests are of many sizes
	timeline *offer.Timeline // a changing rate; else nil
	idle     *idleConns      // idle connections; nil: none
	churn    *churner        // connection churn; nil: none

	// smallWindow says that everything that may be outstanding on a connection fits into the
	// smallest socket buffer, so that writes never block.
	smallWindow bool

	conns     []*conn // by number; complete when connected is closed
	counters  []*counter
	pacers    []*pacer
	timers    []*sys.Timer // of the supervisor: it alone opens and closes them
	readers   []*reader    // in closed loops, where the system has a poller
	connected chan struct{}
	dialled   chan struct{} // closed when the last dial has returned
	dialing   context.Context
	endDials  context.CancelFunc
	open      atomic.Int64 // connections so far, each counted once
	reopened  atomic.Int64 // reconnects within the window
	retried   atomic.Int64 // requests of the window that were resent
	drains    atomic.Int64 // announcements within the window that the server shuts down

	connections outages

	begunRequests atomic.Int64  // in a closed loop with Plan.Requests or Plan.Traffic
	flows         []flowState   // of a plan with Traffic
	shortest      time.Duration // the shortest time-out of any request
	heartbeats    []*heartbeat  // of a closed loop
	lag           atomic.Int64  // the longest time by which the generator was late since the last Progress
	tardy         atomic.Int64  // of the window's requests, those that it delayed by more than Plan.MaxLag
	thoughts      *thoughts     // sessions in their think time; nil: no step has one
	followed      atomic.Int64  // requests of the window that are later steps of their session
	usedUp        atomic.Bool   // the data has no more rows

	origin int64 // when the load begins; in an open loop the moment of request 0; 0: not known yet
	late   int64 // how late it began
	window window

	goroutines sync.WaitGroup // readers, writers, pacers
	pacing     atomic.Int64   // pacers that have not finished
	begun      atomic.Bool
	stopping   atomic.Bool
	failed     chan struct{} // closed with the first failure
	failOnce   sync.Once
	failure    *Error

	supervision
}

const (
	smallestBuffer = 16 << 10
	headroom       = 64 // bytes per request for what lower layers add
)

func newRun(p Plan) *run {
	r := &run{
		plan: p, start: time.Now(), shortest: p.Timeout, paced: p.paced(), sized: !p.Sizes.None(), timeline: p.timeline(),
		smallWindow: p.Depth*(p.longest()+headroom) <= smallestBuffer,
		conns:       make([]*conn, p.Partition.count(p.Conns)),
		connections: outages{all: p.Partition.count(p.Conns)},
		connected:   make(chan struct{}), dialled: make(chan struct{}), failed: make(chan struct{}),
	}
	r.dialing, r.endDials = context.WithCancel(codec.FromSources(context.Background(), p.Sources))
	for range min(runtime.GOMAXPROCS(0), len(r.conns)) {
		r.counters = append(r.counters, &counter{
			timeout: int64(p.Timeout),
			now:     newTally(r.paced), spare: newTally(r.paced),
		})
	}
	for _, t := range []**tally{&r.total, &r.recent, &r.interval, &r.fresh} {
		*t = newTally(r.paced)
	}
	if p.Idle > 0 {
		r.idle = newIdleConns(r)
	}
	if p.Churn > 0 {
		r.churn = newChurner(r)
	}
	r.prepareTraffic()
	return r
}

// now returns the run's clock: nanoseconds since it began. Reading it is expensive here
// (BenchmarkClock: 27 ns), so it is read once per read and once per write.
func (r *run) now() int64 { return int64(time.Since(r.start)) }

// fail ends the run with its first failure.
func (r *run) fail(e *Error) {
	if r.stopping.Load() {
		return // the run itself closes connections now
	}
	r.failOnce.Do(func() {
		e.Target = r.plan.Target.String()
		r.failure = e
		close(r.failed)
	})
}

// connect opens the connections within the limits of the plan's ramp, and starts their readers,
// which notice a refusal at once.
func (r *run) connect() {
	defer close(r.dialled)
	if !r.rampUp(len(r.conns), r.dial) || r.idle != nil && !r.idle.open() {
		return
	}
	close(r.connected)
}

// rampUp opens n connections, and reports whether all are open.
func (r *run) rampUp(n int, dial func(number int) bool) bool {
	var next, opened atomic.Int64
	var dials sync.WaitGroup
	since := time.Duration(r.now())
	for range min(mostDials, n) {
		dials.Go(func() {
			for r.dialing.Err() == nil {
				number := int(next.Add(1)) - 1
				if number >= n || r.plan.Ramp > 0 && !r.inTurn(since, number) || !dial(number) {
					return
				}
				opened.Add(1)
			}
		})
	}
	dials.Wait()
	return int(opened.Load()) == n
}

// dial opens one of the run's own connections, and reports whether it is open.
func (r *run) dial(number int) bool {
	ctx, cancel := context.WithTimeout(r.dialing, r.plan.Timeout)
	defer cancel()
	nc, err := r.plan.Target.Dial(ctx)
	if err != nil {
		r.cannotDial(err)
		return false
	}
	c := newConn(r, number, nc)
	r.conns[number] = c
	r.open.Add(1)
	if n := len(r.readers); n > 0 && r.readers[number%n].take(c) {
		return true
	}
	r.goroutines.Go(c.read)
	return true
}

func (r *run) cannotDial(err error) {
	if r.dialing.Err() == nil {
		r.fail(dialError(err, r.open.Load(), r.plan.Timeout))
		r.endDials()
	}
}

// inTurn waits until the ramp, which began at since, allows a connection.
func (r *run) inTurn(since time.Duration, number int) bool {
	moment := since + time.Duration(float64(r.plan.Partition.number(number))*1e9/r.plan.Ramp)
	select {
	case <-time.After(moment - time.Duration(r.now())):
		return true
	case <-r.dialing.Done():
		return false
	}
}

// begin starts the load; request 0 is due at r.origin.
func (r *run) begin() error {
	r.late = max(0, r.now()-r.origin)
	if now := r.now(); r.plan.Warmup == 0 && now >= r.origin { // the window opens before the first request
		r.openWindow(now)
		if r.plan.Partition.Start == nil {
			r.origin = r.now() // what is called then may take its time
		}
	}
	r.window.from = r.origin + int64(r.plan.Warmup)
	r.window.till = r.window.from + int64(r.plan.For)
	r.cut = r.window.from
	for _, s := range r.counters {
		s.window = r.window
	}
	r.connections.opens(r.window)
	if r.idle != nil {
		r.idle.until(r.window.till)
	}
	if r.churn != nil {
		if err := r.churn.begin(); err != nil {
			return err
		}
	}
	if r.thoughts != nil {
		if err := r.thoughts.begin(); err != nil {
			return err
		}
	}
	if err := r.startHeartbeats(); err != nil {
		return err
	}
	for _, c := range r.conns {
		c.begin(r.now())
	}
	if !r.paced {
		r.begun.Store(true)
		return nil
	}
	pacers := pacersFor(r.plan, runtime.GOMAXPROCS(0))
	for i := range pacers {
		p, err := newPacer(r, i, pacers)
		if err != nil {
			return err
		}
		r.pacers = append(r.pacers, p)
	}
	r.pacing.Store(int64(pacers))
	for _, p := range r.pacers {
		r.goroutines.Go(p.pace)
	}
	return nil
}

// another returns the next request of a closed loop, if it may send one. It counts requests only
// where their number is limited or determines their content.
func (r *run) another(now int64) (a arrival, ok bool) {
	a.moment = now
	if r.plan.Requests == 0 && r.flows == nil {
		return a, true
	}
	n := r.begunRequests.Add(1)
	if r.plan.Requests > 0 && n > r.plan.Partition.share(r.plan.Requests) {
		return a, false
	}
	if r.flows != nil {
		return r.choose(a, uint64(r.plan.Partition.number(int(n-1))))
	}
	return a, true
}

// complete reports whether all requests of a limited number have been sent and answered.
func (r *run) complete() bool {
	switch {
	case r.phase != Measuring:
		return false
	case r.usedUp.Load():
	case r.plan.Requests == 0, !r.paced && r.begunRequests.Load() < r.plan.Partition.share(r.plan.Requests):
		return false
	}
	return r.drained()
}

// lastAnswer returns the time of the last answer; 0 before the first.
func (r *run) lastAnswer() (last int64) {
	for _, s := range r.counters {
		last = max(last, s.lastAnswer())
	}
	return last
}

// drained reports whether everything was sent and answered.
func (r *run) drained() bool {
	if r.pacing.Load() > 0 || r.churn != nil && r.churn.busy() {
		return false
	}
	for _, c := range r.conns {
		if !c.idle() {
			return false
		}
	}
	return true
}

// silence returns an error when no answer has come for the plan's time-out although one was
// outstanding all the time. After the last request only single requests can time out, unless there
// has never been an answer. If there have been answers, and connections can be opened, the
// requests sent in place of the first that timed out get their own time-out, too, however long the
// connection was idle before.
func (r *run) silence(now int64) *Error {
	limit := now - int64(r.plan.Timeout)
	if r.phase == Draining {
		limit = 0
	}
	last := r.lastAnswer()
	if last > limit {
		return nil
	}
	limit = now - int64(r.plan.Timeout)
	silent, first := 0, now
	for _, c := range r.conns {
		since, why, ok := c.unanswered()
		if !ok || since > limit {
			continue
		}
		if why != nil {
			return why
		}
		silent++
		first = min(first, since)
	}
	if silent == 0 {
		return nil
	}
	if r.unheard <= last {
		r.unheard = first
	}
	quiet := r.plan.Timeout
	if last > 0 {
		quiet *= 2
	}
	if now-r.unheard < int64(quiet) {
		return nil
	}
	try := "check that the server runs and speaks this protocol, or raise the time-out (--timeout)"
	if !r.paced {
		try = "check that the server runs, speaks this protocol, and does not hold its answers back (is a buffer flushed?), or raise the time-out (--timeout)"
	}
	return &Error{
		Kind: codec.Silent,
		What: fmt.Sprintf("no answer for %v, with requests outstanding on %d of %d connections", quiet, silent, len(r.conns)),
		Try:  try,
	}
}

// deserted returns why no connection could be opened again, when the load is over and none is
// open: then the server may be gone, and part of the measurement with it.
func (r *run) deserted() (why *Error) {
	for _, c := range r.conns {
		if _, why, _ = c.unanswered(); why == nil || why.Kind != Unreachable {
			return nil
		}
	}
	return why
}

// stop ends all goroutines and waits for them.
func (r *run) stop() {
	r.stopping.Store(true)
	if r.churn != nil && (r.interrupted || r.cause != nil) {
		r.churn.quit()
	}
	r.endDials()
	<-r.dialled
	for _, t := range r.timers {
		t.Close() // ends the goroutine that waits for it
	}
	if r.idle != nil {
		r.idle.stop()
	}
	for _, c := range r.conns {
		if c != nil {
			c.currentSocket().nc.Close()
		}
	}
	for _, rd := range r.readers {
		_ = rd.poll.Wake() // nothing else can fail in an eventfd's write
	}
	r.goroutines.Wait()
	for _, rd := range r.readers {
		_ = rd.poll.Close()
	}
	for _, h := range r.heartbeats {
		h.threads.Close()
	}
	if r.idle != nil {
		r.idle.close()
	}
}
