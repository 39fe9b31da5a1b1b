// Package record stores runs: every measurement with everything needed to trust and
// repeat it.
//
// A [Run] is one program on one machine under one [Scenario], measured one or more times;
// each time, by a fresh process, is a [Sample]. A sample holds its figures and the data
// behind them: histograms, series, profiles, logs. The [Environment] is what figures
// depend on besides the program: runs are comparable only if its strict parts are equal.
//
// # The store
//
// A [Store] is a folder, the nearest .hone/runs upwards or that of the user ([Find]), with one
// folder for each run, or for all runs that alternated:
//
//	3f9c2a71b04e/              the run's ID; of a pair, or of more, all, with a + between them
//	  run.json                 what a list needs, at most 4 KiB for each run; its seal is the SHA-256 of "runs"
//	  3f9c2a71b04e.json        everything else; its SHA-256 begins with the ID
//	  9a0364b9e99bb480…        the artefacts, named by their SHA-256
//
// A folder is written beside the others, synced, and renamed, so a run is there completely or not
// at all, whatever happens: a full disk, a killed process, a power failure. Several programs may
// write at once. Folders that are damaged, or another program's, are skipped ([Store.Skipped]). A
// run never changes: its ID is derived from its content, so adding it again changes nothing. To
// have a run in another store, copy its folder.
//
// A reference, "ref", means the first of these that exists:
//
//	latest          the newest run
//	latest~2        the run two before it
//	3f9c2a71b04e    the run with this ID
//	before          the newest run of this name, else of this git revision ("before
//	                2b1d8c6ad7"), or the only one whose ID starts with it, at least
//	                4 digits; if both exist, neither
//
// The newest run is the one that began last. Latest
// leaves out runs of a program against itself ([Repeat]).
//
// # Canonical form
//
// The store returns a run as it was given, with these exceptions: times are in UTC; lists and
// maps are never nil; invalid UTF-8 becomes U+FFFD; values that are not finite become NaN: no
// figure, null in JSON.
//
// For other programs, [WriteBenchmarks] writes the format of benchstat, [WriteHistogramLog] that of
// HdrHistogram's tools, and [WriteCSV] one for spreadsheets.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// Run is one program, on one machine, under one scenario, measured one or more
// times.
type Run struct {
	// ID is 12 hex digits of the SHA-256 of its document, without ID and PairedWith; that contains
	// the hashes of all artefacts. Add sets it.
	ID string `json:"id"`
	// Name is the user's name for it. It may be empty, and need not be unique.
	Name string `json:"name"`
	// Made names the command that made it: "bench", "load", "demo", Repeat, …
	Made string `json:"made"`
	// At is when the first sample began.
	At          time.Time   `json:"at"`
	Scenario    Scenario    `json:"scenario"`
	Environment Environment `json:"environment"`
	// PairedWith is the ID of the first run whose samples alternated with these; Sample.Pair
	// joins them. AddTogether sets it. It is not part of what
	// ID is derived from, since each of two runs would contain the other.
	PairedWith string   `json:"paired_with,omitempty"`
	Samples    []Sample `json:"samples"`
}

// Title returns the run's name and ID, for people.
func (r *Run) Title() string {
	if r.Name == "" {
		return r.ID
	}
	return r.Name + " (" + r.ID + ")"
}

// Printed is Run.Made of runs of a command that prints Go benchmarks: each metric is named after its
// benchmark and has the unit that was printed.
const Printed = "bench, printed"

// Scenario is the load and its target.
type Scenario struct {
	Name string `json:"name"`
	// Settings would make figures incomparable if they differed. Those that are not there have their
	// defaults.
	Settings map[string]string `json:"settings"`
	// Load are all settings of the load, with the values that were used for defaults. Empty: not known.
	Load map[string]string `json:"load"`
	// Primary is the figure that decides about comparisons. Zero: the first.
	Primary string `json:"primary,omitempty"`
}

// Hash returns 16 hex digits of the SHA-256 of Settings: equal for comparable scenarios.
func (s Scenario) Hash() string {
	settings, _ := json.Marshal(cleanMap(s.Settings)) // cannot fail: strings
	return digest(settings)[:16]
}

// Words lists what was measured, the other settings, and the figure that decides.
func (s Scenario) Words() []string {
	words := []string{}
	for _, key := range slices.Sorted(maps.Keys(s.Settings)) {
		word := key + "=" + s.Settings[key]
		if slices.Contains(targetKeys, key) {
			words = slices.Insert(words, 0, word)
			continue
		}
		words = append(words, word)
	}
	if s.Primary != "" {
		words = append(words, "primary="+s.Primary)
	}
	return words
}

// targetKeys are the settings that name what is measured: the target of a load, or the package of Go benchmarks.
var targetKeys = []string{"target", "pkg"}

// Environment is what figures depend on besides the program and the scenario.
type Environment struct {
	// Strict must be equal for figures to be comparable.
	Strict map[string]string `json:"strict"`
	// Soft may differ, with a warning.
	Soft map[string]string `json:"soft"`
}

// Fingerprint returns 16 hex digits of the SHA-256 of Strict: equal for machines whose
// figures are comparable.
func (e Environment) Fingerprint() string {
	strict, _ := json.Marshal(cleanMap(e.Strict)) // cannot fail: strings
	return digest(strict)[:16]
}

