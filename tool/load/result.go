package load

import (
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/offer"
)

// Result is what was measured. As JSON it is one object with the keys of the
// tags below. A figure that cannot be had is nil, and null in JSON, never 0.
type Result struct {
	Schema string `json:"schema"` // "hone.load/1": the meaning of the fields; new ones may join
	// Target is the plan's, without what may be secret. Version is the caller's to fill:
	// that of the program.
	Target  string `json:"target"`
	Version string `json:"version,omitempty"`
	// Settings are the plan's, with what was really used of those that zero chooses.
	// Results of different settings are results of different things.
	Settings map[string]string `json:"settings"`
	// Valid says that the figures are the target's and not the generator's. Look
	// here before any number. Invalid is not failed: it says nothing of the target.
	Valid bool `json:"valid"`
	// InvalidReasons are sentences that end with the next thing to try. Empty, not
	// nil, when the result is valid.
	InvalidReasons []string `json:"invalid_reasons"`
	// Warnings say what the figures do not, in sentences. They are no reason not to
	// believe them.
	Warnings []string `json:"warnings,omitempty"`
	// Stopped is the goal of Plan.AbortOn that ended the run before its time.
	Stopped string `json:"stopped,omitempty"`
	// Requests is how many belong to the measured time: by their intended moment, in a
	// closed loop by when they were written. All are in Latency but those whose
	// connection broke, which are in Errors alone, under closed.
	Requests int64 `json:"requests"`
	// Errors are those of Requests that failed, by Kind.String, with their sum
	// under "total", which is always there. What ended the run is counted too, once.
	Errors map[string]int64 `json:"errors"`
	// Unsent is how many of Errors' requests were given up before they were sent: shed,
	// or without a place on their connection until the time-out or the end of the run.
	// The server has never seen them.
	Unsent int64 `json:"unsent"`
	// Statuses are the answers to Requests by their Answer.Code, for protocols that
	// have such codes: {"200": 1234}.
	Statuses map[string]int64 `json:"statuses,omitempty"`
	// Reconnects is how often, in the measured time, a connection was opened again:
	// because the server had closed it, or an answer stayed away for Plan.Timeout.
	Reconnects int64 `json:"reconnects"`
	// Retries is how many of Requests were sent again on another connection: each time
	// that the server had closed one without a byte of the answer, and had announced
	// it or the request may be repeated. Each is one of Requests, and
	// its response time counts from its one moment.
	Retries int64 `json:"retries"`
	// Drains is how often, in the measured time, a server said on a connection that it
	// shuts down. Outage is the longest time, within the measured one, in which no
	// connection was open, in microseconds; nil: one always was.
	Drains int64    `json:"drains"`
	Outage *float64 `json:"outage_us,omitempty"`
	// Steps are those of the plan's Traffic.
	Steps []Step `json:"steps,omitempty"`
	// Handshakes and Resumed are the TLS handshakes of all connections of the run, not only of
	// the measured time, and how many of them resumed a session; nil without TLS.
	Handshakes *int64 `json:"tls_handshakes,omitempty"`
	Resumed    *int64 `json:"tls_resumed,omitempty"`
	// Schedule is the plan's, when it has one.
	Schedule string `json:"schedule,omitempty"`
	// Offered is the requests a second that the schedule held in the measured time, on
	// average, sessions where the plan has Traffic; nil in a closed loop.
	Offered *float64 `json:"offered,omitempty"`
	// SizeMean and SizeMost are of the content of all requests, in bytes, when the plan
	// has Sizes; else nil.
	SizeMean *float64 `json:"request_bytes_mean,omitempty"`
	SizeMost *int     `json:"request_bytes_max,omitempty"`
	// Idle and Churn are nil when the plan has none.
	Idle  *Idle  `json:"idle,omitempty"`
	Churn *Churn `json:"churn,omitempty"`
	// Rate is the answers a second within the measured time that were as expected. Nil
	// when no load was asked for beside Idle and Churn.
	Rate *float64 `json:"rate"`
	// Latency is from the intended moment to the answer.
	Latency Quantiles `json:"latency_us"`
	// Service is from the moment before the write to the answer. In a closed loop
	// it is Latency.
	Service Quantiles `json:"service_us"`
	// Client is what the generator's process used, all of it, in the measured time.
	Client struct {
		CPUPerRequest *float64 `json:"cpu_us_per_request"` // microseconds for one answer
		CPUShare      *float64 `json:"cpu_share"`          // of what GOMAXPROCS allows; 1 is all
	} `json:"client"`
	// Server is for the caller to fill: Run knows nothing of the server's process.
	Server *Server `json:"server"`

	// Lag is how late the generator itself was with its requests, which is part of
	// Latency. An open loop's; without figures in a closed one.
	Lag         Quantiles     `json:"-"`
	Window      time.Duration `json:"-"` // the measured time
	Interrupted bool          `json:"-"` // the context ended before the run did
	// Histograms are the whole distributions, in nanoseconds, of one nanosecond to
	// one hour with three digits. They are the caller's to keep.
	Histograms struct {
		Latency *hdrhistogram.Histogram
		Service *hdrhistogram.Histogram // the same one as Latency in a closed loop
		Lag     *hdrhistogram.Histogram // nil in a closed loop
	} `json:"-"`
	// Intervals are the measured time in pieces, in their order: of a second each;
	// in runs of more than an hour of as many seconds as make 3,600 of them; and of
	// twice the length from every 16 MiB on. So the worst hour stays below 64 MiB;
	// the usual one takes 20 MB, 40 in an open loop (BenchmarkInterval).
	Intervals []Interval `json:"-"`
	// Agents are those that ran the plan's parts; none: it ran in this process.
	Agents []Agent `json:"agents,omitempty"`
	// Measured is what Run made the figures of, for Plan.Merge.
	Measured *Measured `json:"-"`
}

