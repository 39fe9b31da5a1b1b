// Package offer computes when each request of a load is due and how large it is, as pure functions
// of the request's number: the same on any machine, in any order. It uses no clock and no socket.
package offer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Schedule is a rate of requests that changes over time, for example
//
//	ramp:1000..9000              linearly from the first rate to the last, over all of the measured time
//	step:1000..5000:1000/10s     1000 for 10 s, 2000 for 10 s, and so on; the last is 5000
//	step:1000,4000,2000/10s      these, each for 10 s
//	sine:1000..5000/1m           from the lower rate to the higher and back in a minute, repeated
//	stages:0..1000/30s,1000/2m,5000/10s,..0/1m
//	                             a ramp, a plateau, a spike, and a ramp from there to 0, one after the other
//
// Stages may have blanks and line ends between them. What comes after the last step or
// stage has its last rate. The zero Schedule is none. Schedules are values, and can be compared.
type Schedule struct {
	shape shape
	text  string // as UnmarshalText read it
}

// shape is the meaning of a schedule's text. The steps of a list and the stages are in the text
// alone, so that schedules can be compared.
type shape struct {
	kind     string        // "", "ramp", "step", "sine" or "stages"
	from, to float64       // requests a second
	step     float64       // increment of each step; 0 in a list of steps
	each     time.Duration // of a step or of all stages, or a sine's period
	steps    int
}

const (
	mostRate  = 1e9 // requests a second
	mostSteps = 10_000
	leastTime = time.Millisecond // of a step or period
	longest   = 100 * 365 * 24 * time.Hour
)

var errRate = errors.New("write rates in digits, as in 1000 or 0.5, at most 1000000000")

// UnmarshalText parses a schedule as above.
func (s *Schedule) UnmarshalText(text []byte) error {
	read, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("load: there is no schedule %q; %w", text, err)
	}
	*s = Schedule{read, string(text)}
	return nil
}

func parse(text string) (shape, error) {
	kind, rest, _ := strings.Cut(text, ":")
	var s shape
	var err error
	switch kind {
	case "ramp":
		s.from, s.to, err = parseRange(rest)
	case "step":
		s, err = parseSteps(rest)
	case "sine":
		var period string
		rest, period, _ = strings.Cut(rest, "/")
		if s.from, s.to, err = parseRange(rest); err == nil {
			s.each, err = parseTime(period)
		}
		if err == nil && s.from > s.to {
			err = errors.New("name the lower rate first")
		}
	case "stages":
		s, err = parseShapeOfStages(rest)
	default:
		err = errors.New("write it as ramp:FROM..TO, step:FROM..TO:STEP/DURATION, step:RATE,RATE,…/DURATION, sine:LOW..HIGH/PERIOD or stages:FROM..TO/DURATION,RATE/DURATION,…")
	}
	if s.kind = kind; err == nil && s.steps == 0 && s.from == 0 && s.to == 0 {
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

// parseSteps parses FROM..TO:STEP/DURATION or RATE,RATE/DURATION.
func parseSteps(text string) (s shape, err error) {
	text, each, _ := strings.Cut(text, "/")
	if s.each, err = parseTime(each); err != nil {
		return s, err
	}
	if strings.Contains(text, "..") {
		return s.parseEven(text)
	}
	rates, err := parseList(text)
	if err != nil {
		return s, err
	}
	s.steps = len(rates)
	offers := false
	for _, rate := range rates {
		offers = offers || rate > 0
	}
	if !offers {
		return s, errors.New("offer more than 0")
	}
	return s, nil
}

func parseList(text string) (rates []float64, err error) {
	for word := range strings.SplitSeq(text, ",") {
		rate, err := parseRate(word)
		if err != nil {
			return nil, err
		}
		if rates = append(rates, rate); len(rates) > mostSteps {
			return nil, fmt.Errorf("have %d steps at most", mostSteps)
		}
	}
	return rates, nil
}

// parseEven parses FROM..TO:STEP.
func (s shape) parseEven(text string) (shape, error) {
	ends, step, ok := strings.Cut(text, ":")
	if !ok {
		return s, errors.New("say by how much it steps, as in step:1000..5000:1000/10s")
	}
	var err error
	if s.from, s.to, err = parseRange(ends); err != nil {
		return s, err
	}
	if s.step, err = parseRate(step); err != nil {
		return s, err
	}
	steps := math.Ceil(math.Abs(s.to-s.from)/s.step) + 1
	switch {
	case s.step == 0:
		return s, errors.New("step by more than 0")
	case steps > mostSteps:
		return s, fmt.Errorf("have %d steps at most", mostSteps)
	case s.from == 0 && s.to == 0:
		return s, errors.New("offer more than 0")
	}
	s.steps = int(steps)
	return s, nil
}

// stage is a part of the time with a constant or linear rate.
type stage struct {
	from, to float64
	length   time.Duration
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
		if stages = append(stages, s); len(stages) > mostSteps {
			return nil, fmt.Errorf("have %d stages at most", mostSteps)
		}
		last = s.to
	}
	return stages, nil
}

func parseShapeOfStages(text string) (s shape, err error) {
	stages, err := parseStages(text)
	if err != nil {
		return s, err
	}
	s.steps = len(stages)
	offers := false
	for _, each := range stages {
		offers = offers || each.from > 0 || each.to > 0
		s.each = min(s.each+each.length, longest)
	}
	if !offers {
		return s, errors.New("offer more than 0")
	}
	return s, nil
}

// String returns the schedule as it was written; empty for none.
func (s Schedule) String() string { return s.text }

// None reports whether the schedule is empty.
func (s Schedule) None() bool { return s.shape.kind == "" }

// Length returns how long the schedule takes: its steps, its stages, or one period. Zero: any
// length.
func (s Schedule) Length() time.Duration {
	switch s.shape.kind {
	case "step":
		return min(s.shape.each, longest/time.Duration(s.shape.steps)) * time.Duration(s.shape.steps)
	case "sine", "stages":
		return s.shape.each
	}
	return 0
}

// stages returns the stages of the schedule.
func (s Schedule) stages() []stage {
	_, list, _ := strings.Cut(s.text, ":")
	stages, _ := parseStages(list) // UnmarshalText has checked it
	return stages
}

// rates returns the rates of the steps.
func (s Schedule) rates() []float64 {
	if s.shape.step == 0 {
		_, list, _ := strings.Cut(s.text, ":")
		list, _, _ = strings.Cut(list, "/")
		rates, _ := parseList(list) // UnmarshalText has checked it
		return rates
	}
	rates := make([]float64, s.shape.steps)
	for i := range rates {
		if s.shape.from <= s.shape.to {
			rates[i] = min(s.shape.from+float64(float64(i)*s.shape.step), s.shape.to)
		} else {
			rates[i] = max(s.shape.from-float64(float64(i)*s.shape.step), s.shape.to)
		}
	}
	return rates
}
