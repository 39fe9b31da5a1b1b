package load

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/tool/load/source"
	"github.com/hone-go/hone/tool/load/traffic"
)

// Plan describes a load. The zero value of every field but Target has a useful meaning. Processes
// are not pinned to CPUs: use the system's tools to give the generator its own.
type Plan struct {
	// Target is the server to load. Required.
	Target codec.Target
	// Conns is how many connections to open before the load begins. Zero: 1, or none if there are
	// Idle or Churn.
	Conns int
	// Depth is how many requests may be outstanding on one connection, at most 65,535. A closed
	// loop keeps that many outstanding. In an open loop a request that is due while all are
	// outstanding waits for an answer, and the wait is part of its response time. Zero: 1 in a
	// closed loop, 256 in an open one; for HTTP 1 in both.
	Depth int
	// Rate is how many requests a second to send, over all connections; request n goes to
	// connection n modulo Conns. Zero: a closed loop, as fast as answers come, unless there is a
	// Schedule.
	Rate float64
	// Schedule changes the rate over the measured time and replaces Rate; the warm-up has its
	// first rate. Zero: none.
	Schedule offer.Schedule
	// Arrivals is the distribution of requests over time when there is a rate, and of the
	// connections of a Churn. Zero: Constant.
	Arrivals Arrivals
	// Requests is how many requests to send in all; the run ends when each is answered or lost,
	// and there is no Warmup. Zero: as many as fit into For.
	Requests int64
	// For is how long to measure; with Requests it is the time limit. Zero: as long as the
	// Schedule's steps or period, else 10 s, or an hour with Requests.
	For time.Duration
	// Warmup is how long to load before measuring. Zero: a tenth of For, at most 5 s. Negative: no
	// warm-up.
	Warmup time.Duration
	// Ramp is how many connections are opened a second. Zero: no limit.
	Ramp float64
	// Timeout is the longest time for opening a connection, and for the answer to a request that
	// was sent. A request without an answer is counted under Timeout and given up, together with
	// its connection if that cannot go on without the answer. An answer that comes later than this
	// after the request's moment is recorded with its full time and is also counted as an error. A
	// run ends when no connection could be opened, or kept open for an answer, for this long; and
	// when none has received an answer for this long at the beginning, or for twice as long later.
	// Zero: 5 s.
	// A step of Traffic may have a shorter one.
	Timeout time.Duration
	// Sources are the addresses that connections come from, one after the other. Only the targets
	// of this package support them. Zero: the system chooses.
	Sources source.Addresses
	// Idle is how many further connections are opened before the load begins, under the same Ramp,
	// used for one request each, and then kept idle. Zero: none.
	Idle int
	// IdleOpens and IdleOpened are called before the first idle connection is opened and after the
	// last has received its answer, to read a server's memory. They must return as soon as
	// Progress. They may be nil.
	IdleOpens, IdleOpened func()
	// Churn is how many connections a second are opened in addition to the load, used for one
	// request, and closed. Each has a scheduled moment, from which its times count, and never
	// waits for another. Zero: none.
	Churn float64
	// Traffic describes sessions of different requests. Each arrival is then a session, Rate and
	// Requests count sessions, and every step has figures of its own. Its Seed must be the plan's.
	// Zero: the same request every time.
	Traffic *traffic.Script
	// Content is what every request carries. Zero: Size letters, chosen by Seed; an empty slice
	// that is not nil: no content. A target of HTTP has its own body.
	Content []byte
	// Size is the length of the content when Content is nil. Zero: 32.
	Size int
	// Sizes gives every request a content of its own size, a function of the request's number and
	// Seed, when Content is nil. It replaces Size. Zero: none.
	Sizes offer.Sizes
	// Expect is the content that every answer must have. Zero: any content; an empty slice that is
	// not nil: no content.
	Expect []byte
	// Echo requires every answer to carry its request's content. It replaces Expect.
	Echo bool
	// Seed determines the content, its Sizes and the Poisson arrivals: the same seed gives the
	// same schedule on any machine. Zero is a seed like any other.
	Seed uint64
	// MaxLag is how late the generator may send one request in a hundred before the result is
	// invalid. Zero: 1 ms. In a closed loop it is what the generator may add to the answers of p50,
	// p90 and p99, or a quarter of these if that is more. In every loop, a single moment of 100 ms
	// (or MaxLag, if that is longer) in which the generator did not run makes the result invalid.
	MaxLag time.Duration
	// MaxStall is the longest stall of the whole target that does not make the result of an open
	// loop invalid: what comes due in a stall at the end has no answer yet when the measured time
	// ends. Sixteen runs of 2.5 s with four handlers that stop an event loop for 50 ms each were
	// from 2.8 % behind to 4.1 % ahead of the same schedule. Zero: no stall is expected.
	MaxStall time.Duration
	// AllowErrors keeps a result with errors valid, AllowBehind one of a target that does not
	// keep up with the rate, which Result.Kept then shows, and AllowLate one of a closed loop whose
	// percentiles are the generator's own, which Result.Latency and Service then lack.
	AllowErrors, AllowBehind, AllowLate bool
	// Partition makes the run send one part of the plan, and other processes the rest. Zero: all of it.
	Partition Partition
	// Settings are the caller's names and values of the plan's settings, for Result.Settings.
	// Zero: only those that Run fills in, which are the ones with a default.
	Settings map[string]string
	// Progress is called once a second during Run, and must return soon: it delays the run's
	// supervision, though not its requests. It may be nil.
	Progress func(Progress)
	// WindowOpens and WindowCloses are called at the beginning and the end of the measured time,
	// to read a server's counters. They must return as soon as Progress. WindowCloses is not
	// called without WindowOpens. They may be nil.
	WindowOpens, WindowCloses func()
	// Rivals is called after WindowCloses: of the CPU time that this process did not use in the
	// measured time, the share that programs other than the server's used, and how long the server's
	// threads, together, waited for a processor. Nil, or a nil share: not known, so that no wait counts.
	Rivals func() (share *float64, server time.Duration)

	route codec.Route // of the completed plan
}

