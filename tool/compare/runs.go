package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// Runs is one side of a comparison: runs of the same thing.
type Runs struct {
	Series []Series
	// PairIDs are the pairs to which the runs belong, in the order of the runs. Nil: the
	// first run is in pair 1, the second in pair 2, and so on.
	PairIDs  []int
	Unfit    record.Unfit
	Settings Settings
}

// Series is one figure over all runs.
type Series struct {
	Name   string
	Unit   string
	Better string
	// Values has one value per run, in order; NaN where a run has none, so that a missing
	// value never shifts the others to another run.
	Values []float64
}

var (
	// ErrInvalidRun reports a run whose figures cannot be trusted.
	ErrInvalidRun = errors.New("compare: a run is not valid")
	// ErrMixed reports results of different settings on one side.
	ErrMixed = errors.New("compare: one side has results of different settings")
	// ErrNoPairs reports two sides whose runs cannot be matched.
	ErrNoPairs = errors.New("compare: the runs are not pairs")
)

// ReadRuns reads results of hone load --json, one after the other.
func ReadRuns(name string, in io.Reader) (*Runs, error) {
	runs := &Runs{Settings: Settings{Machine: map[string]string{}, Soft: map[string]string{}}}
	if err := runs.readLoads(name, in); err != nil {
		return nil, err
	}
	if len(runs.Series) == 0 {
		return nil, fmt.Errorf("compare: no run in %s; give results of hone load --json", name)
	}
	return runs, nil
}

// series returns the series of that name and unit, and creates it if needed.
func (r *Runs) series(name, unit string, better string) *Series {
	i := r.index(name, unit)
	if i < 0 {
		i = len(r.Series)
		r.Series = append(r.Series, Series{Name: name, Unit: unit, Better: better})
	}
	return &r.Series[i]
}

func (r *Runs) index(name, unit string) int {
	return slices.IndexFunc(r.Series, func(s Series) bool { return s.Name == name && s.Unit == unit })
}

// set sets the value of a run, counted from 0.
func (s *Series) set(run int, value float64) {
	s.pad(run + 1)
	s.Values[run] = value
}

// pad adds missing values until there are as many as runs.
func (s *Series) pad(runs int) {
	for len(s.Values) < runs {
		s.Values = append(s.Values, math.NaN())
	}
}

// complete pads every series.
func (r *Runs) complete(runs int) {
	for i := range r.Series {
		r.Series[i].pad(runs)
	}
}

func (r *Runs) readLoads(name string, in io.Reader) error {
	results := json.NewDecoder(in)
	for number := 1; ; number++ {
		var l load.Result
		switch err := results.Decode(&l); {
		case err == io.EOF:
			r.complete(number - 1)
			return nil
		case err != nil:
			return fmt.Errorf("compare: %s, result %d: %w; give results of hone load --json (of go test, benchstat compares files, and hone bench --cmd revisions)", name, number, err)
		case l.Schema != figure.SchemaLoad:
			return fmt.Errorf("compare: %s, result %d: its schema is %q, not that of hone load", name, number, l.Schema)
		case !l.Valid:
			return fmt.Errorf("%w: %s, result %d: %s", ErrInvalidRun, name, number, strings.Join(l.InvalidReasons, "; "))
		}
		if number == 1 {
			r.Settings.Load, r.Settings.Soft["hone"] = l.Settings, l.Version
		}
		if differ := differing(r.Settings.Load, l.Settings); len(differ) > 0 {
			return fmt.Errorf("%w: %s, result %d: %s; give results of one load", ErrMixed, name, number, differ[0])
		}
		l.Metrics(func(name, unit, better string, value float64) {
			r.series(name, unit, better).set(number-1, value)
		})
	}
}

// Match joins the figures of two sides, in the order of a, then of b. A figure that only
// one side has counts, without values on the other. With paired, runs are matched by pair
// id; an error reports that they are not pairs. Without a figure in common it returns
// none.
func Match(a, b *Runs, paired bool) ([]Figure, error) {
	var figures []Figure
	common := false
	for _, s := range slices.Concat(a.Series, b.Series) {
		if slices.ContainsFunc(figures, func(f Figure) bool { return f.Name == s.Name && f.Unit == s.Unit }) {
			continue
		}
		common = common || a.index(s.Name, s.Unit) >= 0 && b.index(s.Name, s.Unit) >= 0
		f := Figure{Name: s.Name, Unit: s.Unit, Better: s.Better}
		if f.Unfit = a.Unfit; f.Unfit == record.Late && s.Unit == "B" {
			f.Unfit = "" // memory is what it is
		}
		va, vb := a.values(s), b.values(s)
		switch {
		case !paired:
			f.A, f.B = va, vb
		case len(va) != len(vb):
			return nil, fmt.Errorf("%w: %s %s has %d values on one side and %d on the other; give all runs of both, in the order of measurement", ErrNoPairs, s.Name, s.Unit, len(va), len(vb))
		default:
			f.Pairs = a.pairs(va, vb)
		}
		figures = append(figures, f)
	}
	if !common {
		return nil, nil
	}
	return figures, nil
}

// values returns the values of the same figure; all are missing if there is none.
func (r *Runs) values(of Series) []float64 {
	if i := r.index(of.Name, of.Unit); i >= 0 {
		return r.Series[i].Values
	}
	var none Series
	none.pad(len(of.Values))
	return none.Values
}

// pairs joins values of the same run.
func (r *Runs) pairs(a, b []float64) []Pair {
	pairs := make([]Pair, len(a))
	for i := range a {
		pairs[i] = Pair{ID: i + 1, A: a[i], B: b[i]}
		if r.PairIDs != nil {
			pairs[i].ID = r.PairIDs[i]
		}
	}
	return pairs
}
