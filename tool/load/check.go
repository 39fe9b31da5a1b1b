package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hone-go/hone/tool/load/traffic"
)

func finite(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

// check returns an error for the first invalid field.
func (p Plan) check() error {
	const duration, connections = "use a positive duration", "use a positive number of connections"
	for _, f := range []struct {
		wrong bool
		name  string
		value any
		try   string
	}{
		{p.Target == nil, "Target", "nil", "name what to drive"},
		{p.Conns < 0, "Conns", p.Conns, "use 1 or more"},
		{p.Depth < 0 || p.Depth > mostDepth, "Depth", p.Depth, fmt.Sprintf("use 1 to %d", mostDepth)},
		{!finite(p.Rate), "Rate", p.Rate, "use a positive number, or 0 for a closed loop"},
		{p.Arrivals > Poisson, "Arrivals", uint8(p.Arrivals), "use Constant or Poisson"},
		{p.For < 0, "For", p.For, duration},
		{p.Timeout < 0, "Timeout", p.Timeout, duration},
		{p.MaxLag < 0, "MaxLag", p.MaxLag, duration},
		{p.MaxStall < 0, "MaxStall", p.MaxStall, duration},
		{p.Requests < 0, "Requests", p.Requests, "use 1 or more, or 0 for as many as the time has"},
		{p.Size < 0, "Size", p.Size, "use a positive number of bytes"},
		{!finite(p.Ramp), "Ramp", p.Ramp, "use a positive number, or 0 for no limit"},
		{p.Idle < 0, "Idle", p.Idle, connections},
		{!finite(p.Churn), "Churn", p.Churn, connections + " a second"},
		{p.Partition.Of < 0 || p.Partition.Index < 0 || p.Partition.Index >= p.Partition.of(), "Partition", fmt.Sprintf("%d of %d", p.Partition.Index, p.Partition.Of), "use an index from 0 up to the number of parts"},
	} {
		if f.wrong {
			return &Error{Kind: BadPlan, What: fmt.Sprintf("the plan's %s cannot be %v", f.name, f.value), Try: f.try}
		}
	}
	if conns, parts := max(p.Conns, 1), p.Partition.Of; conns < parts && (p.Conns > 0 || p.Idle == 0 && p.Churn == 0) {
		return &Error{Kind: BadPlan, What: fmt.Sprintf("-c %d is too few for %d agents", conns, parts), Try: fmt.Sprintf("use -c %d or more, one connection for each", parts)}
	}
	return p.checkTogether()
}

// checkTogether returns an error for fields that contradict each other.
func (p Plan) checkTogether() error {
	alone := p.Conns == 0 && (p.Idle > 0 || p.Churn > 0)
	slower := func(r *traffic.Request) bool { return r.Timeout > cmp.Or(p.Timeout, DefaultTimeout) }
	for _, f := range []struct {
		wrong     bool
		what, try string
	}{
		{p.Rate > 0 && !p.Schedule.None(), "both a Rate and a Schedule", "give one of them"},
		{p.paced() && alone, "a rate without connections", "use 1 connection or more, or no rate"},
		{p.Requests > 0 && p.Warmup > 0, "both Requests and a Warmup", "leave the warm-up out: every request is measured"},
		{p.Requests > 0 && (p.Churn > 0 || alone), "Requests beside a Churn or without connections", "give the time to measure instead"},
		{p.Traffic != nil && (p.Content != nil || !p.Sizes.None()), "both Traffic and Content or Sizes", "give the steps what their requests carry"},
		{p.Traffic != nil && slices.ContainsFunc(p.Traffic.Requests(), slower), "a step with a longer time-out than the load's", "raise that of the load (--timeout)"},
		{p.Traffic != nil && (p.Idle > 0 || p.Churn > 0), "Traffic and connections beside the load", "run a second load for those"},
		{!p.Sizes.None() && p.Content != nil, "both Content and Sizes", "give one of them"},
		{!p.Sizes.None() && len(p.Expect) > 0, "content to expect of answers to requests of many sizes", "expect an Echo, or nothing"},
	} {
		if f.wrong {
			return badPlan(f.what, f.try)
		}
	}
	return nil
}

// badPlan returns the error for fields that contradict each other.
func badPlan(what, try string) *Error {
	return &Error{Kind: BadPlan, What: "the plan cannot have " + what, Try: try}
}
