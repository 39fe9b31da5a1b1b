package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hone-go/hone/tool/load/traffic"
)

func wrong(field string, value any, try string) error {
	return &Error{Kind: BadPlan, What: fmt.Sprintf("the plan's %s cannot be %v", field, value), Try: try}
}

func finite(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

// check returns an error for the first invalid field.
func (p Plan) check() error {
	switch {
	case p.Target == nil:
		return wrong("Target", "nil", "name what to drive")
	case p.Conns < 0:
		return wrong("Conns", p.Conns, "use 1 or more")
	case p.Depth < 0 || p.Depth > mostDepth:
		return wrong("Depth", p.Depth, fmt.Sprintf("use 1 to %d", mostDepth))
	case !finite(p.Rate):
		return wrong("Rate", p.Rate, "use a positive number, or 0 for a closed loop")
	case p.Arrivals > Poisson:
		return wrong("Arrivals", uint8(p.Arrivals), "use Constant or Poisson")
	case p.For < 0:
		return wrong("For", p.For, "use a positive duration")
	case p.Timeout < 0:
		return wrong("Timeout", p.Timeout, "use a positive duration")
	case p.MaxLag < 0:
		return wrong("MaxLag", p.MaxLag, "use a positive duration")
	case p.MaxStall < 0:
		return wrong("MaxStall", p.MaxStall, "use a positive duration")
	case p.Requests < 0:
		return wrong("Requests", p.Requests, "use 1 or more, or 0 for as many as the time has")
	case p.Size < 0:
		return wrong("Size", p.Size, "use a positive number of bytes")
	case !finite(p.Ramp.PerSecond):
		return wrong("Ramp.PerSecond", p.Ramp.PerSecond, "use a positive number, or 0 for no limit")
	case p.Ramp.Dials < 0:
		return wrong("Ramp.Dials", p.Ramp.Dials, "use 1 or more")
	case p.Idle < 0:
		return wrong("Idle", p.Idle, "use a positive number of connections")
	case !finite(p.Churn):
		return wrong("Churn", p.Churn, "use a positive number of connections a second")
	case p.Part.Of < 0 || p.Part.Index < 0 || p.Part.Index >= p.Part.of():
		return wrong("Part", fmt.Sprintf("%d of %d", p.Part.Index, p.Part.Of), "use an index from 0 up to the number of parts")
	case p.Part.Of > 1 && p.Conns < p.Part.Of && (p.Conns > 0 || p.Idle == 0 && p.Churn == 0):
		return wrong("Conns", max(p.Conns, 1), fmt.Sprintf("use %d or more, one for each part", p.Part.Of))
	case p.Deadline < 0:
		return wrong("Deadline", p.Deadline, "use a positive duration")
	}
	return p.checkTogether()
}

// checkTogether returns an error for fields that contradict each other.
func (p Plan) checkTogether() error {
	_, isHTTP := p.Target.(HTTP)
	alone := p.Conns == 0 && (p.Idle > 0 || p.Churn > 0)
	switch {
	case p.Rate > 0 && !p.Schedule.None():
		return badTarget("both a Rate and a Schedule", "give one of them")
	case p.paced() && alone:
		return badTarget("a rate without connections", "use 1 connection or more, or no rate")
	case p.Requests > 0 && p.Warmup > 0:
		return badTarget("both Requests and a Warmup", "leave the warm-up out: every request is measured")
	case p.Requests > 0 && (p.Churn > 0 || alone):
		return badTarget("Requests beside a Churn or without connections", "give the time to measure instead")
	case p.Deadline > 0 && !p.paced():
		return badTarget("a Deadline without a rate", "give a rate: a closed loop sends nothing late")
	case p.Traffic != nil && (p.Content != nil || !p.Sizes.None()):
		return badTarget("both Traffic and Content or Sizes", "give the steps what their requests carry")
	case p.Traffic != nil && slices.ContainsFunc(p.Traffic.Requests(), func(r *traffic.Request) bool { return r.Timeout > cmp.Or(p.Timeout, usualTimeout) }):
		return badTarget("a step with a longer time-out than the load's", "raise that of the load (--timeout)")
	case p.Traffic != nil && (p.Idle > 0 || p.Churn > 0):
		return badTarget("Traffic and connections beside the load", "run a second load for those")
	case !p.Sizes.None() && p.Content != nil:
		return badTarget("both Content and Sizes", "give one of them")
	case !p.Sizes.None() && len(p.Expect) > 0:
		return badTarget("content to expect of answers to requests of many sizes", "expect an Echo, or nothing")
	case !p.Sizes.None() && isHTTP:
		return badTarget("content of many sizes in requests of HTTP", "give the target's Body, which is the same in all of them")
	case p.ChurnUnused && p.Churn == 0:
		return badTarget("a ChurnUnused without a Churn", "give the Churn's rate")
	}
	return nil
}

// checkSources returns an error for source addresses that cannot reach the target.
func (p Plan) checkSources() error {
	if network, _ := whereIs(p.Target); network == "unix" && p.Sources.Len() > 0 {
		return badTarget("source addresses for a unix socket", "leave them out: there only the path is an address")
	}
	return nil
}
