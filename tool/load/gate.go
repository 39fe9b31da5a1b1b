package load

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// MostCPUShare is the share of the CPU available to the generator from which on it may be what limits
// a load.
const MostCPUShare = 0.80

const (
	leastAchieved = 0.99 // of what was offered
	leastRequests = 100  // for a 99th percentile

	// leastSpan is the shortest load in which the generator's CPU means something: in a shorter
	// one its start is most of it.
	leastSpan = 100 * time.Millisecond
)

// reasons returns why the figures are not the target's. Each reason is a sentence that ends with
// what to try next. An empty list means that the result is valid.
func (m *Measured) reasons() []string {
	return said(m.ended, m.behind, m.lagging, m.stopped, m.lossy, m.slow, m.churnLagging, m.starved, m.faulty, m.churnFaulty, m.tooFew)
}

// onlyLate reports whether all reasons are the generator's: it was late, or had no spare CPU.
func (m *Measured) onlyLate(reasons []string) bool {
	return len(reasons) > 0 && len(reasons) == len(said(m.lagging, m.stopped, m.lossy, m.slow, m.churnLagging, m.starved))
}

// said collects the non-empty results of checks.
func said(checks ...func() string) []string {
	reasons := []string{}
	for _, check := range checks {
		if reason := check(); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// ended fails when the run was stopped early.
func (m *Measured) ended() string {
	switch {
	case m.Failure != nil:
		return m.Failure.Error()
	case m.Interrupted:
		return fmt.Sprintf("interrupted after %s of %s; let it run to the end", figure.Time(m.Span), figure.Time(m.plan.For))
	}
	return ""
}

// behind fails when the target does not keep up with the schedule.
func (m *Measured) behind() string {
	kept := m.kept()
	if kept == nil || m.plan.AllowBehind {
		return ""
	}
	return fmt.Sprintf("only %d of the %d requests offered were answered in time (%.1f %%, the limit is %.0f %%); offer a lower rate, or warm up for longer than the slowest answer takes",
		m.During, m.asked(), 100**kept, 100*leastAchieved)
}

// asked returns how many requests the schedule offered. Those that were lost are the
// errors', except for a caller who judges what was kept.
func (m *Measured) asked() int64 {
	if m.plan.AllowBehind {
		return m.Offered + m.Followed
	}
	return m.Offered + m.Followed - m.Lost
}

// kept returns Result.Kept: fewer answers came within the window than were asked for. How many requests are in flight at the edges of the window is
// random; hence the allowance of three standard deviations, which matters only in the shortest
// runs, and of Plan.MaxStall. Where the rate has grown, more requests are in flight at the end
// than at the beginning.
func (m *Measured) kept() *float64 {
	if m.Lag.Histogram == nil || m.unfinished() || m.Offered == 0 {
		return nil
	}
	each := float64(m.Offered+m.Followed) / float64(m.Offered) // requests per session
	median := time.Duration(m.Latency.ValueAtQuantile(50))
	first, last := m.dueWithin(0, median), m.dueWithin(m.plan.For, median)
	allowance := each * (max(0, last-first) + 3*math.Sqrt(max(first, last)) + m.dueWithin(m.plan.For, m.plan.MaxStall))
	if asked := float64(m.asked()); float64(m.During) < leastAchieved*asked-allowance {
		return new(float64(m.During) / asked)
	}
	return nil
}

// dueWithin returns how many requests the schedule has on average in the time before a moment of
// the window, assuming a warm-up that is long enough.
func (m *Measured) dueWithin(moment, before time.Duration) float64 {
	share := 1 / float64(m.plan.Partition.of())
	if m.timeline == nil {
		return share * m.plan.Rate * before.Seconds()
	}
	early := max(before-moment-m.plan.Warmup, 0) // before there was a rate
	moment += m.plan.Warmup
	return share * (m.timeline.Due(moment) - m.timeline.Due(moment-before+early) + m.timeline.Rate(0)*early.Seconds())
}

// lagging fails when the generator sent its requests late.
func (m *Measured) lagging() string {
	return m.tardy(m.Lag, "sent 1 % of the requests", "offer a lower rate")
}

// tardy fails for a 99th percentile above the limit.
func (m *Measured) tardy(lag histogram, did, less string) string {
	if lag.Histogram == nil || time.Duration(lag.ValueAtQuantile(99)) <= m.plan.MaxLag {
		return ""
	}
	return fmt.Sprintf("the generator itself %s %s or more after they were due (the limit is %s); give it CPUs of its own, or %s",
		did, figure.Time(time.Duration(lag.ValueAtQuantile(99))), figure.Time(m.plan.MaxLag), less)
}

// starved fails when the generator had no spare CPU.
func (m *Measured) starved() string {
	if !m.CPUKnown || m.CPUSpan < leastSpan || m.cpuShare() < MostCPUShare || m.plan.AllowLate && m.Lag.Histogram == nil {
		return ""
	}
	return fmt.Sprintf("the generator used %.0f %% of the CPU it has (the limit is %.0f %%); give it more CPUs, or offer less",
		100*m.cpuShare(), 100*MostCPUShare)
}

// faulty fails when requests failed.
func (m *Measured) faulty() string {
	total := m.failures()
	if total == 0 || m.plan.AllowErrors || m.Failure != nil {
		return ""
	}
	first := ""
	if m.Example != nil {
		first = fmt.Sprintf("; the first failure was %q", m.Example.Text)
	}
	return fmt.Sprintf("%d of %d requests failed (%s%s); look into the target's log%s, or allow errors (--allow-errors)",
		total, m.requests(), inWords(&m.Errors), first, m.acceptable())
}

// acceptable says how to accept the status code that failed first, if it was one, or to log in.
func (m *Measured) acceptable() string {
	switch e := m.Example; {
	case e == nil:
		return ""
	case e.Unauthorised:
		return ", log in (--credentials-file FILE)"
	case e.InStep:
		return fmt.Sprintf(", accept that status (status = %d in the step)", e.Status)
	case e.Status > 0:
		return fmt.Sprintf(", accept that status (--status %d)", e.Status)
	}
	return ""
}

// inWords lists error counts, for example "2 timeout, 3 failed".
func inWords(errors *[kinds]int64) string {
	var parts []string
	for k, n := range errors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(Kind(k).String(), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// churnLagging fails when the generator opened the churn's connections late.
func (m *Measured) churnLagging() string {
	if m.Churned == nil || m.Churned.Conns == 0 {
		return ""
	}
	return m.tardy(m.Churned.Lag, "began 1 % of the connections", "open fewer")
}

// churnFaulty fails when connections of the churn failed, unless that is allowed; failures caused
// by this machine are never allowed.
func (m *Measured) churnFaulty() string {
	c := m.Churned
	if c == nil || c.Example == nil || m.Failure != nil {
		return ""
	}
	total, why := int64(0), c.Example
	for _, n := range c.Errors {
		total += n
	}
	if c.Own != nil {
		why = c.Own
	} else if m.plan.AllowErrors {
		return ""
	}
	return fmt.Sprintf("%d of %d churn connections failed (%s; the first: %s); %s", total, c.Conns, inWords(&c.Errors), cmp.Or(why.What, why.Kind.String()), why.Try)
}

// tooFew fails when there is too little data for the high percentiles.
func (m *Measured) tooFew() string {
	if i := m.Idle; i != nil && i.Conns == 0 && !m.unfinished() {
		return fmt.Sprintf("none of the %d idle connections had an answer; look into the target's log", i.Failed)
	}
	if m.unloaded() {
		if c := m.Churned; c != nil && c.Conns < leastRequests && !m.unfinished() {
			return fmt.Sprintf("only %d churn connections were measured, and a 99th percentile needs %d; measure for longer, or open more", c.Conns, leastRequests)
		}
		return ""
	}
	all, timed := m.requests(), m.Latency.TotalCount()
	switch {
	case m.unfinished():
		return ""
	case all > 0 && m.requests() == m.Lost+m.Unsent:
		return fmt.Sprintf("none of the %d requests was answered; check that this is the server, and look into its log", all)
	case all < leastRequests:
		return fmt.Sprintf("only %d requests were measured, and a 99th percentile needs %d; measure for longer, or offer more", all, leastRequests)
	case timed < leastRequests:
		return fmt.Sprintf("only %d of the %d requests have a response time, and a 99th percentile needs %d; look into the target's log, or measure for longer", timed, all, leastRequests)
	}
	return ""
}

func (m *Measured) unfinished() bool {
	return m.Failure != nil || m.Interrupted || m.broken
}

const (
	farAbove    = 10                     // the slowest answer is a stall from this multiple of the highest percentile
	leastStall  = 100 * time.Millisecond // and from this time
	microsecond = float64(time.Microsecond)
)

// leastRetried is the share of retried requests that a warning names.
const leastRetried = 0.01

// warnings explain what valid figures hide: that the load was too short for the generator's CPU to
// be judged, that the 99.9th percentile is the generator's or requests were retried, and of a
// closed loop that while the server stalls, each connection has one slow answer, however many
// users would have waited.
func (m *Measured) warnings(r *Result) (warnings []string) {
	if m.CPUKnown && m.CPUSpan < leastSpan {
		warnings = append(warnings, fmt.Sprintf("the load took only %s, too short to tell whether the generator was the limit; send more requests", figure.Time(m.CPUSpan)))
	}
	for _, delay := range []histogram{m.Lag, m.Delay} {
		if late, most := m.late(delay, percentile{parts: 999, whole: 1000}); late > 0 {
			warnings = append(warnings, fmt.Sprintf("p99.9 is not the server's: the generator itself delayed 0.1 %% of the requests by %s or more (the limit is %s)", figure.Time(late), figure.Time(most)))
		}
	}
	if r.RateAtLeast != nil {
		warnings = append(warnings, m.loss())
	}
	if all := m.requests(); float64(m.Retries) > leastRetried*float64(all) {
		warnings = append(warnings, fmt.Sprintf("%d of %d requests (%.1f %%) were retried, because the server closed their connections without an answer; they do not count as errors",
			m.Retries, all, 100*float64(m.Retries)/float64(all)))
	}
	if stall := m.stall(r); stall != "" {
		warnings = append(warnings, stall)
	}
	return warnings
}

// stall describes the slowest answer of a closed loop where it stands out, and accuses the server
// only if the generator ran all the time.
func (m *Measured) stall(r *Result) string {
	highest := cmp.Or(r.Latency.P999, r.Latency.P99, r.Latency.P90, r.Latency.P50)
	if m.Lag.Histogram != nil || highest == nil || *r.Latency.Max < farAbove**highest || *r.Latency.Max*microsecond < float64(leastStall) {
		return ""
	}
	slowest := time.Duration(*r.Latency.Max * microsecond)
	if m.Stop > slowest/4 {
		return fmt.Sprintf("the slowest answer took %s, and the generator itself once did not run for %s: the server may not be to blame",
			figure.Time(slowest), figure.Time(m.Stop))
	}
	who := "the server, or the way to it,"
	if m.Delay.Histogram == nil {
		who = "the server, or the generator,"
	}
	return fmt.Sprintf("the slowest answer took %s, %.0f times the highest percentile: %s stalled, and a closed loop asks a stalled server less, so these percentiles are not what users would wait; offer a rate to measure that",
		figure.Time(slowest), *r.Latency.Max / *highest, who)
}
