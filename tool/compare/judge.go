package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// Judge sets how two runs are compared.
type Judge struct {
	// Tolerance is the difference that does not matter. Zero: every difference matters.
	Tolerance float64
	// Noise is how much builds of the same source vary, if that is known.
	Noise float64
	// Primary is the figure that decides whether the comparison is clear. Empty: the
	// first.
	Primary string
	// Across lists settings that may differ.
	Across []string
	// Look is the number of this look at the same question, from 1.
	Look int
	// Comparisons is that of Rules.
	Comparisons int
}

// Report is the result, also as JSON.
type Report struct {
	Schema         string   `json:"schema"`
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	A              string   `json:"a"`
	B              string   `json:"b"`
	*Comparison
	Notes []string `json:"notes"`
}

// Compare compares two sides.
func (f Judge) Compare(a, b *Runs, paired bool, repeats [][2]*record.Run) (*Report, error) {
	if f.Look < 1 {
		return nil, exit.Usagef("compare: --look %d: use 1 for the first look, 2 for the second", f.Look)
	}
	if err := f.Alike("compare", a.Settings, b.Settings); err != nil {
		return nil, err
	}
	figures, err := Match(a, b, paired)
	switch {
	case err != nil:
		return nil, &exit.Error{Code: exit.Invalid, Err: err}
	case len(figures) == 0:
		return nil, &exit.Error{Code: exit.Invalid, Err: errors.New("compare: A and B have no figure in common; compare runs of the same kind, with valid samples")}
	}
	if err := f.first(figures); err != nil {
		return nil, err
	}
	AddSessions(figures, repeats)
	for i := range figures {
		figures[i].Noise = f.Noise
	}
	c := &Report{Schema: figure.SchemaCompare, Valid: true, InvalidReasons: []string{}, Notes: []string{}}
	c.Comparison = Rules{Tolerance: f.tolerated(), Look: f.Look, Comparisons: f.Comparisons}.Compare(figures)
	c.Notes = append(c.Notes, c.advice(paired)...)
	c.Notes = append(c.Notes, Doubts(a.Settings, b.Settings)...)
	return c, nil
}

// Alike refuses two sides with different settings; command begins the error.
func (f Judge) Alike(command string, a, b Settings) error {
	err := Refusal(a, b, f.Across, func(keys []string) string {
		return "if you mean to compare that, add --across " + strings.Join(keys, ",")
	})
	if err == nil {
		return nil
	}
	return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("%s: %w", command, err)}
}

func (f Judge) tolerated() float64 {
	if f.Tolerance == 0 {
		return -1 // none, unlike the rules' zero, which is the default
	}
	return f.Tolerance
}

// first moves the primary figure to the front.
func (f Judge) first(figures []Figure) error {
	at := 0
	if f.Primary != "" {
		at = slices.IndexFunc(figures, func(g Figure) bool { return g.Name == f.Primary || figure.Name(g.Name) == f.Primary })
	}
	if at < 0 {
		var names []string
		for _, g := range figures {
			names = append(names, figure.Name(g.Name))
		}
		return exit.Usagef("compare: no figure %q; %s", f.Primary, exit.DidYouMean(f.Primary, names, "use one of "+strings.Join(names, ", ")))
	}
	figures[0], figures[at] = figures[at], figures[0]
	figures[0].Primary = true
	return nil
}

// Stored compares two runs. The store, if there is one, knows the noise of their machine.
func (f Judge) Stored(store *record.Store, a, b *record.Run) (*Report, error) {
	ra, rb, paired := Stored(a, b)
	for _, run := range []*record.Run{a, b} {
		none := !slices.ContainsFunc(run.Samples, func(s record.Sample) bool { return s.Valid })
		if last := len(run.Samples) - 1; none && last >= 0 && !paired {
			return nil, &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("compare: %s has no valid sample: %s", run.Title(), run.Samples[last].Why())}
		}
	}
	chosen := f.Primary
	f.Primary = cmp.Or(chosen, b.Scenario.Primary, a.Scenario.Primary)
	repeats, notes, err := repeatsFor(store, a)
	if err != nil {
		return nil, err
	}
	if a.Made == record.Printed && b.Made == record.Printed {
		notes = append(notes, common(ra, rb)...)
	}
	c, err := f.Compare(ra, rb, paired, repeats)
	if err != nil {
		return nil, err
	}
	if was := b.Scenario.Primary; chosen != "" && chosen != was {
		notes = append(notes, fmt.Sprintf("%s was chosen to decide after the runs, which were measured for %s: the error of 5 %% holds only for a figure that is named before",
			figure.Name(chosen), cmp.Or(figure.Name(was), "the first figure")))
	}
	c.Notes = append(c.Notes, notes...)
	return c, nil
}

// floorAge is the age from which a note asks for another session.
const floorAge = 30 * 24 * time.Hour

// repeatsFor returns the sessions in which a program was measured against itself on the
// run's machine with its scenario.
func repeatsFor(store *record.Store, r *record.Run) (repeats [][2]*record.Run, notes []string, err error) {
	if store == nil {
		return nil, nil, nil
	}
	if repeats, err = store.Repeats(r.Scenario.Hash()); err != nil {
		return nil, nil, err
	}
	machine := machineOf(r).Fingerprint()
	repeats = slices.DeleteFunc(repeats, func(s [2]*record.Run) bool { return machineOf(s[0]).Fingerprint() != machine })
	switch n := len(repeats); {
	case n == 0:
	case n < fewestSessions:
		notes = append(notes, fmt.Sprintf("hone bench --against-self has measured %s of this scenario here; a noise floor needs %d", figure.Counted(n, "session"), fewestSessions))
	default:
		if age := time.Since(repeats[0][0].At); age > floorAge {
			notes = append(notes, fmt.Sprintf("the noise floor is %d days old; add a session with hone bench --against-self", age/(24*time.Hour)))
		}
	}
	return repeats, notes, nil
}

// ofTheMachine are the strict keys of machine.Read.
var ofTheMachine = []string{"cpu", "cpus", "smt", "kernel", "goos", "goarch", "virtual", "cpu-limit", "memory"}

// machineOf returns the part of a run's environment that describes the machine rather
// than the program: noise belongs to the machine.
func machineOf(r *record.Run) record.Environment {
	strict := maps.Clone(r.Environment.Strict)
	maps.DeleteFunc(strict, func(key, _ string) bool { return !slices.Contains(ofTheMachine, key) })
	return record.Environment{Strict: strict}
}

// unclear reports whether the primary figure is unclear and no other is worse.
func (c *Report) unclear() bool {
	return c.Changes[0].Verdict == Unclear && c.count(Worse) == 0
}

// Failure returns the exit code.
func (c *Report) Failure(command string) error {
	switch {
	case c.count(Worse) > 0:
		return &exit.Error{Code: exit.Missed}
	case c.unclear():
		return &exit.Error{Code: exit.Invalid, Err: fmt.Errorf("%s: %s is %s", command, figure.Of(c.Changes[0].Name, c.Changes[0].Unit), c.words(0))}
	}
	return nil
}
