// Package record keeps what a run was: every measurement with all that is needed
// to believe it and to repeat it.
//
// A [Run] is one program on one machine under one [Scenario], measured one or
// more times; each time, by a fresh process, is a [Sample]. A sample holds its
// figures, and what they were made of: histograms, series, profiles, logs. What
// figures depend on beside the program is the [Environment]: where its strict part
// differs, they are figures of different things.
//
// # The store
//
// A [Store] is one SQLite file, the nearest .hone/runs.db upwards or that of the
// user ([Find]). A run is in it whole or not at all, whatever happens meanwhile: a
// full disk, a second program, a process that is killed. One program writes at a
// time, others wait for it up to five seconds. Each run is synced to disk: it took
// minutes to make, and syncing takes milliseconds. The file must be on a disk of
// this machine: SQLite's log is shared memory, which network file systems lack.
//
// A run is never changed. Its ID is made of its content, so adding it again changes
// nothing, and [Store.Get] finds out when somebody else has changed the file.
// Blobs are stored once, however many runs have them, as they are: histograms and
// profiles are compressed already.
//
// What is meant by a reference, "ref", is the first of these that there is:
//
//	latest          the newest run
//	latest~2        the one that is two older
//	baseline:NAME   the run that is the baseline of this name
//	3f9c2a71b04e    the run with this ID
//	before          the newest run of this name, or the only one whose ID
//	                begins so, of at least 4 digits; if both exist, neither
//
// Newest is what began last; of those that began in the same moment, what was added
// last. Latest leaves out runs of a program against itself ([Repeat]).
//
// # What comes back
//
// A run comes back from the store, and from an export, as it was given, but for
// this: times are in UTC; lists and maps are never nil; text that is not UTF-8 has
// U+FFFD where it is not; a value that is not finite is NaN: no figure, null in JSON
// and in SQL.
//
// # For other programs
//
// The file is for everybody's SQL: the view figure has every figure in a line, with
// the tables run, sample, metric, series, histogram, artefact and blob behind it.
// [Export] writes one run as a tar, [WriteBenchmarks] what benchstat reads,
// [WriteCSV] what spreadsheets read.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"
)

// Run is one program, on one machine, under one scenario, measured one or more
// times.
type Run struct {
	// ID is 12 hex digits of the SHA-256 of its export's run.json without ID and
	// PairedWith; that has the hashes of all blobs in it. Add fills it in.
	ID string `json:"id"`
	// Name is what its user calls it. It may be empty, and need not be unique.
	Name string `json:"name"`
	// Made is by what: "bench", "load", "demo", Repeat, …
	Made string `json:"made"`
	// At is when the first sample began.
	At          time.Time   `json:"at"`
	Scenario    Scenario    `json:"scenario"`
	Environment Environment `json:"environment"`
	// PairedWith is the ID of the run whose samples were taken in turn with these;
	// Sample.Pair joins them. That run may be gone. AddPair fills it in. It is no
	// part of what ID is made of, since each of two would be part of the other.
	PairedWith string   `json:"paired_with,omitempty"`
	Samples    []Sample `json:"samples"`
}

// Scenario is what was asked of whom.
type Scenario struct {
	Name string `json:"name"`
	// Text is everything that would make figures incomparable, always written in
	// the same way.
	Text string `json:"text"`
}

// Hash is 16 hex digits of the SHA-256 of Text: the same for what may be compared.
func (s Scenario) Hash() string {
	return digest([]byte(s.Text))[:16]
}

// Environment is what figures depend on beside the program and the scenario.
type Environment struct {
	// Strict must be equal, or figures are of different things.
	Strict map[string]string `json:"strict"`
	// Soft may differ, with a warning.
	Soft map[string]string `json:"soft"`
}

// Fingerprint is 16 hex digits of the SHA-256 of Strict: the same for machines
// whose figures may be compared.
func (e Environment) Fingerprint() string {
	strict, _ := json.Marshal(cleanMap(e.Strict)) // texts have no errors
	return digest(strict)[:16]
}

// Sample is what one fresh process measured, or was measured of.
type Sample struct {
	// Pair joins it with the sample of the other run that was taken right before or
	// after it, from 1. 0: it is in no pair.
	Pair int `json:"pair"`
	// Order is its position among all samples of the session, from 1.
	Order int       `json:"order"`
	At    time.Time `json:"at"`
	// Valid is whether its figures can be believed; if not, Reasons say why.
	Valid      bool        `json:"valid"`
	Reasons    []string    `json:"invalid_reasons"`
	Metrics    []Metric    `json:"metrics"`
	Histograms []Histogram `json:"-"`
	Series     []Series    `json:"-"`
	Artefacts  []Artefact  `json:"-"`
}

// Which values of a Metric are good.
const (
	Lower  = "lower"
	Higher = "higher"
)

// Metric is one figure of a sample. NaN is no figure; in JSON its name, unit, better
// and value, which a type that embeds it gets, too.
type Metric struct {
	Name   string
	Unit   string
	Better string // Lower or Higher
	Value  float64
}

// Histogram is a distribution, as HdrHistogram writes it (V2, compressed).
type Histogram struct {
	Name string
	// Start and End are since the sample began; both 0: of the whole sample.
	Start, End time.Duration
	Data       []byte
}

// Series is how a figure went: a value each Step from Start on, since the sample
// began. NaN is no figure.
type Series struct {
	Name, Unit  string
	Start, Step time.Duration
	Values      []float64
}

// Artefact is what else there is of a sample. Kind is for programs ("cpu", "allocs",
// "log", "metrics", …), Name for people.
type Artefact struct {
	Kind string
	Name string
	Data []byte
}

// figure is a value in JSON, null where there is none.
type figure float64

// MarshalJSON writes the value, or null.
func (f figure) MarshalJSON() ([]byte, error) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads the value; null is NaN.
func (f *figure) UnmarshalJSON(text []byte) error {
	*f = figure(math.NaN())
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

type metricJSON struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Better string `json:"better"`
	Value  figure `json:"value"`
}

// MarshalJSON writes name, unit, better and value.
func (m Metric) MarshalJSON() ([]byte, error) {
	return json.Marshal(metricJSON{m.Name, m.Unit, m.Better, figure(m.Value)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Metric) UnmarshalJSON(text []byte) error {
	read := metricJSON{Value: figure(math.NaN())}
	err := unmarshalStrictly(text, &read)
	*m = Metric{read.Name, read.Unit, read.Better, float64(read.Value)}
	return err
}

type seriesJSON struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`
	Start  time.Duration `json:"start_ns"`
	Step   time.Duration `json:"step_ns"`
	Values []figure      `json:"values"`
}

// MarshalJSON writes name, unit, start_ns, step_ns and values.
func (s Series) MarshalJSON() ([]byte, error) {
	return json.Marshal(seriesJSON{s.Name, s.Unit, s.Start, s.Step, figures(s.Values)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Series) UnmarshalJSON(text []byte) error {
	var read seriesJSON
	err := unmarshalStrictly(text, &read)
	*s = Series{read.Name, read.Unit, read.Start, read.Step, values(read.Values)}
	return err
}

// figures and values change the type of all, and nil to an empty list.
func figures(all []float64) []figure {
	out := make([]figure, len(all))
	for i, v := range all {
		out[i] = figure(v)
	}
	return out
}

func values(all []figure) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = float64(v)
	}
	return out
}

// digest is the SHA-256 in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
