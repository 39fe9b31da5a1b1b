// Package offer computes when each request of a load is due and how large it is, as pure functions
// of the request's number: the same on any machine, in any order. It uses no clock and no socket.
package offer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a rate of requests that changes over time, for example
//
//	ramp:1000..9000              linearly from the first rate to the last, over all of the measured time
//	stages:0..1000/30s,1000/2m,5000/10s,..0/1m
//	                             a ramp, a plateau, a spike, and a ramp from there to 0, one after the other
//
// Stages may have blanks and line ends between them. What comes after the last
// stage has its last rate. The zero Schedule is none.
type Schedule struct {
	text   string  // as UnmarshalText read it
	stages []stage // one after the other
}

// stage is a part of the time with a constant or linear rate.
type stage struct {
	from, to float64       // requests a second
	length   time.Duration // 0: all of the measured time
}

const (
	mostRate   = 1e9 // requests a second
	mostStages = 10_000
	leastTime  = time.Millisecond // of a stage
	longest    = 100 * 365 * 24 * time.Hour
)

var errRate = errors.New("write rates in digits, as in 1000 or 0.5, at most 1000000000")

// UnmarshalText parses a schedule as above.
func (s *Schedule) UnmarshalText(text []byte) error {
	read, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("load: there is no schedule %q; %w", text, err)
	}
	*s = read
	return nil
}

func parse(text string) (s Schedule, err error) {
	kind, rest, _ := strings.Cut(text, ":")
	s.text = text
	switch kind {
	case "ramp":
		s.stages = make([]stage, 1)
		s.stages[0].from, s.stages[0].to, err = parseRange(rest)
	case "stages":
		s.stages, err = parseStages(rest)
	default:
		err = errors.New("write it as ramp:FROM..TO, or stages:FROM..TO/DURATION,RATE/DURATION,…")
	}
	if err == nil && !slices.ContainsFunc(s.stages, func(each stage) bool { return each.from > 0 || each.to > 0 }) {
		err = errors.New("offer more than 0")
	}
	return s, err
}

// parseRange parses FROM..TO.
func parseRange(text string) (from, to float64, err error) {
	first, last, ok := strings.Cut(text, "..")
	if !ok {
		return 0, 0, errors.New("write the rates as FROM..TO, as in 1000..9000")
	}
	if from, err = parseRate(first); err == nil {
		to, err = parseRate(last)
	}
	return from, to, err
}

func parseRate(text string) (float64, error) {
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0 && rate <= mostRate) {
		return 0, errRate
	}
	return math.Abs(rate), nil // avoids negative zero
}

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < leastTime {
		return 0, errors.New("write the duration after a slash with its unit, as in /10s, 1ms at least")
	}
	return d, nil
}

// parseStages parses FROM..TO/DURATION, RATE/DURATION and ..TO/DURATION, with commas between them.
func parseStages(text string) (stages []stage, err error) {
	last := 0.0
	for word := range strings.SplitSeq(text, ",") {
		word = strings.Join(strings.Fields(word), "")
		rates, length, _ := strings.Cut(word, "/")
		s := stage{from: last}
		from, to, ramps := strings.Cut(rates, "..")
		if from != "" || !ramps {
			s.from, err = parseRate(from)
		}
		if s.to = s.from; ramps && err == nil {
			s.to, err = parseRate(to)
		}
		if err == nil {
			s.length, err = parseTime(length)
		}
		if err != nil {
			return nil, fmt.Errorf("stage %d is %q: %w", len(stages)+1, word, err)
		}
		if stages = append(stages, s); len(stages) > mostStages {
			return nil, fmt.Errorf("have %d stages at most", mostStages)
		}
		last = s.to
	}
	return stages, nil
}

// String returns the schedule as it was written; empty for none.
func (s Schedule) String() string { return s.text }

// None reports whether the schedule is empty.
func (s Schedule) None() bool { return s.stages == nil }

// Length returns how long the schedule takes: all stages. Zero: any length.
func (s Schedule) Length() (length time.Duration) {
	for _, each := range s.stages {
		length += min(each.length, longest-length)
	}
	return length
}
