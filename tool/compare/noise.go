package compare

import (
	"fmt"
	"io"
	"slices"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// Noise is the result of hone bench --against-self, also as JSON.
type Noise struct {
	Schema         string        `json:"schema"`
	Valid          bool          `json:"valid"`
	InvalidReasons []string      `json:"invalid_reasons"`
	Scenario       string        `json:"scenario"`
	Sessions       int           `json:"sessions"` // known so far, including this one
	Pairs          int           `json:"pairs"`    // of this session
	Floors         []NoiseFigure `json:"floors"`
	Store          string        `json:"store"` // path of the store
}

// NoiseFigure is how much a figure differs between builds of the same source, as a
// relative difference.
type NoiseFigure struct {
	Metric string   `json:"metric"`
	Unit   string   `json:"unit"`
	InTurn *float64 `json:"in_turn"` // root mean square; null: too few sessions
	Apart  *float64 `json:"apart"`   // of runs that did not alternate
}

// Check counts the valid pairs of a session.
func (r *Noise) Check(runs []*record.Run, wanted int) {
	r.InvalidReasons, r.Pairs = append([]string{}, Short(runs, wanted)...), wanted
	r.Valid = len(r.InvalidReasons) == 0
}

// Measure computes the noise floors from all stored sessions and this one, which need not
// be stored.
func (r *Noise) Measure(store *record.Store, runs []*record.Run) error {
	for _, run := range runs {
		run.Made = record.Repeat
		for i := range run.Samples {
			s := &run.Samples[i]
			s.Histograms, s.Series, s.Artefacts = nil, nil, nil
		}
	}
	if err := record.Identify(runs...); err != nil {
		return err
	}
	repeats, _, err := repeatsFor(store, runs[0])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(repeats, func(s [2]*record.Run) bool { return s[0].ID == runs[0].ID }) {
		repeats = append([][2]*record.Run{{runs[0], runs[1]}}, repeats...)
	}
	r.Sessions, r.Floors = len(repeats), []NoiseFigure{}
	figures, err := Match(Stored(runs[0], runs[1]))
	if err != nil {
		return err
	}
	AddSessions(figures, repeats)
	rms := func(f Figure) *float64 {
		if floor := f.Floor(); floor != nil {
			return &floor.RMS
		}
		return nil
	}
	for _, f := range figures {
		n := NoiseFigure{Metric: f.Name, Unit: f.Unit, InTurn: rms(f)}
		f.Pairs = nil
		n.Apart = rms(f)
		r.Floors = append(r.Floors, n)
	}
	return nil
}

// Write writes the noise floors as text.
func (r *Noise) Write(w io.Writer) {
	figure.WriteValidity(w, r.Valid, r.InvalidReasons)
	if r.Sessions > 0 {
		fmt.Fprintf(w, "%s: %s so far, %d pairs in this one\n\n", r.Scenario, figure.Counted(r.Sessions, "session"), r.Pairs)
		table := figure.Table{Head: []string{"figure", "builds differ by (alternating)", "between sessions"}}
		percent := func(v float64) string { return fmt.Sprintf("±%.1f %%", 100*v) }
		for _, f := range r.Floors {
			table.Add(figure.Name(f.Metric)+" "+f.Unit, figure.OrNone(f.InTurn, percent), figure.OrNone(f.Apart, percent))
		}
		table.Text(w)
		fmt.Fprintf(w, "\nstored in %s for verdicts about this machine and scenario\n", r.Store)
	}
	if r.Sessions <= fewestSessions {
		fmt.Fprintf(w, "verdicts about pairs need %d sessions, verdicts about runs that did not alternate one more; 8 are better, on several days\n", fewestSessions)
	}
}
