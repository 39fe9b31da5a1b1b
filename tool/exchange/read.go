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

// Generators are the programs whose results Read takes: wrk's output, with wrk2's; k6's
// summary in JSON; vegeta's report in JSON, or its results, in its own encoding or in JSON.
func Generators() []string { return []string{"wrk", "k6", "vegeta"} }

// Measured is what one file of another generator says.
type Measured struct {
	Generator string
	// Scenario is what the file says of the load, by the names of hone load's flags. It is
	// never all.
	Scenario string
	// Sample has the time of the run in At, or zero where the file does not have it.
	Sample record.Sample
	// Lacks are sentences about what the file does not hold.
	Lacks []string
}

// mostText is the longest output or report that Read takes. Results may be longer.
const mostText = 16 << 20

// leastRequests is how many make percentiles worth anything, as in a load of hone's.
const leastRequests = 100

// Read reads one result of a generator. A sample whose requests failed is not valid unless
// allowErrors; nor is one with fewer than 100 requests, or whose generator says that it did
// not send what it should have.
func Read(generator string, in io.Reader, allowErrors bool) (*Measured, error) {
	read, known := map[string]func(*bufio.Reader) (*reading, error){"wrk": readWrk, "k6": readK6, "vegeta": readVegeta}[generator]
	if !known {
		return nil, fmt.Errorf("exchange: there is no generator %q; use %s", generator, strings.Join(Generators(), ", "))
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

// reading is what a reader has found.
type reading struct {
	Measured
	requests, failed int64
	doubts           []string // why the generator's own figures cannot be believed
}

// add adds a figure.
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
		reasons = append(reasons, fmt.Sprintf("%d of %d requests failed; add --allow-errors to take it as it is", r.failed, r.requests))
	}
	if r.requests < leastRequests {
		reasons = append(reasons, fmt.Sprintf("%d requests are too few for percentiles; measure for longer", r.requests))
	}
	r.Sample.Valid, r.Sample.Reasons = len(reasons) == 0, append([]string{}, reasons...)
	r.Lacks = append(r.Lacks, "the machine, whether it was busy with something else, and whether "+r.Generator+" kept up")
	return &r.Measured
}

// Join makes one run of files of one generator and one load, a sample of each. Samples
// without a time get at.
func Join(name string, at time.Time, all []*Measured) (*record.Run, error) {
	if len(all) == 0 {
		return nil, errors.New("exchange: there is no file to join")
	}
	first := all[0]
	run := &record.Run{
		Name: name, Made: first.Generator, At: at,
		Scenario: record.Scenario{Name: first.Generator, Text: first.Scenario},
		// What measured it is no part of the machine, but figures of two generators are
		// figures of different things: compare looks at this key.
		Environment: record.Environment{Soft: map[string]string{GeneratorKey: first.Generator}},
	}
	for i, m := range all {
		if m.Generator != first.Generator || m.Scenario != first.Scenario {
			return nil, fmt.Errorf("exchange: file %d is of another load than the first: %s, not %s; import them one by one", i+1, oneLine(m.Scenario), oneLine(first.Scenario))
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

// GeneratorKey is the soft setting that names what measured a run, where it was not hone.
const GeneratorKey = "generator"

// text reads all of a short file.
func text(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, mostText+1))
	if err == nil && len(data) > mostText {
		err = fmt.Errorf("it is longer than %d MiB; give the report, not the results", mostText>>20)
	}
	return data, err
}
