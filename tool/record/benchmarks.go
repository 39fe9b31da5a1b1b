package record

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"
)

// Settings of a benchmark file besides the environment.
const (
	validSetting = "valid"
	sideSetting  = "side"
	mostSetting  = 4 << 10 // bytes: readers of the format limit a line
)

// strictSettings must be equal for figures of go test to be comparable.
var strictSettings = []string{"goos", "goarch", "cpu", "pkg"}

// WriteBenchmarks writes runs in Go's benchmark format: one line per sample with figures,
// named after the scenario. The format identifies a metric by its unit, so the unit
// contains the metric's name: "p99-µs". Settings are the environment, then the scenario's
// name, hash and text. Invalid samples have the setting valid: false.
//
// benchstat puts lines with different settings into different tables. So several runs have only those of
// the machine, and side, their name: benchstat -col side compares them. A run of Go benchmarks has a line per sample and benchmark,
// with the units of go test.
func WriteBenchmarks(w io.Writer, runs ...*Run) error {
	b := &benchmarkWriter{out: w, results: benchfmt.NewWriter(w)}
	b.units(runs)
	if len(runs) > 1 {
		b.sides = sidesOf(runs)
	}
	for _, r := range runs {
		b.run(r)
	}
	if b.err != nil {
		return fmt.Errorf("record: writing benchmarks: %w", b.err)
	}
	return nil
}

// sidesOf returns names that tell runs apart.
func sidesOf(runs []*Run) map[*Run]string {
	sides := map[*Run]string{}
	for _, r := range runs {
		sides[r] = cmp.Or(r.Name, r.ID)
		if slices.ContainsFunc(runs, func(o *Run) bool { return o != r && cmp.Or(o.Name, o.ID) == sides[r] }) {
			sides[r] += " " + r.ID
		}
	}
	return sides
}

type benchmarkWriter struct {
	out     io.Writer
	results *benchfmt.Writer
	sides   map[*Run]string // the names of several runs; nil: there is one
	err     error           // the first one
}

func (b *benchmarkWriter) write(record benchfmt.Record) {
	if b.err == nil {
		b.err = b.results.Write(record)
	}
}

// note writes a line that readers of the format skip.
func (b *benchmarkWriter) note(format string, args ...any) {
	if b.err == nil {
		_, b.err = fmt.Fprintf(b.out, "# "+format+"\n", args...)
	}
}

// units declares once per unit which values are better. A reader rejects a second
// declaration.
func (b *benchmarkWriter) units(runs []*Run) {
	said := map[string]bool{}
	for _, r := range runs {
		for _, s := range r.Samples {
			for _, m := range s.Metrics {
				unit := benchmarkUnit(m)
				if r.Made == Printed {
					unit = word(m.Unit, '-')
				}
				_, tidy := benchunit.Tidy(1, unit)
				if said[tidy] || m.Better != Lower && m.Better != Higher {
					continue
				}
				said[tidy] = true
				b.write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: tidy, Key: "better"}, OrigUnit: unit, Value: m.Better})
			}
		}
	}
}

func (b *benchmarkWriter) run(r *Run) {
	b.note("run %s, made by %s at %s", oneLine(r.ID), oneLine(r.Made), r.At.UTC().Format("2006-01-02T15:04:05Z"))
	settings := b.settings(r)
	name := cmp.Or(word(r.Scenario.Name, '_'), "Unnamed")
	for i, s := range r.Samples {
		result := &benchfmt.Result{Name: benchfmt.Name(name), Iters: 1, Config: settings, Values: benchmarkValues(s.Metrics)}
		if !s.Valid {
			result.Config = append(slices.Clip(settings), benchfmt.Config{Key: validSetting, Value: []byte("false"), File: true})
			b.note("sample %d is not valid: %s", i+1, oneLine(s.Why()))
		}
		switch {
		case len(result.Values) == 0:
			b.note("sample %d has no figures", i+1)
		case r.Made == Printed:
			b.lines(result, s.Metrics)
		default:
			b.write(result)
		}
	}
}

