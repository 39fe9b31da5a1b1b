// Package history finds when the figures of stored runs changed.
//
// A history is the runs of one program, by name, that are comparable with one of them, in the order of
// time. A run counts as one value per figure, the median of its valid samples. Where the level of a
// figure has changed, the history names the commits before and after.
package history

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// History is the result of hone history, also as JSON.
type History struct {
	Schema         string   `json:"schema"`
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Baseline       string   `json:"baseline"` // the run that the others are comparable with
	Name           string   `json:"name"`     // of the runs
	Scenario       string   `json:"scenario"`
	Runs           []Run    `json:"runs"`
	// LeftOut explains which runs of the same name are not comparable.
	LeftOut []string `json:"left_out"`
	// Level is the probability of a change in any figure if there is none; Needed is the number of
	// runs from which a change can be found at all.
	Level   float64  `json:"level"`
	Needed  int      `json:"needed_runs"`
	Figures []Figure `json:"figures"`
}

// Run is a stored run.
type Run struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Commit   string    `json:"commit"`   // empty: unknown
	Modified bool      `json:"modified"` // the code was not that commit's

	settings compare.Settings
}

// Figure is a figure over time.
type Figure struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Better string `json:"better"`
	// Values has one value per run; null: the run has none.
	Values  []*float64 `json:"values"`
	Changes []Change   `json:"changes"`
	// Needs is how many more runs it takes until a change can be found; 0: it can.
	Needs int `json:"needs_runs"`
}

// Change is a change of a figure's level.
type Change struct {
	Run   int    `json:"run"`   // index of the first run after it
	Since string `json:"since"` // commit of the last run before it; empty: unknown
	To    string `json:"to"`    // commit of that first run; empty: unknown
	ID    string `json:"id"`    // that run's
	// Before and After are the medians between the neighbouring changes; Ratio is null if Before
	// is zero.
	Before  float64         `json:"before"`
	After   float64         `json:"after"`
	Ratio   *float64        `json:"ratio"`
	Verdict compare.Verdict `json:"verdict"`
	// With lists settings that changed at the same time.
	With []string `json:"with"`
}

// Options select the runs. The zero value works.
type Options struct {
	// All includes runs of other names.
	All bool
	// Across lists settings that may differ.
	Across []string
	// Limit is how many runs to read, the newest. Zero: 200.
	Limit int
}

const defaultLimit = 200

// Read reads the history of the run that ref refers to. Empty: of the newest run.
func Read(store *record.Store, ref string, o Options) (*History, error) {
	base, err := store.Get(cmp.Or(ref, "latest"))
	if err != nil {
		return nil, err
	}
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	all, err := store.List(record.Filter{Scenario: base.Scenario.Hash()})
	if err != nil {
		return nil, err
	}
	h := &History{
		Schema: figure.SchemaHistory, Valid: true, InvalidReasons: []string{}, Baseline: base.ID, Name: nameOf(base.Name), Scenario: base.Scenario.Name,
		Runs: []Run{}, LeftOut: []string{}, Level: Level, Figures: []Figure{},
	}
	var runs []*record.Run
	for _, s := range all {
		if s.Made == record.Repeat || s.Valid == 0 || !o.All && nameOf(s.Name) != h.Name || len(runs) == o.Limit {
			continue
		}
		run, err := store.Get(s.ID)
		if err != nil {
			return nil, err
		}
		if differ := compare.Differences(compare.SettingsOf(base), compare.SettingsOf(run), o.Across); len(differ) > 0 {
			h.LeftOut = append(h.LeftOut, fmt.Sprintf("%s: %s", run.ID, differ[0]))
			continue
		}
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		h.Valid, h.InvalidReasons = false, append(h.InvalidReasons, fmt.Sprintf("no run like %s has a valid sample; see hone run show %s", base.ID, base.ID))
	}
	slices.Reverse(runs)
	h.fill(runs)
	return h, nil
}

// nameOf returns a run's name without the commit that hone bench --revision adds.
func nameOf(name string) string {
	return regexp.MustCompile(` [0-9a-f]{10}$`).ReplaceAllString(name, "")
}

// fill computes the history of runs, the oldest first.
func (h *History) fill(runs []*record.Run) {
	for i, r := range runs {
		h.Runs = append(h.Runs, Run{r.ID, r.At, r.Environment.Soft["revision"], r.Environment.Soft["modified"] == "true", compare.SettingsOf(r)})
		for _, m := range r.Spreads() {
			at := slices.IndexFunc(h.Figures, func(f Figure) bool { return f.Name == m.Name && f.Unit == m.Unit })
			if at < 0 {
				at = len(h.Figures)
				h.Figures = append(h.Figures, Figure{Name: m.Name, Unit: m.Unit, Better: m.Better, Values: make([]*float64, len(runs)), Changes: []Change{}})
			}
			h.Figures[at].Values[i] = &m.Value
		}
	}
	level := h.Level / float64(max(1, len(h.Figures)))
	h.Needed = plainly[0].longer + plainly[0].shorter
	for i := range h.Figures {
		h.addChanges(&h.Figures[i], level)
	}
	if n := len(runs); n > 0 { // what decides is first
		slices.SortStableFunc(h.Figures, func(a, b Figure) int {
			return strings.Compare(decides(b, runs[n-1]), decides(a, runs[n-1]))
		})
	}
}

// decides returns the name of a figure that decides about a run; empty for all others.
func decides(f Figure, r *record.Run) string {
	if primary := r.Scenario.Primary; f.Name == primary || figure.Name(f.Name) == primary {
		return f.Name
	}
	return ""
}

// Known returns the indexes of the runs that have the figure, and its values there.
func (f *Figure) Known() (runs []int, values []float64) {
	for i, v := range f.Values {
		if v != nil {
			runs, values = append(runs, i), append(values, *v)
		}
	}
	return runs, values
}

func (h *History) addChanges(f *Figure, level float64) {
	runs, values := f.Known()
	cuts := Changes(values, level, compare.Counted(f.Unit))
	if f.Needs = max(0, h.Needed-len(values)); len(cuts) > 0 {
		f.Needs = 0
	}
	for i, cut := range cuts {
		from, to := 0, len(values)
		if i > 0 {
			from = cuts[i-1]
		}
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		before, after := h.Runs[runs[cut-1]], h.Runs[runs[cut]]
		c := Change{
			Run: runs[cut], Since: before.Commit, To: after.Commit, ID: after.ID,
			Before: figure.Median(values[from:cut]), After: figure.Median(values[cut:to]), Verdict: compare.Worse, With: []string{},
		}
		if c.Before != 0 {
			c.Ratio = new(c.After / c.Before)
		}
		if (c.After > c.Before) == (f.Better == record.Higher) {
			c.Verdict = compare.Better
		}
		for _, d := range compare.Differences(before.settings, after.settings, nil) {
			c.With = append(c.With, d.String())
		}
		c.With = append(c.With, compare.Doubts(before.settings, after.settings)...)
		f.Changes = append(f.Changes, c)
	}
}
