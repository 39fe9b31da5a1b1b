package load

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	leastAchieved = 0.99 // of what was offered
	mostShare     = 0.80 // of the CPU that the generator may have
	leastRequests = 100  // for a 99th percentile
)

// reasons says why the figures are not the target's. Each reason is a sentence
// that ends with the next thing to try. None: the result is valid.
func (m *measurement) reasons() []string {
	return said(m.ended, m.behind, m.lagging, m.churnLagging, m.starved, m.faulty, m.churnFaulty, m.scarce)
}

// said is what the checks have found.
func said(checks ...func() string) []string {
	reasons := []string{}
	for _, check := range checks {
		if reason := check(); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// ended: the run did not come to its end.
func (m *measurement) ended() string {
	switch {
	case m.failure != nil:
		return m.failure.Error()
	case m.interrupted:
		return fmt.Sprintf("interrupted after %v of %v; let it run to the end", m.span.Round(time.Millisecond), m.plan.For)
	}
	return ""
}

// behind: fewer answers came within the window than the schedule holds, but for
// what was shed or lost, which waits no more. How many are under way at an edge of the window
// is chance, hence the allowance of three of its standard deviations, which is nothing
// in all but the shortest runs, and of the stall that the plan allows for. Where the
// rate has grown, more are under way at the end than were at the beginning.
func (m *measurement) behind() string {
	if m.lag == nil || m.unfinished() || m.offered == 0 {
		return ""
	}
	each := float64(m.offered+m.followed) / float64(m.offered) // requests of a session
	asked := m.offered + m.followed - m.errors[Shed] - m.lost
	median := time.Duration(m.latency.ValueAtQuantile(50))
	first, last := m.dueWithin(0, median), m.dueWithin(m.plan.For, median)
	allowance := each * (max(0, last-first) + 3*math.Sqrt(max(first, last)) + m.dueWithin(m.plan.For, m.plan.MaxStall))
	if float64(m.during) >= leastAchieved*float64(asked)-allowance {
		return ""
	}
	return fmt.Sprintf("only %d of the %d requests offered were answered in time (%.1f %%, the limit is %.0f %%); offer a lower rate, or warm up for longer than the slowest answer takes",
		m.during, asked, 100*float64(m.during)/float64(asked), 100*leastAchieved)
}

// dueWithin is how many requests are due in the time before a moment of the window,
// as the schedule has them on average, the warm-up taken as long enough.
func (m *measurement) dueWithin(moment, before time.Duration) float64 {
	share := 1 / float64(m.plan.Part.of())
	if m.course == nil {
		return share * m.plan.Rate * before.Seconds()
	}
	early := max(before-moment-m.plan.Warmup, 0) // before there was a rate
	moment += m.plan.Warmup
	return share * (m.course.Due(moment) - m.course.Due(moment-before+early) + m.course.Rate(0)*early.Seconds())
}

// lagging: the generator was late with its own requests.
func (m *measurement) lagging() string {
	if m.lag == nil || m.lag.TotalCount() == 0 {
		return ""
	}
	late := time.Duration(m.lag.ValueAtQuantile(99))
	if late <= m.plan.MaxLag {
		return ""
	}
	return fmt.Sprintf("the generator itself sent one request in a hundred %v late or more (the limit is %v); give it CPUs of its own, or offer a lower rate",
		late.Round(time.Microsecond), m.plan.MaxLag)
}

// starved: the generator had no CPU to spare.
func (m *measurement) starved() string {
	if !m.cpuKnown || m.cpuShare() < mostShare {
		return ""
	}
	return fmt.Sprintf("the generator used %.0f %% of the CPU it has (the limit is %.0f %%); give it more CPUs, or offer less",
		100*m.cpuShare(), 100*mostShare)
}

// faulty: requests failed.
func (m *measurement) faulty() string {
	total := m.failures()
	if total == 0 || m.plan.AllowErrors || m.failure != nil {
		return ""
	}
	first := ""
	if m.example != nil {
		first = fmt.Sprintf("; the first failure was %q", m.example)
	}
	return fmt.Sprintf("%d of %d requests went wrong (%s%s); look into the target's log, or allow errors",
		total, m.requests(), inWords(&m.errors), first)
}

// inWords lists errors as in 2 timeout, 3 failed.
func inWords(errors *[kinds]int64) string {
	var parts []string
	for k, n := range errors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(Kind(k).String(), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// churnLagging: the generator was late with the connections of its churn.
func (m *measurement) churnLagging() string {
	if m.churned == nil || m.churned.conns == 0 {
		return ""
	}
	late := time.Duration(m.churned.lag.ValueAtQuantile(99))
	if late <= m.plan.MaxLag {
		return ""
	}
	return fmt.Sprintf("the generator itself began one connection in a hundred %v late or more (the limit is %v); give it CPUs of its own, or open fewer",
		late.Round(time.Microsecond), m.plan.MaxLag)
}

// churnFaulty: connections of the churn failed, which may be allowed unless this
// machine did it.
func (m *measurement) churnFaulty() string {
	c := m.churned
	if c == nil || c.example == nil || m.failure != nil {
		return ""
	}
	total, why := int64(0), c.example
	for _, n := range c.errors {
		total += n
	}
	if c.own != nil {
		why = c.own
	} else if m.plan.AllowErrors {
		return ""
	}
	what := why.What
	if what == "" {
		what = why.Kind.String()
	}
	return fmt.Sprintf("%d of %d connections that came and went failed (%s; the first of them: %s); %s", total, c.conns, inWords(&c.errors), what, why.Try)
}

// scarce: there is too little to say anything of the slow ones.
func (m *measurement) scarce() string {
	if i := m.idle; i != nil && i.Conns == 0 && !m.unfinished() {
		return fmt.Sprintf("none of the %d idle connections had an answer; look into the target's log", i.Failed)
	}
	if m.unloaded() {
		if c := m.churned; c != nil && c.conns < leastRequests && !m.unfinished() {
			return fmt.Sprintf("only %d connections came and went, and a 99th percentile takes %d; measure for longer, or open more", c.conns, leastRequests)
		}
		return ""
	}
	all, timed := m.requests(), m.latency.TotalCount()
	switch {
	case m.unfinished():
		return ""
	case all > 0 && m.answersCounted() == 0:
		return fmt.Sprintf("none of the %d requests was answered; check that this is the server, and look into its log", all)
	case all < leastRequests:
		return fmt.Sprintf("only %d requests were measured, and a 99th percentile takes %d; measure for longer, or offer more", all, leastRequests)
	case timed < leastRequests:
		return fmt.Sprintf("only %d of the %d requests have a response time, and a 99th percentile takes %d; look into the target's log, or measure for longer", timed, all, leastRequests)
	}
	return ""
}

// answersCounted is how many of the window's requests were answered.
func (m *measurement) answersCounted() int64 { return m.requests() - m.lost - m.unsent }

func (m *measurement) unfinished() bool {
	return m.failure != nil || m.interrupted || m.broken || m.missed != ""
}

const (
	farAbove    = 10                     // times the highest percentile, from which the slowest answer is a stall
	leastStall  = 100 * time.Millisecond // the shortest of those
	microsecond = float64(time.Microsecond)
)

// warnings are about what the figures of a closed loop do not show: while the server
// stalls, each connection has one slow answer, however many users would have waited.
func (m *measurement) warnings(r *Result) []string {
	highest := r.Latency.P999
	for _, q := range []*float64{r.Latency.P99, r.Latency.P90, r.Latency.P50} {
		if highest == nil {
			highest = q
		}
	}
	if m.lag != nil || highest == nil || *r.Latency.Max < farAbove**highest || *r.Latency.Max*microsecond < float64(leastStall) {
		return nil
	}
	slowest := time.Duration(*r.Latency.Max * microsecond)
	return []string{fmt.Sprintf("the slowest answer took %v, %.0f times the highest percentile: the server stalled, and a closed loop asks a stalled server less, so these percentiles are not what users would wait; offer a rate to measure that",
		slowest.Round(time.Millisecond), *r.Latency.Max / *highest)}
}
