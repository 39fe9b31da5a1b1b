package load

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/tool/load/source"
	"github.com/hone-go/hone/tool/load/traffic"
)

// Plan is what to do. Every field but Target has a working zero. Processes are
// not pinned to CPUs: give the generator its own by the means of the system.
type Plan struct {
	// Target is what to drive. Required.
	Target Target
	// Conns is how many connections to open before anything is sent. Zero: 1, or none
	// where there are Idle or Churn.
	Conns int
	// Depth is how many requests may be outstanding on one connection, at most
	// 65,535. A closed loop keeps so many; in an open loop a request that is due
	// while they all are waits for an answer, and its response time grows. Zero: 1
	// in a closed loop, 256 in an open one; for HTTP 1 in both.
	Depth int
	// Rate is the requests a second to offer, over all connections, request n on
	// connection n modulo Conns. Zero: a closed loop, as fast as answers come, unless
	// there is a Schedule.
	Rate float64
	// Schedule is a rate that changes, instead of Rate, over the measured time; the
	// warm-up has its first rate. Zero: none.
	Schedule offer.Schedule
	// Arrivals is how requests are spread over time when there is a rate, and new
	// connections of a Churn. Zero: Constant.
	Arrivals Arrivals
	// Requests is how many requests to send in all; the run ends when each is answered
	// or lost, and there is no Warmup. Zero: as many as For has.
	Requests int64
	// AbortOn are goals that end the run as soon as it is certain that one is missed
	// (Goal.missed says when that is). Zero: none.
	AbortOn []Goal
	// For is how long to measure, at most where there are Requests. Zero: as long as
	// the Schedule's steps or period take, else 10 s, or an hour for Requests.
	For time.Duration
	// Warmup is how long to load before measuring. Zero: a tenth of For, at most
	// 5 s. Negative: not at all.
	Warmup time.Duration
	// Ramp is how connections are opened.
	Ramp Ramp
	// Timeout is how long a connection may take to open, and the answer to a request
	// that was sent. A request without one is counted under Timeout and given up, with
	// its connection where that cannot go on without the answer. An answer that comes
	// later than this after the request's moment is recorded as late as it is and
	// counted as an error too. A run ends when no connection could be opened, or kept
	// open for an answer, for so long; and when none has had an answer for so long at
	// the beginning, or for twice so long later. Zero: 5 s.
	Timeout time.Duration
	// Deadline is how long after its moment a request of an open loop is still sent,
	// whatever has kept it. A later one is shed: not sent, counted under Shed, and
	// recorded with the time that it has waited. Zero: only Timeout bounds it.
	Deadline time.Duration
	// Sources are the addresses that connections come from, one after the other. Only
	// the targets of this package know of them. Zero: as the system chooses.
	Sources source.Addresses
	// Idle is how many further connections are opened before the load begins, in the
	// same Ramp, used for one request each, and then kept without a word. Zero: none.
	Idle int
	// IdleOpens and IdleOpened are called before the first of them is opened and after
	// the last has had its answer, to read a server's memory there. They must return as
	// soon as Progress. Zero: nobody.
	IdleOpens, IdleOpened func()
	// Churn is how many connections a second are opened beside the load, used for one
	// request, and closed. Each has its moment, and its times count from then; it never
	// waits for another. Zero: none.
	Churn float64
	// ChurnUnused has those connections closed without a request.
	ChurnUnused bool
	// Traffic is what clients do, where requests differ: each arrival is then a session of
	// its steps, Rate and Requests count sessions, and every step has figures of its own.
	// Its Seed must be the plan's. Zero: the same request every time.
	Traffic *traffic.Script
	// Content is what every request carries. Zero: Size bytes of letters, chosen
	// by Seed; an empty slice that is not nil: nothing. A target of HTTP has its own.
	Content []byte
	// Size is the length of the content when Content is nil. Zero: 32.
	Size int
	// Sizes has every request carry as many bytes of content as they say, of request n
	// by n and Seed alone, when Content is nil. They take the place of Size. Zero: none.
	Sizes offer.Sizes
	// Expect is the content that every answer must have. Zero: any will do; an
	// empty slice that is not nil: none.
	Expect []byte
	// Echo wants every answer to carry its request's content. It takes the place
	// of Expect.
	Echo bool
	// Seed chooses the content, its Sizes and the Poisson arrivals: the same seed, the
	// same schedule, on any machine. Zero is a seed like any other.
	Seed uint64
	// MaxLag is how late the generator may be with one request in a hundred
	// before the result is invalid. Zero: 1 ms.
	MaxLag time.Duration
	// MaxStall is how long the target may stop for everybody at a time before the
	// result of an open loop is invalid for it: what comes due meanwhile has no
	// answer yet when the measured time ends. Sixteen runs of 2.5 s beside four
	// handlers that stop an event loop for 50 ms each were from 2.8 % behind to
	// 4.1 % ahead of the same schedule. Zero: it does not stop.
	MaxStall time.Duration
	// AllowErrors keeps a result valid that has errors in it.
	AllowErrors bool
	// Part has the run do one part of the plan, and others the rest. Zero: all of it.
	Part Part
	// Settings are what the caller calls the plan's settings, for Result.Settings.
	// Zero: only those that Run fills in, the ones that have a zero of their own.
	Settings map[string]string
	// Progress is called once a second while Run lasts, and must return soon: it
	// holds up the run's supervision, though not its requests. Zero: nobody.
	Progress func(Progress)
	// WindowOpens and WindowCloses are called at the edges of the measured time,
	// to read a server's clocks there. They must return as soon as Progress.
	// WindowCloses is not called without WindowOpens. Zero: nobody.
	WindowOpens, WindowCloses func()
}

