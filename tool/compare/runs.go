package compare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"
)

// Runs is what a file holds: some runs of the same thing.
type Runs struct {
	Series []Series
	// Settings are what is known of the machine and the program, and makes figures
	// those of different things where it differs.
	Settings map[string]string
	// Soft are other settings, worth a word where they differ.
	Soft map[string]string
}

// Series is one figure of all runs.
type Series struct {
	Name   string
	Unit   string
	Better Direction
	Values []float64
	Noise  float64 // see Metric
}

// ErrInvalidRun is about a run whose figures are not to be believed.
var ErrInvalidRun = errors.New("compare: a run is not valid")

// ReadRuns reads the results of hone load --json, one after the other, or Go's
// benchmark format.
func ReadRuns(name string, in io.Reader) (*Runs, error) {
	text := bufio.NewReader(in)
	runs := &Runs{Settings: map[string]string{}}
	var err error
	if isJSON(text) {
		err = runs.readLoads(name, text)
	} else {
		err = runs.readBenchmarks(name, text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(runs.Series) == 0:
		return nil, fmt.Errorf("compare: there is no run in %s; give results of hone load --json, or of go test -bench", name)
	}
	return runs, nil
}

func isJSON(text *bufio.Reader) bool {
	for n := 1; ; n++ {
		ahead, err := text.Peek(n)
		if first := bytes.TrimSpace(ahead); len(first) > 0 || err != nil {
			return len(first) > 0 && first[0] == '{'
		}
	}
}

// add appends a value to its series.
func (r *Runs) add(name, unit string, better Direction, value float64) {
	i := slices.IndexFunc(r.Series, func(s Series) bool { return s.Name == name && s.Unit == unit })
	if i < 0 {
		i = len(r.Series)
		r.Series = append(r.Series, Series{Name: name, Unit: unit, Better: better})
	}
	r.Series[i].Values = append(r.Series[i].Values, value)
}

const loadSchema = "hone.load/"

// loadRun is the part of hone load's result that can be compared.
type loadRun struct {
	Schema  string              `json:"schema"`
	Valid   bool                `json:"valid"`
	Reasons []string            `json:"invalid_reasons"`
	Rate    *float64            `json:"rate"`
	Latency map[string]*float64 `json:"latency_us"`
	Server  *struct {
		CPU *float64 `json:"cpu_us_per_request"`
		RSS *float64 `json:"rss_bytes"`
	} `json:"server"`
}

func (r *Runs) readLoads(name string, in io.Reader) error {
	results := json.NewDecoder(in)
	for number := 1; ; number++ {
		var l loadRun
		switch err := results.Decode(&l); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("compare: %s, result %d: %w", name, number, err)
		case !strings.HasPrefix(l.Schema, loadSchema):
			return fmt.Errorf("compare: %s, result %d: its schema is %q, not that of hone load", name, number, l.Schema)
		case !l.Valid:
			return fmt.Errorf("%w: %s, result %d: %s", ErrInvalidRun, name, number, strings.Join(l.Reasons, "; "))
		}
		r.addLoad(&l)
	}
}

func (r *Runs) addLoad(l *loadRun) {
	if l.Rate != nil {
		r.add("rate", "req/s", Higher, *l.Rate)
	}
	if l.Server != nil && l.Server.CPU != nil {
		r.add("server CPU", "µs/req", Lower, *l.Server.CPU)
	}
	for _, quantile := range []string{"p50", "p99", "p999"} {
		if v := l.Latency[quantile]; v != nil {
			r.add(quantile, "µs", Lower, *v)
		}
	}
	if l.Server != nil && l.Server.RSS != nil {
		r.add("server memory", "B", Lower, *l.Server.RSS)
	}
}

func (r *Runs) readBenchmarks(name string, in io.Reader) error {
	reader := benchfmt.NewReader(in, name)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			r.addBenchmark(record, reader.Units())
		case *benchfmt.SyntaxError:
			return fmt.Errorf("compare: %w", record)
		}
	}
	if err := reader.Err(); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return nil
}

func (r *Runs) addBenchmark(b *benchfmt.Result, units benchfmt.UnitMetadataMap) {
	for _, c := range b.Config {
		if c.File && slices.Contains(strict, c.Key) {
			r.Settings[c.Key] = string(c.Value)
		}
	}
	for _, v := range b.Values {
		better := Lower
		if units.GetBetter(v.Unit) > 0 || strings.HasSuffix(v.Unit, "/s") || strings.HasSuffix(v.Unit, "/sec") {
			better = Higher
		}
		_, unit := benchunit.Tidy(1, v.Unit)
		r.add(b.Name.String(), unit, better, v.Value)
	}
}

// strict are the settings of a benchmark's file in which two machines differ.
var strict = []string{"cpu", "goos", "goarch"}

// Differences lists the settings that make figures of a and b those of different
// things: compare them only if that is the question. What only one of them knows
// is no difference.
func Differences(a, b *Runs) (keys []string) {
	for key, va := range a.Settings {
		if vb := b.Settings[key]; va != "" && vb != "" && va != vb {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Match joins what both have measured, in the order of a. The rest is listed
// in missing.
func Match(a, b *Runs) (metrics []Metric, missing []string) {
	for _, s := range a.Series {
		i := slices.IndexFunc(b.Series, func(o Series) bool { return o.Name == s.Name && o.Unit == s.Unit })
		if i < 0 {
			missing = append(missing, s.Name+" "+s.Unit)
			continue
		}
		metrics = append(metrics, Metric{Name: s.Name, Unit: s.Unit, Better: s.Better, A: s.Values, B: b.Series[i].Values, Noise: s.Noise})
	}
	for _, s := range b.Series {
		if !slices.ContainsFunc(a.Series, func(o Series) bool { return o.Name == s.Name && o.Unit == s.Unit }) {
			missing = append(missing, s.Name+" "+s.Unit)
		}
	}
	return metrics, missing
}