// Arrivals is the distribution of an open loop's requests over time.
type Arrivals uint8

const (
	// Constant sends request n at exactly n/Rate.
	Constant Arrivals = iota
	// Poisson sends them as many independent clients would: the gaps are exponentially
	// distributed, with the same mean.
	Poisson
)

// String returns "constant" or "poisson".
func (a Arrivals) String() string {
	switch a {
	case Constant:
		return "constant"
	case Poisson:
		return "poisson"
	}
	return fmt.Sprintf("arrivals_%d", uint8(a))
}

// UnmarshalText parses "constant" or "poisson", exactly.
func (a *Arrivals) UnmarshalText(text []byte) error {
	for _, known := range []Arrivals{Constant, Poisson} {
		if string(text) == known.String() {
			*a = known
			return nil
		}
	}
	return fmt.Errorf("load: there are no arrivals %q; use constant or poisson", text)
}

// Progress is the state of a run.
type Progress struct {
	Phase    string        // Connecting, WarmingUp, Measuring or Draining
	Elapsed  time.Duration // since Run began
	Conns    int           // connections open
	Answered int64         // answers since Run began
	Rate     float64       // answers a second since the last Progress
	Errors   int64         // requests of the measured time that failed so far
	// P50 and P99 are response times, in microseconds, of the measured requests that were answered
	// since the last Progress; nil if there were too few.
	P50, P99 *float64
	// Latency and Service are the distributions of those requests, in nanoseconds; in a closed
	// loop they are one histogram. They are valid until Progress returns.
	Latency, Service *hdrhistogram.Histogram
	// CPUShare is the fraction of the CPUs that GOMAXPROCS allows which the process used since the
	// last Progress; nil where the system does not report it.
	CPUShare *float64
	// Lag is the longest time by which the generator itself was late since the last Progress; Doubt
	// is the reason by which its delays so far make the result invalid. Empty: none is known yet.
	Lag   time.Duration
	Doubt string
}

// The values of fields of a Plan that are zero.
const (
	DefaultSize    = 32
	DefaultFor     = 10 * time.Second
	DefaultTimeout = 5 * time.Second
	DefaultMaxLag  = time.Millisecond
)

