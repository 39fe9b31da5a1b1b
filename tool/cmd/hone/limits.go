package main

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

// limit is one field of engine.Limits by the name it has on the command line:
// a time, or a number of something.
type limit struct {
	name   string
	time   *time.Duration
	number *int
	bytes  bool
}

// limitsOf names the fields of l.
func limitsOf(l *engine.Limits) []limit {
	return []limit{
		{name: "frame-time", time: &l.FrameTime},
		{name: "frame-rate", number: &l.FrameRate, bytes: true},
		{name: "frame-size", number: &l.FrameSize, bytes: true},
		{name: "idle-time", time: &l.IdleTime},
		{name: "high-water", number: &l.HighWater, bytes: true},
		{name: "hard-cap", number: &l.HardCap, bytes: true},
		{name: "stall-time", time: &l.StallTime},
		{name: "linger-time", time: &l.LingerTime},
		{name: "in-flight", number: &l.InFlight},
		{name: "total-output", number: &l.TotalOutput, bytes: true},
		{name: "total-input", number: &l.TotalInput, bytes: true},
		{name: "helpers", number: &l.Helpers},
		{name: "conns", number: &l.Conns},
		{name: "conns-per-address", number: &l.ConnsPerAddress},
	}
}

func limitNames() []string {
	var names []string
	for _, known := range limitsOf(new(engine.Limits)) {
		names = append(names, known.name)
	}
	return names
}

// limitFlag takes name=value, as often as it is given.
type limitFlag struct {
	limits engine.Limits
	given  []string
}

// Set takes one limit.
func (f *limitFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("lacks its value; write it as in idle-time=1m or conns=off")
	}
	for _, known := range limitsOf(&f.limits) {
		if known.name != name {
			continue
		}
		if err := known.set(value); err != nil {
			return err
		}
		f.given = append(f.given, text)
		return nil
	}
	return fmt.Errorf("there is no limit %s; %s", name, exit.DidYouMean(name, limitNames(), "there are "+strings.Join(limitNames(), ", ")))
}

// String returns the limits given.
func (f *limitFlag) String() string { return strings.Join(f.given, ",") }

// Type is how help names the value.
func (f *limitFlag) Type() string { return "name=value" }

func (l limit) set(value string) error {
	switch {
	case value == "off" && l.time != nil:
		*l.time = -1
	case value == "off":
		*l.number = -1
	case l.time != nil:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is no time; write it with its unit, as in 500ms or 1m, or off", value)
		}
		*l.time = d
	case l.bytes:
		n, err := figure.ParseSize(value)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no size; write it as in 512, 64KiB or 1MiB, or off", value)
		}
		*l.number = n
	default:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is no number of them; write it in digits, as in 100, or off", value)
		}
		*l.number = int(n)
	}
	return nil
}

// effective is the limits in effect, for the log.
func effective(l engine.Limits) []any {
	l = l.OrDefaults()
	var attrs []any
	for _, known := range limitsOf(&l) {
		attrs = append(attrs, slog.String(known.name, known.String()))
	}
	return attrs
}

// String is the limit as --limit takes it.
func (l limit) String() string {
	switch {
	case l.time != nil && *l.time == math.MaxInt64, l.number != nil && *l.number == math.MaxInt32:
		return "off"
	case l.time != nil:
		return l.time.String()
	case l.bytes:
		return figure.Size(*l.number)
	}
	return strconv.Itoa(*l.number)
}
