package serving

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
)

// Limit is one field of engine.Limits under its command-line name: a duration or a
// number.
type Limit struct {
	Name   string
	time   *time.Duration
	number *int
	bytes  bool
}

// LimitsOf returns the fields of l by name.
func LimitsOf(l *engine.Limits) []Limit {
	return []Limit{
		{Name: "frame-time", time: &l.FrameTime},
		{Name: "frame-rate", number: &l.FrameRate, bytes: true},
		{Name: "frame-size", number: &l.FrameSize, bytes: true},
		{Name: "idle-time", time: &l.IdleTime},
		{Name: "auth-time", time: &l.AuthTime},
		{Name: "high-water", number: &l.HighWater, bytes: true},
		{Name: "hard-cap", number: &l.HardCap, bytes: true},
		{Name: "stall-time", time: &l.StallTime},
		{Name: "linger-time", time: &l.LingerTime},
		{Name: "spread-time", time: &l.SpreadTime},
		{Name: "in-flight", number: &l.InFlight},
		{Name: "total-in-flight", number: &l.TotalInFlight},
		{Name: "total-output", number: &l.TotalOutput, bytes: true},
		{Name: "total-input", number: &l.TotalInput, bytes: true},
		{Name: "helpers", number: &l.Helpers},
		{Name: "conns", number: &l.Conns},
		{Name: "conns-per-address", number: &l.ConnsPerAddress},
		{Name: "accept-rate", number: &l.AcceptRate},
	}
}

// LimitNames returns the names that --limit accepts.
func LimitNames() []string {
	var names []string
	for _, known := range LimitsOf(new(engine.Limits)) {
		names = append(names, known.Name)
	}
	return names
}

// limitFlag accepts name=value any number of times.
type limitFlag struct {
	limits engine.Limits
	given  []string
}

// Set parses one limit.
func (f *limitFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("needs a value; write it as in idle-time=1m or conns=off")
	}
	for _, known := range LimitsOf(&f.limits) {
		if known.Name != name {
			continue
		}
		if err := known.set(value); err != nil {
			return err
		}
		f.given = append(f.given, text)
		return nil
	}
	return fmt.Errorf("unknown limit %s; %s", name, exit.DidYouMean(name, LimitNames(), "use one of "+strings.Join(LimitNames(), ", ")))
}

// String returns the limits given.
func (f *limitFlag) String() string { return strings.Join(f.given, ",") }

// Type is the placeholder of the value in help.
func (f *limitFlag) Type() string { return "name=value" }

func (l Limit) set(value string) error {
	switch {
	case value == "off" && l.time != nil:
		*l.time = -1
	case value == "off":
		*l.number = math.MaxInt32
	case l.time != nil:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration; write it with its unit, as in 500ms or 1m, or off", value)
		}
		*l.time = d
	case l.bytes:
		n, err := figure.ParseSize(value)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a size; write it as in 512, 64KiB or 1MiB, or off", value)
		}
		*l.number = n
	default:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is not a number; write it in digits, as in 100, or off", value)
		}
		*l.number = int(n)
	}
	return nil
}

// effective returns the limits in effect, for the log.
func effective(l engine.Limits) []any {
	l = l.OrDefaults()
	var attrs []any
	for _, known := range LimitsOf(&l) {
		attrs = append(attrs, slog.String(known.Name, known.String()))
	}
	return attrs
}

// String formats the limit as --limit accepts it.
func (l Limit) String() string {
	switch {
	case l.time != nil && (*l.time == math.MaxInt64 || *l.time == 0), l.number != nil && *l.number == math.MaxInt32:
		return "off"
	case l.time != nil:
		return l.time.String()
	case l.bytes:
		return figure.Size(*l.number)
	}
	return strconv.Itoa(*l.number)
}
