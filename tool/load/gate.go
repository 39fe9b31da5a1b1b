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
	reasons := []string{}
	for _, check := range []func() string{
		m.ended, m.behind, m.lagging, m.starved, m.faulty, m.scarce,
	} {
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

// behind: fewer answers came within the window than the schedule holds. How many
// are under way at an edge of the window is chance, hence the allowance of three
// of its standard deviations, which is nothing in all but the shortest runs, and
// of the stall that the plan allows for.
func (m *measurement) behind() string {
	if m.lag == nil || m.unfinished() || m.offered == 0 {
		return ""
	}
	median := float64(m.latency.ValueAtQuantile(50)) / 1e9
	allowance := 3*math.Sqrt(m.plan.Rate*median) + m.plan.Rate*m.plan.MaxStall.Seconds()
	if float64(m.during) >= leastAchieved*float64(m.offered)-allowance {
		return ""
	}
	return fmt.Sprintf("only %d of the %d requests offered were answered in time (%.1f %%, the limit is %.0f %%); offer a lower rate, or warm up for longer than the slowest answer takes",
		m.during, m.offered, 100*float64(m.during)/float64(m.offered), 100*leastAchieved)
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
	var parts []string
	for k, n := range m.errors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(Kind(k).String(), "_", " ")))
		}
	}
	first := ""
	if m.example != nil {
		first = fmt.Sprintf("; the first failure was %q", m.example)
	}
	return fmt.Sprintf("%d of %d requests went wrong (%s%s); look into the target's log, or allow errors",
		total, m.latency.TotalCount(), strings.Join(parts, ", "), first)
}

// scarce: there is too little to say anything of the slow ones.
func (m *measurement) scarce() string {
	if n := m.latency.TotalCount(); n < leastRequests && !m.unfinished() {
		return fmt.Sprintf("only %d requests were measured, and a 99th percentile takes %d; measure for longer, or offer more", n, leastRequests)
	}
	return ""
}

func (m *measurement) unfinished() bool { return m.failure != nil || m.interrupted }
