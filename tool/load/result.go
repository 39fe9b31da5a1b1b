package load

import (
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/figure"
)

// Result is the result of a run. Its JSON form is one object with the keys of the tags below. A
// figure that is not available is nil, and null in JSON, never 0.
type Result struct {
	Schema string `json:"schema"` // "hone.load/1": the meaning of the fields; new ones may join
	// Target is the plan's target without its secrets. The caller fills in Version, that of the
	// program.
	Target  string `json:"target"`
	Version string `json:"version,omitempty"`
	// Settings are the plan's settings, with the values actually used for defaults. Results with
	// different settings measure different things.
	Settings map[string]string `json:"settings"`
	// Valid says that the figures are the target's and not the generator's. Check it before any
	// figure. Invalid does not mean failed: it says nothing about the target.
	Valid bool `json:"valid"`
	// InvalidReasons are sentences that end with what to try next. Empty, not nil, when the result
	// is valid.
	InvalidReasons []string `json:"invalid_reasons"`
	// OnlyLate says that the result is invalid for the generator's lateness alone.
	OnlyLate bool `json:"-"`
	// Warnings are sentences about what the figures do not show. They do not make the result
	// invalid.
	Warnings []string `json:"warnings,omitempty"`
	// Requests is how many requests belong to the measured time: by their intended moment, or in a
	// closed loop by when they were written. All are in Latency except those whose connection
	// broke, which are only in Errors, under closed.
	Requests int64 `json:"requests"`
	// Errors counts those of Requests that failed, by Kind.String, with their sum under "total",
	// which is always present. The failure that ended the run is counted once, too.
	Errors map[string]int64 `json:"errors"`
	// Unsent is how many of the failed requests were given up before they were sent: they
	// had no free slot on their connection until the time-out or the end of the run. The server has
	// never seen them.
	Unsent int64 `json:"unsent"`
	// Statuses counts the answers to Requests by Answer.Code, for protocols that have status
	// codes: {"200": 1234}.
	Statuses map[string]int64 `json:"statuses,omitempty"`
	// Reconnects is how often, in the measured time, a connection was opened again because the
	// server had closed it, or because an answer was missing for Plan.Timeout.
	Reconnects int64 `json:"reconnects"`
	// Retries is how many of Requests were resent on another connection, after the server closed
	// one without a byte of the answer and either had announced the close or the request may be
	// repeated. Each is one of Requests, and its response time counts from its one intended
	// moment.
	Retries int64 `json:"retries"`
	// Drains is how often, in the measured time, a server announced on a connection that it shuts
	// down. Outage is the longest time within the measured time in which no connection was open,
	// in microseconds; nil: at least one was always open.
	Drains int64    `json:"drains"`
	Outage *float64 `json:"outage_us,omitempty"`
	// Steps are the figures of the steps of the plan's Traffic.
	Steps []Step `json:"steps,omitempty"`
	// Schedule is the plan's schedule, if it has one.
	Schedule string `json:"schedule,omitempty"`
	// Offered is the mean rate of the schedule in the measured time, in requests a second, or in
	// sessions a second where the plan has Traffic; nil in a closed loop.
	Offered *float64 `json:"offered,omitempty"`
	// SizeMean and SizeMost are the mean and largest content size of all requests, in bytes, when
	// the plan has Sizes; else nil.
	SizeMean *float64 `json:"request_bytes_mean,omitempty"`
	SizeMost *int     `json:"request_bytes_max,omitempty"`
	// Idle and Churn are nil when the plan has none.
	Idle  *Idle  `json:"idle,omitempty"`
	Churn *Churn `json:"churn,omitempty"`
	// Rate is the number of good answers a second within the measured time. It is nil when the
	// plan has only Idle and Churn.
	Rate *float64 `json:"rate"`
	// RateAtLeast replaces Rate where the generator did not run for too much of the time, and Plan.MaxLag allows it.
	RateAtLeast *float64 `json:"rate_at_least,omitempty"`
	// Latency is the time from the intended moment to the answer.
	Latency Quantiles `json:"latency_us"`
	// Service is the time from just before the write to the answer. In a closed loop it is
	// Latency.
	Service Quantiles `json:"service_us"`
	// Client is what the generator's whole process used in the measured time.
	Client struct {
		CPUPerRequest *float64 `json:"cpu_us_per_request"` // microseconds per answer
		CPUShare      *float64 `json:"cpu_share"`          // of the CPUs that GOMAXPROCS allows; 1 is all
		// In a closed loop, in microseconds: what the generator itself added to one answer in a
		// hundred, at most, and the longest time in which it did not run. For open loops, Lag has
		// it.
		DelayP99 *float64 `json:"delay_p99_us,omitempty"`
		DelayMax *float64 `json:"delay_max_us,omitempty"`
		// DelayLimit is what of Lag's or DelayP99 would have made the result invalid.
		DelayLimit *float64 `json:"delay_limit_us,omitempty"`
		// NotRun is the share of the time in which a closed loop's generator was stopped, and Rivals that in
		// which it or the server waited for a CPU that other programs had.
		NotRun *float64 `json:"not_run_share,omitempty"`
		Rivals *float64 `json:"rivals_share,omitempty"`
	} `json:"client"`
	// Server is for the caller to fill in: Run does not know the server's process.
	Server *Server `json:"server"`

	// Lag is how late the generator sent its requests in an open loop; it is part of Latency. It
	// has no figures in a closed loop.
	Lag         Quantiles     `json:"-"`
	Window      time.Duration `json:"-"` // the measured time
	Interrupted bool          `json:"-"` // the context ended before the run did
	// Kept is the fraction of the requests offered that were answered in time, where it is too
	// small for a target that keeps up; else nil.
	Kept *float64 `json:"-"`
	// Histograms are the whole distributions, in nanoseconds, from one nanosecond to one hour with
	// three digits. The caller may keep them.
	Histograms struct {
		Latency *hdrhistogram.Histogram
		Service *hdrhistogram.Histogram // the same one as Latency in a closed loop
		Lag     *hdrhistogram.Histogram // nil in a closed loop
	} `json:"-"`
	// Intervals are the measured time in slices, in order: of a second each; in runs of more than
	// an hour of as many seconds as make 3,600 of them; and of twice the length after every 16
	// MiB. So the worst hour stays below 64 MiB; a usual one needs 20 MB, 40 in an open loop
	// (BenchmarkInterval).
	Intervals []Interval `json:"-"`
	// Agents are the processes that ran the plan's parts; none: it ran in this process.
	Agents []Agent `json:"agents,omitempty"`
	// Measured is what Run computed the figures from, for Plan.Merge.
	Measured *Measured `json:"-"`
}