const (
	mostDepth     = 1<<16 - 1
	openDepth     = 256
	longestFor    = time.Hour // for Requests
	longestWarmup = 5 * time.Second
	mostDials     = 64 // connections being opened at once
)

// complete checks the plan and fills in the defaults.
func (p Plan) complete() (Plan, error) {
	if err := p.check(); err != nil {
		return p, err
	}
	var err error
	if p.route, err = p.Target.Prepare(p.carries()); err != nil {
		return p, err
	}
	if p.route.Target != nil {
		p.Target = p.route.Target
	}
	if p.route.Network == "unix" && p.Sources.Len() > 0 {
		return p, badPlan("source addresses for a unix socket", "leave them out: there only the path is an address")
	}
	if p.Idle == 0 && p.Churn == 0 {
		p.Conns = max(p.Conns, 1)
	}
	p.Depth, p.Content = p.depth(), p.Carried()
	p.For = cmp.Or(p.For, p.Schedule.Length())
	if p.Requests > 0 {
		p.For = cmp.Or(p.For, longestFor)
		p.Warmup = cmp.Or(p.Warmup, -1)
	}
	if p.Traffic != nil && slices.ContainsFunc(p.Traffic.Shares(), func(s traffic.Share) bool { return s.Limit > 0 }) {
		p.Warmup = cmp.Or(p.Warmup, -1) // every row counts
	}
	p.For = cmp.Or(p.For, DefaultFor)
	p.Warmup = cmp.Or(p.Warmup, min(p.For/10, longestWarmup))
	p.Warmup = max(p.Warmup, 0)
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.MaxLag = cmp.Or(p.MaxLag, DefaultMaxLag)
	if p.Echo {
		p.Expect = p.Content
	}
	return p, nil
}

// carries returns what a target has to know of the plan.
func (p Plan) carries() codec.Load {
	content := p.Carried()
	l := codec.Load{
		Content: content, Least: len(content), Most: len(content), Expect: p.Expect, Echo: p.Echo, Traffic: p.Traffic,
		Chosen: p.Content != nil || p.Size != 0 || !p.Sizes.None(), Depth: p.depth(),
	}
	if !p.Sizes.None() {
		l.Least, l.Most = p.Sizes.Bounds()
	}
	if p.Traffic != nil {
		l.Least, l.Most = p.Traffic.Contents()
	}
	return l
}

// depth returns Depth, or its default.
func (p Plan) depth() int {
	if p.paced() && !p.route.Whole {
		return cmp.Or(p.Depth, openDepth)
	}
	return cmp.Or(p.Depth, 1)
}

// settings returns Settings, with the values that the completed plan has for defaults.
func (p Plan) settings() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.Settings)
	all["conns"], all["depth"] = strconv.Itoa(p.Conns), strconv.Itoa(p.Depth)
	all["rate"] = strconv.FormatFloat(p.Rate, 'g', -1, 64)
	all["for"], all["warmup"] = p.For.String(), p.Warmup.String()
	if p.Requests > 0 {
		all["count"] = strconv.FormatInt(p.Requests, 10)
	}
	return all
}

// paced reports whether this is an open loop.
func (p Plan) paced() bool { return p.Rate > 0 || !p.Schedule.None() }

// timeline returns the completed plan's Schedule; nil when it has none.
func (p Plan) timeline() *offer.Timeline {
	if p.Schedule.None() {
		return nil
	}
	return p.Schedule.Over(p.Warmup, p.For)
}

// Carried returns the content that requests of the plan carry: Content, or its default. With Sizes it
// is that of the largest request, and the others send a prefix of it.
func (p Plan) Carried() []byte {
	if p.Content != nil {
		return p.Content
	}
	if !p.Sizes.None() {
		_, most := p.Sizes.Bounds()
		return letters(most, p.Seed)
	}
	return letters(cmp.Or(p.Size, DefaultSize), p.Seed)
}

// letters returns content that is a function of the seed.
func letters(n int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	content := make([]byte, n)
	for i := range content {
		content[i] = byte('a' + random.IntN(26))
	}
	return content
}