// Sample is the measurement by, or of, one fresh process.
type Sample struct {
	// Pair joins it with the other run's sample taken right before or after it, from 1.
	// 0: none.
	Pair int `json:"pair"`
	// Order is its position among all samples of the session, from 1.
	Order int       `json:"order"`
	At    time.Time `json:"at"`
	// Valid reports whether its figures can be trusted; if not, Unfit and Reasons say why.
	Valid   bool     `json:"valid"`
	Unfit   Unfit    `json:"unfit,omitempty"`
	Reasons []string `json:"invalid_reasons"`
	// Rate is how many answers came in a second, and Errors how many requests failed. Nil: not known.
	Rate       *float64    `json:"rate,omitempty"`
	Errors     *int64      `json:"errors,omitempty"`
	Metrics    []Metric    `json:"metrics"`
	Histograms []Histogram `json:"-"`
	Series     []Series    `json:"-"`
	Artefacts  []Artefact  `json:"-"`
}

// Why describes why the figures do not count.
func (s Sample) Why() string {
	if s.Unfit == Profiled {
		return strings.Join(append([]string{"profiled: a server that is looked at is slower"}, s.Reasons...), "; ")
	}
	return strings.Join(s.Reasons, "; ")
}

// Unfit is the kind of reason for which figures do not count. Empty: they do.
type Unfit string

// The kinds.
const (
	// Late: nothing but the load generator, which was late. It spoils times and rates, and the server's CPU time, because late
	// requests come in bunches (0.38 to 0.63 of the undisturbed CPU were measured); not memory.
	Late Unfit = "late"
	// Disturbed: other programs, the machine, or the server itself. It spoils every figure.
	Disturbed Unfit = "disturbed"
	// Profiled: the sample was taken for its profiles.
	Profiled Unfit = "profiled"
)

// Which values of a Metric are good.
const (
	Lower  = "lower"
	Higher = "higher"
)

// Metric is one figure of a sample. NaN means no figure. Its JSON has name, unit, better
// and value, also in a type that embeds it.
type Metric struct {
	Name   string
	Unit   string
	Better string // Lower or Higher
	Value  float64
}

// Spread is a metric over the valid samples of a run: Value is the median.
type Spread struct {
	Metric
	Values []float64 // ascending
}

// Text formats the median, and the lowest and the highest value.
func (s Spread) Text() (median, around string) {
	low, high := figure.In(s.Values[0], s.Unit), figure.In(s.Values[len(s.Values)-1], s.Unit)
	if number, unit, found := strings.Cut(low, " "); found && strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return figure.In(s.Value, s.Unit), low + "–" + high
}

// Spreads returns the metrics that have values, in the order of their first ones.
func (r *Run) Spreads() (all []Spread) {
	for _, s := range r.Samples {
		if !s.Valid {
			continue
		}
		for _, m := range s.Metrics {
			if math.IsNaN(m.Value) {
				continue
			}
			i := slices.IndexFunc(all, func(f Spread) bool { return f.Name == m.Name && f.Unit == m.Unit })
			if i < 0 {
				i = len(all)
				all = append(all, Spread{Metric: m})
			}
			all[i].Values = append(all[i].Values, m.Value)
		}
	}
	for i := range all {
		slices.Sort(all[i].Values)
		all[i].Value = figure.Median(all[i].Values)
	}
	return all
}

// Histogram is a distribution in HdrHistogram's encoding (V2, compressed).
type Histogram struct {
	Name string `json:"name"`
	// Start and End are relative to the start of the sample; both 0: the whole sample.
	Start time.Duration `json:"start_ns"`
	End   time.Duration `json:"end_ns"`
	Data  []byte        `json:"data"`
}

// Series is a figure over time: one value per Step from Start on, relative to the start
// of the sample. NaN means no figure.
type Series struct {
	Name, Unit  string
	Start, Step time.Duration
	Values      []float64
}

// Artefact is other data of a sample. Kind is for programs ("cpu", "allocs", "log",
// "metrics", …), Name for people.
type Artefact struct {
	Kind string
	Name string
	Data []byte
}

// nullable is a value in JSON, null for NaN.
type nullable float64

// MarshalJSON encodes the value, or null.
func (f nullable) MarshalJSON() ([]byte, error) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON decodes the value; null is NaN.
func (f *nullable) UnmarshalJSON(text []byte) error {
	*f = nullable(math.NaN())
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

type metricJSON struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	Better string   `json:"better"`
	Value  nullable `json:"value"`
}

// MarshalJSON encodes name, unit, better and value.
func (m Metric) MarshalJSON() ([]byte, error) {
	return json.Marshal(metricJSON{m.Name, m.Unit, m.Better, nullable(m.Value)})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (m *Metric) UnmarshalJSON(text []byte) error {
	read := metricJSON{Value: nullable(math.NaN())}
	err := unmarshalStrictly(text, &read)
	*m = Metric{read.Name, read.Unit, read.Better, float64(read.Value)}
	return err
}

type seriesJSON struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	Start  time.Duration `json:"start_ns"`
	Step   time.Duration `json:"step_ns"`
	Values []nullable    `json:"values"`
}

// MarshalJSON encodes name, unit, start_ns, step_ns and values.
func (s Series) MarshalJSON() ([]byte, error) {
	return json.Marshal(seriesJSON{s.Name, s.Unit, s.Start, s.Step, nullables(s.Values)})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (s *Series) UnmarshalJSON(text []byte) error {
	var read seriesJSON
	err := unmarshalStrictly(text, &read)
	*s = Series{read.Name, read.Unit, read.Start, read.Step, values(read.Values)}
	return err
}

// nullables and values convert slices; nil becomes an empty list.
func nullables(all []float64) []nullable {
	out := make([]nullable, len(all))
	for i, v := range all {
		out[i] = nullable(v)
	}
	return out
}

func values(all []nullable) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = float64(v)
	}
	return out
}

// digest returns the SHA-256 in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