// Quantiles are of response times, in microseconds. A quantile needs enough
// requests to have one above it: 2 for the median, 1,000 for the 99.9th; it is
// nil with fewer. Mean and Deviation are beside them for those who need a sum or a
// rate; stalls hide in both.
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

// Server is what the server's process used in the measured time.
type Server struct {
	CPUPerRequest *float64 `json:"cpu_us_per_request"`
	RSS           *int64   `json:"rss_bytes"`
	Engine        *string  `json:"engine"`
}

const resultSchema = "hone.load/1"

// measurement is what the verdict and the figures are made from.
type measurement struct {
	*tally
	plan        Plan
	failure     *Error
	interrupted bool
	broken      bool                    // an agent is missing, or could not go on
	missed      string                  // the goal that ended the run early
	span        time.Duration           // of the window that has passed
	lag         *hdrhistogram.Histogram // nil in a closed loop
	offered     int64                   // requests of the schedule within the window, or sessions
	followed    int64                   // requests within the window that follow others in their sessions
	steps       []stepTally             // of the plan's Traffic
	cpu         time.Duration
	cpuSpan     time.Duration
	cpuKnown    bool
	procs       int
	reconnects  int64
	retries     int64
	drains      int64
	outage      time.Duration
	intervals   []Interval
	course      *offer.Course // of a rate that changes; else nil
	sizes       sizeSum
	idle        *soaked  // nil: there were none
	churned     *churned // nil: there was no churn
}

// result makes the figures of m, and the verdict.
func (m *measurement) result() *Result {
	r := &Result{
		Schema:     resultSchema,
		Target:     m.plan.Target.String(),
		Settings:   m.plan.settings(),
		Requests:   m.requests(),
		Errors:     namedErrors(&m.errors),
		Unsent:     m.unsent,
		Statuses:   m.statuses(),
		Reconnects: m.reconnects, Retries: m.retries, Drains: m.drains,
		Intervals: m.intervals, Steps: m.stepsOf(),
		Latency:  QuantilesOf(m.latency),
		Schedule: m.plan.Schedule.String(), Idle: m.idleOf(), Churn: m.churnOf(),
		Window: m.span, Interrupted: m.interrupted,
	}
	r.Histograms.Latency, r.Histograms.Service, r.Histograms.Lag = m.latency, m.service, m.lag
	if m.service == nil {
		r.Histograms.Service = m.latency
	}
	r.Service = QuantilesOf(r.Histograms.Service)
	if m.lag != nil {
		r.Lag = QuantilesOf(m.lag)
	}
	if m.sizes.counted > 0 {
		r.SizeMean, r.SizeMost = new(float64(m.sizes.bytes)/float64(m.sizes.counted)), &m.sizes.most
	}
	if m.span > 0 && !m.unloaded() {
		r.Rate = new(float64(m.good) / m.span.Seconds())
		if m.lag != nil {
			r.Offered = new(float64(m.offered) / m.span.Seconds())
		}
	}
	if h := handshakesOf(m.plan.Target); h != nil {
		r.Handshakes, r.Resumed = new(h.made.Load()), new(h.resumed.Load())
	}
	if m.outage > 0 {
		r.Outage = new(float64(m.outage) / 1e3)
	}
	if m.cpuKnown {
		r.Client.CPUShare = new(m.cpuShare())
		if m.during > 0 && m.span > 0 {
			perSecond := float64(m.during) / m.span.Seconds()
			r.Client.CPUPerRequest = new(m.cpu.Seconds() / m.cpuSpan.Seconds() / perSecond * 1e6)
		}
	}
	r.Stopped, r.Warnings = m.missed, m.warnings(r)
	r.InvalidReasons = m.reasons()
	r.Valid = len(r.InvalidReasons) == 0
	return r
}

// cpuShare is the part of what it may have that the process has used.
func (m *measurement) cpuShare() float64 {
	return m.cpu.Seconds() / m.cpuSpan.Seconds() / float64(m.procs)
}

// unloaded reports whether the plan had no load of its own.
func (m *measurement) unloaded() bool { return m.plan.Conns == 0 }

// namedErrors are errors by their names, with their sum.
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

func (m *measurement) statuses() map[string]int64 {
	var counts map[string]int64
	for code, n := range m.codes {
		if n > 0 {
			if counts == nil {
				counts = make(map[string]int64)
			}
			counts[strconv.Itoa(code)] = n
		}
	}
	return counts
}

// QuantilesOf are those of times in nanoseconds.
func QuantilesOf(h *hdrhistogram.Histogram) Quantiles {
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

// quantile is the value, in microseconds, that parts in whole of h do not
// exceed; nil when h is too small to have one.
func quantile(h *hdrhistogram.Histogram, parts, whole int64) *float64 {
	if h.TotalCount()*(whole-parts) < whole {
		return nil
	}
	return new(float64(h.ValueAtQuantile(float64(parts)/float64(whole)*100)) / 1e3)
}
