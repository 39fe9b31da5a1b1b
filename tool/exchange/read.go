package exchange

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// Generators are the programs whose results Read accepts: the output of wrk and wrk2; k6's summary
// in JSON; vegeta's report in JSON, or its results, in its own encoding or in JSON.
func Generators() []string { return []string{"wrk", "k6", "vegeta"} }

// Measured is the content of one file of another generator.
type Measured struct {
	Generator string
	// Scenario is what the file says about the load, by the names of hone load's flags. It is
	// always incomplete.
	Scenario string
	// Sample has the time of the run in At, or zero if the file does not contain it.
	Sample record.Sample
	// Lacks are sentences about what the file does not contain.
	Lacks []string
}

// mostText is the longest output or report that Read accepts. Results may be longer.
const mostText = 16 << 20

// leastRequests is how many requests make percentiles meaningful, as in hone's own loads.
const leastRequests = 100

// Read reads one result of a generator. A sample with failed requests is invalid unless
// allowErrors is set; so is one with fewer than 100 requests, or one whose generator reports that
// it did not send what it should have.
func Read(generator string, in io.Reader, allowErrors bool) (*Measured, error) {
	read, known := map[string]func(*bufio.Reader) (*reading, error){"wrk": readWrk, "k6": readK6, "vegeta": readVegeta}[generator]
	if !known {
		return nil, fmt.Errorf("exchange: unknown generator %q; use %s", generator, strings.Join(Generators(), ", "))
	}
	r, err := read(bufio.NewReader(in))
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	return r.measured(allowErrors), nil
}

// ReadFile is Read for a file; written is when it was last changed.
func ReadFile(generator, name string, allowErrors bool) (m *Measured, written time.Time, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, written, errors.Unwrap(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, written, err
	}
	m, err = Read(generator, file, allowErrors)
	return m, info.ModTime().UTC(), err
}

// reading is what a reader has parsed.
type reading struct {
	Measured
	requests, failed int64
	doubts           []string // why the generator's own figures are not valid
}

// add adds a metric.
func (r *reading) add(name, unit, better string, value float64) {
	r.Sample.Metrics = append(r.Sample.Metrics, record.Metric{Name: name, Unit: unit, Better: better, Value: value})
}

// addTime adds a percentile in microseconds.
func (r *reading) addTime(name string, value time.Duration) {
	r.add(name, "µs", record.Lower, float64(value)/1e3)
}

func (r *reading) measured(allowErrors bool) *Measured {
	reasons := slices.Clone(r.doubts)
	if r.failed > 0 && !allowErrors {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests failed; add --allow-errors to accept them", r.failed, r.requests))
	}
	if r.requests < leastRequests {
		reasons = append(reasons, fmt.Sprintf("%d requests are too few for percentiles; measure for longer", r.requests))
	}
	r.Sample.Valid, r.Sample.Reasons = len(reasons) == 0, append([]string{}, reasons...)
	r.Lacks = append(r.Lacks, "the machine, whether it was busy with something else, and whether "+r.Generator+" kept up")
	return &r.Measured
}

// Join makes one run from files of one generator and one load; each file is a sample. Samples
// without a time get at.
func Join(name string, at time.Time, all []*Measured) (*record.Run, error) {
	if len(all) == 0 {
		return nil, errors.New("exchange: no file to join")
	}
	first := all[0]
	run := &record.Run{
		Name: name, Made: first.Generator, At: at,
		Scenario: record.Scenario{Name: first.Generator, Text: first.Scenario},
		// The generator is not part of the machine, but results of two generators measure
		// different things: compare checks this key.
		Environment: record.Environment{Soft: map[string]string{GeneratorKey: first.Generator}},
	}
	for i, m := range all {
		if m.Generator != first.Generator || m.Scenario != first.Scenario {
			return nil, fmt.Errorf("exchange: file %d has another load than the first: %s, not %s; import them one by one", i+1, oneLine(m.Scenario), oneLine(first.Scenario))
		}
		s := m.Sample
		s.Order = i + 1
		if s.At.IsZero() {
			s.At = at
		}
		if i == 0 || s.At.Before(run.At) {
			run.At = s.At
		}
		run.Samples = append(run.Samples, s)
	}
	return run, nil
}

// GeneratorKey is the soft setting that names the generator of a run, if it was not hone.
const GeneratorKey = "generator"

// text reads all of a short file.
func text(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, mostText+1))
	if err == nil && len(data) > mostText {
		err = fmt.Errorf("it is longer than %d MiB; give the report, not the results", mostText>>20)
	}
	return data, err
}
