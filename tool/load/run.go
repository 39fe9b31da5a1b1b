package load

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/load/offer"
)

// Run opens the plan's connections, loads the target until the plan's time is
// over, waits for the last answers (no longer than Plan.Timeout), and reports.
//
// An *Error says why the run could not go on: its Kind is for programs, its text
// is one line for people. The Result beside it is nil when nothing was measured,
// else what was measured until then, never valid. When ctx ends first, the Result
// is what was measured until then, Interrupted and never valid, and the error is
// nil. Nothing is left running when Run returns; it takes at most Plan.Timeout
// longer than the plan's own times, and ends that soon after its context.
//
// Run's own cost: a few kilobytes a connection, 26 bytes for
// every request that was ever outstanding at the same time, no allocations for a request
// (TestSteadyStateAllocatesNothing), and the CPU time that BenchmarkGenerator
// shows. It counts the CPU time of the whole process as the generator's.
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

// run is one Run. The goroutine that called Run supervises: it alone opens and
// closes the window, collects the shards and stops everything.
type run struct {
	plan   Plan
	start  time.Time
	paced  bool          // an open loop
	sized  bool          // requests are of many sizes
	course *offer.Course // of a rate that changes; else nil
	idle   *soak         // connections that are kept; nil: none
	churn  *churner      // connections that come and go; nil: none

	// smallWindow says that all a connection may have outstanding fits into the
	// smallest of socket buffers, so that no write waits.
	smallWindow bool

	conns     []*conn // by number; complete when connected is closed
	shards    []*shard
	pacers    []*pacer
	readers   []*reader // of closed loops, where there can be any
	connected chan struct{}
	dialled   chan struct{} // closed when no dial is under way any more
	dialing   context.Context
	endDials  context.CancelFunc
	open      atomic.Int64 // connections so far, each counted once
	reopened  atomic.Int64 // those that were opened again within the window
	retried   atomic.Int64 // requests of the window that were sent again
	drains    atomic.Int64 // announcements within the window that the server shuts down

	connections outages

	begunRequests atomic.Int64 // of a closed loop with Plan.Requests or Plan.Traffic
	flows         []flowState  // of a plan with Traffic
	base          *url.URL     // where redirects lead from
	thoughts      *thoughts    // sessions of it whose clients think; nil: it has none
	followed      atomic.Int64 // of the window's requests, those that follow another one in their session
	usedUp        atomic.Bool  // there is no more data for sessions

	origin int64 // when the load begins, and request 0's moment in an open loop; 0: not known yet
	late   int64 // how much later it began
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
	headroom       = 64 // of a request, for what a layer below adds
)

func newRun(p Plan) *run {
	r := &run{
		plan: p, start: time.Now(), paced: p.paced(), sized: !p.Sizes.None(), course: p.course(),
		smallWindow: p.Depth*(p.longest()+headroom) <= smallestBuffer,
		conns:       make([]*conn, p.Part.count(p.Conns)),
		connections: outages{all: p.Part.count(p.Conns)},
		connected:   make(chan struct{}), dialled: make(chan struct{}), failed: make(chan struct{}),
	}
	r.dialing, r.endDials = context.WithCancel(fromSources(context.Background(), p.Sources))
	for range min(runtime.GOMAXPROCS(0), len(r.conns)) {
		r.shards = append(r.shards, &shard{
			timeout: int64(p.Timeout),
			now:     newTally(r.paced), spare: newTally(r.paced),
		})
	}
	for _, t := range []**tally{&r.total, &r.recent, &r.interval, &r.fresh} {
		*t = newTally(r.paced)
	}
	if p.Idle > 0 {
		r.idle = newSoak(r)
	}
	if p.Churn > 0 {
		r.churn = newChurner(r)
	}
	r.prepareTraffic()
	return r
}

// now is the run's clock: nanoseconds since it began. It is dear
// beside the rest (BenchmarkClock: 27 ns), so it is read once for what one read
// brought or one write takes away.
func (r *run) now() int64 { return int64(time.Since(r.start)) }