// Metrics calls with for each figure that the result has and by which results are compared, in
// order of importance; better is "lower" or "higher".
func (r *Result) Metrics(with func(name, unit, better string, value float64)) {
	add := func(name, unit string, value *float64) {
		better := "lower"
		if unit == "req/s" {
			better = "higher"
		}
		if value != nil {
			with(name, unit, better, *value)
		}
	}
	if r.Offered == nil { // otherwise the plan sets the rate
		add("rate", "req/s", r.Rate)
	}
	if r.Server != nil {
		add("server CPU", "µs/req", r.Server.CPUPerRequest)
	}
	add("p50", "µs", r.Latency.P50)
	add("p99", "µs", r.Latency.P99)
	add("p999", "µs", r.Latency.P999)
	for _, s := range r.Steps {
		if len(r.Steps) > 1 {
			add(s.Name+" p99", "µs", s.Latency.P99)
		}
	}
	if r.Server != nil && r.Server.RSS != nil {
		add("server memory", "B", new(float64(*r.Server.RSS)))
	}
	if r.Idle != nil {
		add("memory per idle connection", "B", r.Idle.ServerBytes)
	}
}

// Quantiles are response times in microseconds. A quantile needs enough requests to have one above
// it: 2 for the median, 1,000 for the 99.9th; with fewer it is nil. Mean and Deviation are for
// computing sums and rates; stalls hide in both.
type Quantiles struct {
	P50       *float64 `json:"p50"`
	P90       *float64 `json:"p90"`
	P95       *float64 `json:"p95"`
	P99       *float64 `json:"p99"`
	P999      *float64 `json:"p999"`
	Max       *float64 `json:"max"`
	Mean      *float64 `json:"mean"`
	Deviation *float64 `json:"deviation"` // the standard deviation
}

// Named returns a quantile, max or mean by its name in JSON.
func (q Quantiles) Named(name string) *float64 {
	return map[string]*float64{"p50": q.P50, "p90": q.P90, "p95": q.P95, "p99": q.P99, "p999": q.P999, "max": q.Max, "mean": q.Mean}[name]
}

// Server is what the server's process, or processes, used in the measured time; memory and
// descriptors at its end.
type Server struct {
	CPUPerRequest *float64 `json:"cpu_us_per_request"`
	RSS           *int64   `json:"rss_bytes"`
	Descriptors   *int     `json:"descriptors,omitempty"`
	Engine        *string  `json:"engine"`
}