// Ramp bounds how connections are opened.
type Ramp struct {
	PerSecond float64 // connections begun in a second; zero: no limit
	Dials     int     // connections being opened at the same time; zero: 64
}

// Arrivals is how the requests of an open loop are spread over time.
type Arrivals uint8

const (
	// Constant sends request n at n/Rate, exactly.
	Constant Arrivals = iota
	// Poisson spreads them as if many clients decided independently: the gaps are
	// exponentially distributed, with the same mean.
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

// UnmarshalText takes "constant" or "poisson", exactly; with MarshalText it
// makes an Arrivals a flag, by flag.TextVar.
func (a *Arrivals) UnmarshalText(text []byte) error {
	for _, known := range []Arrivals{Constant, Poisson} {
		if string(text) == known.String() {
			*a = known
			return nil
		}
	}
	return fmt.Errorf("load: there are no arrivals %q; use constant or poisson", text)
}

// MarshalText returns what UnmarshalText takes.
func (a Arrivals) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Progress is how a run goes, as plain values.
type Progress struct {
	Phase    string        // Connecting, WarmingUp, Measuring or Draining
	Elapsed  time.Duration // since Run began
	Conns    int           // connections open
	Answered int64         // answers since Run began
	Rate     float64       // answers a second since the last Progress
	Errors   int64         // requests of the measured time that failed so far
	// P50 and P99 are response times in microseconds of the measured requests
	// that were answered since the last Progress; nil when there were too few.
	P50, P99 *float64
	// Latency and Service are all that was measured of those requests, in
	// nanoseconds; in a closed loop they are one histogram. They are the receiver's
	// until it returns.
	Latency, Service *hdrhistogram.Histogram
	// CPUShare is the part of what GOMAXPROCS allows that the process used since the
	// last Progress; nil where the system does not tell.
	CPUShare *float64
}

const (
	mostDepth     = 1<<16 - 1
	openDepth     = 256
	usualSize     = 32
	usualFor      = 10 * time.Second
	longestFor    = time.Hour // for Requests
	longestWarmup = 5 * time.Second
	usualTimeout  = 5 * time.Second
	usualMaxLag   = time.Millisecond
	usualDials    = 64
)

// complete checks the plan and fills in what zero stands for.
func (p Plan) complete() (Plan, error) {
	if err := p.check(); err != nil {
		return p, err
	}
	var err error
	switch t := p.Target.(type) { // those that are embedded in others are the others' own affair
	case Frames:
		err = t.fits(p)
	case Messages:
		err = t.fits(p)
	case HTTP:
		p.Target, err = t.prepared(p)
	case WebSocket:
		p.Target, err = t.prepared(p)
	}
	if err != nil {
		return p, err
	}
	if err := p.checkSources(); err != nil {
		return p, err
	}
	if p.Idle == 0 && p.Churn == 0 {
		p.Conns = max(p.Conns, 1)
	}
	p.Depth, p.Content = p.depth(), p.content()
	orElse(&p.For, p.Schedule.Length())
	if p.Requests > 0 {
		orElse(&p.For, longestFor)
		orElse(&p.Warmup, -1)
	}
	if p.Traffic != nil && slices.ContainsFunc(p.Traffic.Shares(), func(s traffic.Share) bool { return s.Limit > 0 }) {
		orElse(&p.Warmup, -1) // every row counts
	}
	orElse(&p.For, usualFor)
	orElse(&p.Warmup, min(p.For/10, longestWarmup))
	p.Warmup = max(p.Warmup, 0)
	orElse(&p.Timeout, usualTimeout)
	orElse(&p.MaxLag, usualMaxLag)
	orElse(&p.Ramp.Dials, usualDials)
	if p.Echo {
		p.Expect = p.Content
	}
	return p, nil
}

// depth is Depth, or what its zero stands for.
func (p Plan) depth() int {
	switch {
	case p.Depth > 0:
		return p.Depth
	case !p.paced():
		return 1
	}
	switch p.Target.(type) {
	case HTTP, *httpTarget:
		return 1
	}
	return openDepth
}

// settings are Settings, with what the completed plan has in place of its zeros.
func (p Plan) settings() map[string]string {
	all := maps.Clone(p.Settings)
	if all == nil {
		all = map[string]string{}
	}
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

// course is the completed plan's Schedule; nil when it has none.
func (p Plan) course() *offer.Course {
	if p.Schedule.None() {
		return nil
	}
	return p.Schedule.Over(p.Warmup, p.For)
}

// content is Content, or what its zero stands for: with Sizes that of the largest
// request, of which the others are the beginning.
func (p Plan) content() []byte {
	if p.Content != nil {
		return p.Content
	}
	if !p.Sizes.None() {
		_, most := p.Sizes.Bounds()
		return letters(most, p.Seed)
	}
	orElse(&p.Size, usualSize)
	return letters(p.Size, p.Seed)
}

func orElse[T comparable](field *T, usual T) {
	var zero T
	if *field == zero {
		*field = usual
	}
}

// letters is content that is the same for the same seed.
func letters(n int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	content := make([]byte, n)
	for i := range content {
		content[i] = byte('a' + random.IntN(26))
	}
	return content
}