// fail ends the run with its first failure.
func (r *run) fail(e *Error) {
	if r.stopping.Load() {
		return // what fails now is our own doing
	}
	r.failOnce.Do(func() {
		e.Target = r.plan.Target.String()
		r.failure = e
		close(r.failed)
	})
}

// connect opens the connections, so many at once and so many a second as the
// plan's ramp says, and starts their readers, which notice a refusal at once.
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
	for range min(r.plan.Ramp.Dials, n) {
		dials.Go(func() {
			for r.dialing.Err() == nil {
				number := int(next.Add(1)) - 1
				if number >= n || r.plan.Ramp.PerSecond > 0 && !r.inTurn(since, number) || !dial(number) {
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
	r.goroutines.Add(1)
	go c.read()
	return true
}

func (r *run) cannotDial(err error) {
	if r.dialing.Err() == nil {
		r.fail(r.dialError(err, r.open.Load()))
		r.endDials()
	}
}

// inTurn waits for the moment in a ramp that began since then.
func (r *run) inTurn(since time.Duration, number int) bool {
	moment := since + time.Duration(float64(r.plan.Part.number(number))*1e9/r.plan.Ramp.PerSecond)
	timer := time.NewTimer(moment - time.Duration(r.now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.dialing.Done():
		return false
	}
}

// begin starts the load, whose request 0 is due at r.origin.
func (r *run) begin() error {
	r.late = max(0, r.now()-r.origin)
	r.window.from = r.origin + int64(r.plan.Warmup)
	r.window.till = r.window.from + int64(r.plan.For)
	for _, s := range r.shards {
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
	r.goroutines.Add(pacers)
	r.pacing.Store(int64(pacers))
	for _, p := range r.pacers {
		go p.pace()
	}
	return nil
}

// another is one request more of a closed loop, if it may send one. They are counted
// where their number is given or decides what they are.
func (r *run) another(now int64) (a arrival, ok bool) {
	a.moment = now
	if r.plan.Requests == 0 && r.flows == nil {
		return a, true
	}
	n := r.begunRequests.Add(1)
	if r.plan.Requests > 0 && n > r.plan.Part.share(r.plan.Requests) {
		return a, false
	}
	if r.flows != nil {
		return r.choose(a, uint64(r.plan.Part.number(int(n-1))))
	}
	return a, true
}

// complete reports whether all of the plan's number of requests have been sent and
// answered.
func (r *run) complete() bool {
	switch {
	case r.phase != Measuring:
		return false
	case r.usedUp.Load():
	case r.plan.Requests == 0, !r.paced && r.begunRequests.Load() < r.plan.Part.share(r.plan.Requests):
		return false
	}
	return r.drained()
}

// lastAnswer is the moment of the last answer; 0 before the first.
func (r *run) lastAnswer() (last int64) {
	for _, s := range r.shards {
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

// silence finds that no answer has come for the plan's time-out although one was
// outstanding all the time. After the last request it is a matter of single
// requests, unless there has never been an answer. Where there have been answers, and
// connections that can be opened, the requests that are sent in place of the first to
// time out have their time too, however long nobody had asked anything before.
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
	return &Error{
		Kind: Silent,
		What: fmt.Sprintf("no answer for %v, with requests outstanding on %d of %d connections", quiet, silent, len(r.conns)),
		Try:  "check that the server runs and speaks this protocol and dialect, or raise the time-out",
	}
}

// deserted is why no connection could be opened again, when none of them could and
// the load is over: what has been measured may be that of a server that is no more.
func (r *run) deserted() (why *Error) {
	for _, c := range r.conns {
		if _, why, _ = c.unanswered(); why == nil || why.Kind != Unreachable {
			return nil
		}
	}
	return why
}

// stop ends everything that runs and waits for it.
func (r *run) stop() {
	r.stopping.Store(true)
	if r.churn != nil && (r.interrupted || r.cause != nil) {
		r.churn.quit()
	}
	r.endDials()
	<-r.dialled
	for _, p := range r.pacers {
		p.alarm.timer.Close()
	}
	if r.churn != nil {
		r.churn.stop()
	}
	if r.thoughts != nil {
		r.thoughts.stop()
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
	if r.idle != nil {
		r.idle.close()
	}
}