// result computes the figures of m, and the verdict.
func (m *Measured) result() *Result {
	r := &Result{
		Schema:     figure.SchemaLoad,
		Target:     m.plan.Target.String(),
		Settings:   m.plan.settings(),
		Requests:   m.requests(),
		Errors:     namedErrors(&m.Errors),
		Unsent:     m.Unsent,
		Statuses:   m.statuses(),
		Reconnects: m.Reconnects, Retries: m.Retries, Drains: m.Drains,
		Intervals: m.intervals, Steps: m.stepsOf(),
		Latency:  QuantilesOf(m.Latency.Histogram),
		Schedule: m.plan.Schedule.String(), Idle: m.idleOf(), Churn: m.churnOf(),
		Window: m.Span, Interrupted: m.Interrupted,
	}
	r.Histograms.Latency, r.Histograms.Service = m.Times()
	r.Histograms.Lag = m.Lag.Histogram
	r.Service = QuantilesOf(r.Histograms.Service)
	if m.plan.AllowLate {
		m.withhold(&r.Latency)
		m.withhold(&r.Service)
	}
	r.Lag = QuantilesOf(m.Lag.Histogram)
	if m.Delay.Histogram != nil {
		r.Client.DelayP99, r.Client.DelayMax = quantile(m.Delay.Histogram, 99, 100), new(float64(m.Stop)/1e3)
	}
	m.bounds(r)
	if m.plan.MaxLag > DefaultMaxLag && m.loss() != "" {
		r.RateAtLeast = m.perSecond(m.Good)
	}
	if m.Sizes.Counted > 0 {
		r.SizeMean, r.SizeMost = new(float64(m.Sizes.Bytes)/float64(m.Sizes.Counted)), &m.Sizes.Most
	}
	if !m.unloaded() {
		if r.RateAtLeast == nil {
			r.Rate = m.perSecond(m.Good)
		}
		if m.Lag.Histogram != nil {
			r.Offered = m.perSecond(m.Offered)
		}
	}
	if m.Outage > 0 {
		r.Outage = new(float64(m.Outage) / 1e3)
	}
	if m.CPUKnown {
		r.Client.CPUShare = new(m.cpuShare())
		if rate := m.perSecond(m.During); rate != nil && m.During > 0 {
			r.Client.CPUPerRequest = new(m.CPU.Seconds() / m.CPUSpan.Seconds() / *rate * 1e6)
		}
	}
	r.Kept = m.kept()
	r.Warnings = m.warnings(r)
	r.InvalidReasons = m.reasons()
	r.Valid, r.OnlyLate = len(r.InvalidReasons) == 0, m.onlyLate(r.InvalidReasons)
	return r
}

// perSecond returns a rate over the measured time; nil: none has passed.
func (m *Measured) perSecond(n int64) *float64 {
	if m.Span <= 0 {
		return nil
	}
	return new(float64(n) / m.Span.Seconds())
}

// cpuShare is the fraction of its available CPU time that the process has used.
func (m *Measured) cpuShare() float64 {
	return m.CPU.Seconds() / m.CPUSpan.Seconds() / float64(m.Procs)
}

// unloaded reports whether the plan has only Idle and Churn.
func (m *Measured) unloaded() bool { return m.plan.Conns == 0 }

// namedErrors returns the non-zero counts by their names, with their sum.
func namedErrors(errors *[kinds]int64) map[string]int64 {
	named := map[string]int64{"total": 0}
	for k, n := range errors {
		if n > 0 {
			named[Kind(k).String()] = n
			named["total"] += n
		}
	}
	return named
}

func (m *Measured) statuses() map[string]int64 {
	if m.Codes == nil {
		return nil
	}
	counts := make(map[string]int64)
	for code, n := range m.Codes {
		if n > 0 {
			counts[strconv.Itoa(code)] = n
		}
	}
	return counts
}

// QuantilesOf computes the quantiles of times in nanoseconds; nil: there are none.
func QuantilesOf(h *hdrhistogram.Histogram) Quantiles {
	if h == nil {
		return Quantiles{}
	}
	q := Quantiles{
		P50: quantile(h, 1, 2), P90: quantile(h, 9, 10), P95: quantile(h, 19, 20), P99: quantile(h, 99, 100), P999: quantile(h, 999, 1000),
	}
	if h.TotalCount() > 0 {
		q.Max, q.Mean = new(float64(h.Max())/1e3), new(h.Mean()/1e3)
	}
	if h.TotalCount() > 1 {
		q.Deviation = new(h.StdDev() / 1e3)
	}
	return q
}

// quantile returns the value, in microseconds, that the fraction parts/whole of h does not exceed;
// nil when h has too few values.
func quantile(h *hdrhistogram.Histogram, parts, whole int64) *float64 {
	if h.TotalCount()*(whole-parts) < whole {
		return nil
	}
	return new(float64(h.ValueAtQuantile(float64(parts)/float64(whole)*100)) / 1e3)
}