// lines writes a sample of Go benchmarks as go test does, a line for each of them.
func (b *benchmarkWriter) lines(sample *benchfmt.Result, metrics []Metric) {
	for len(metrics) > 0 {
		n := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name != metrics[0].Name })
		if n < 0 {
			n = len(metrics)
		}
		line := *sample
		line.Name, line.Values = benchfmt.Name(word(metrics[0].Name, '_')), nil
		for _, m := range metrics[:n] {
			if !math.IsNaN(m.Value) {
				line.Values = append(line.Values, benchfmt.Value{Value: m.Value, Unit: word(m.Unit, '-')})
			}
		}
		if metrics = metrics[n:]; len(line.Values) > 0 {
			b.write(&line)
		}
	}
}

// settings lists what figures of a run depend on, each key once.
func (b *benchmarkWriter) settings(r *Run) (all []benchfmt.Config) {
	add := func(key, value string) {
		key, value = settingKey(key), oneLine(value)
		if value != "" && !slices.ContainsFunc(all, func(c benchfmt.Config) bool { return c.Key == key }) {
			all = append(all, benchfmt.Config{Key: key, Value: []byte(value), File: true})
		}
	}
	if b.sides != nil {
		for _, key := range strictSettings {
			add(key, r.Environment.Strict[key])
		}
		add(sideSetting, b.sides[r])
		return all
	}
	for _, part := range []map[string]string{r.Environment.Strict, r.Environment.Soft} {
		for _, key := range slices.Sorted(maps.Keys(part)) {
			add(key, part[key])
		}
	}
	add("scenario", r.Scenario.Name)
	add("scenario-hash", r.Scenario.Hash())
	add("scenario-text", strings.Join(r.Scenario.Words(), " "))
	return all
}

// benchmarkValues returns the existing figures, each under a distinct unit.
func benchmarkValues(metrics []Metric) (values []benchfmt.Value) {
	for _, m := range metrics {
		if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
			continue
		}
		unit := benchmarkUnit(m)
		taken := func(v benchfmt.Value) bool { return v.Unit == unit }
		for n := 2; slices.ContainsFunc(values, taken); n++ {
			unit = benchmarkUnit(m) + "-" + strconv.Itoa(n)
		}
		values = append(values, benchfmt.Value{Value: m.Value, Unit: unit})
	}
	return values
}

// benchmarkUnit returns the metric as one word.
func benchmarkUnit(m Metric) string {
	name, unit := word(m.Name, '-'), word(m.Unit, '-')
	switch {
	case name == "" && unit == "":
		return "value"
	case name == "" || name == unit:
		return unit
	case unit == "":
		return name
	}
	return name + "-" + unit
}

// word replaces blanks and unprintable characters.
func word(text string, instead rune) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return instead
		}
		return c
	}, oneLine(text))
}

// oneLine collapses blanks and truncates to the length that readers accept.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(cleanText(text)), " ")
	if len(text) > mostSetting {
		text = strings.ToValidUTF8(text[:mostSetting], "") + "…"
	}
	return text
}

// settingKey converts a key to the format: lower case, no blank, no colon, and not the
// key that marks validity.
func settingKey(key string) string {
	key = strings.Map(func(c rune) rune {
		if c = unicode.ToLower(c); c == ':' || unicode.IsUpper(c) {
			return '-'
		}
		return c
	}, word(key, '-'))
	if first := strings.IndexFunc(key, unicode.IsLower); first != 0 || key == validSetting {
		key = "key-" + key
	}
	return key
}

// BetterOf returns Better for a unit of Go's benchmark format: as the file declares it, then
// by Go's own units, then by the form of a rate.
func BetterOf(units benchfmt.UnitMetadataMap, unit string) string {
	switch says := units.GetBetter(unit); {
	case says > 0, says == 0 && (strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "/sec")):
		return Higher
	}
	return Lower
}
