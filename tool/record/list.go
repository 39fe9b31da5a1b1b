package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hone-go/hone/tool/figure"
)

const (
	headName = "run.json"
	mostText = 300 // bytes of each text in run.json
)

// Summary is a run without its measurements.
type Summary struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Made         string    `json:"made"`
	At           time.Time `json:"at"`
	Scenario     string    `json:"scenario"`
	ScenarioHash string    `json:"scenario_hash"`
	Target       string    `json:"target"` // what was measured, as the scenario says; empty: it does not
	Fingerprint  string    `json:"fingerprint"`
	PairedWith   string    `json:"paired_with,omitempty"`
	Samples      int       `json:"samples"`
	Valid        int       `json:"valid_samples"`
}

// stored is a run and the folder in which it is.
type stored struct {
	Summary
	folder string
}

// headOf summarizes a run in canonical form, as its part of run.json.
func headOf(r *Run) Summary {
	h := Summary{
		ID: r.ID, Name: headText(r.Name), Made: headText(r.Made), At: r.At, Scenario: headText(r.Scenario.Name), ScenarioHash: r.Scenario.Hash(),
		Target: headText(targetOf(r.Scenario)), Fingerprint: r.Environment.Fingerprint(), PairedWith: r.PairedWith, Samples: len(r.Samples),
	}
	for _, s := range r.Samples {
		if s.Valid {
			h.Valid++
		}
	}
	return h
}

// headText shortens a text to what run.json has room for.
func headText(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return '\uFFFD'
		}
		return c
	}, text)
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	return text
}

// targetOf returns the target of a load, or the package of Go benchmarks.
func targetOf(s Scenario) (target string) {
	for _, key := range targetKeys {
		target = cmp.Or(target, s.Settings[key])
	}
	return target
}

// The form of run.json, with the SHA-256 of the runs. It is read as it is written, and not as JSON
// until the seal has been found right: a list reads one for each run.
const (
	headBegin = `{"schema":"` + figure.SchemaStore + `","seal":"`
	headRuns  = `","runs":`
	headEnd   = "}\n"
)

// encodeHeads returns run.json.
func encodeHeads(heads []Summary) []byte {
	runs, _ := encode(heads) // cannot fail: texts, numbers, and times that are in range
	runs = runs[:len(runs)-1]
	return slices.Concat([]byte(headBegin+digest(runs)+headRuns), runs, []byte(headEnd))
}

// heads reads the run.json of a folder.
func (s *Store) heads(folder string) (heads []Summary, err error) {
	text, err := os.ReadFile(filepath.Join(s.path, folder, headName))
	if err != nil {
		return nil, err
	}
	text, known := bytes.CutPrefix(text, []byte(headBegin))
	if !known {
		return nil, errors.New(headName + " is not of schema " + figure.SchemaStore)
	}
	seal, runs, _ := bytes.Cut(text, []byte(headRuns))
	runs, whole := bytes.CutSuffix(runs, []byte(headEnd))
	if !whole || digest(runs) != string(seal) {
		return nil, errors.New(headName + " is not as it was written")
	}
	err = json.Unmarshal(runs, &heads)
	return heads, err
}

// torn is a folder that is not a run's, and why.
type torn struct {
	folder string
	err    error
}

// runs returns all runs, newest first, and the folders that were skipped.
func (s *Store) runs() (all []stored, skipped []torn, err error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, nil, s.explain(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		heads, err := s.heads(e.Name())
		if err != nil {
			if _, gone := os.Lstat(filepath.Join(s.path, e.Name())); !errors.Is(gone, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %s: %w; remove it, or take it from a backup", ErrDamaged, filepath.Join(s.path, e.Name()), err)
				skipped = append(skipped, torn{e.Name(), err})
			}
			continue
		}
		for _, h := range slices.Backward(heads) { // B of a pair began after A
			all = append(all, stored{h, e.Name()})
		}
	}
	slices.SortStableFunc(all, func(a, b stored) int { return b.At.Compare(a.At) })
	return all, skipped, nil
}

// Skipped says which folders of the store are damaged, or another program's.
func (s *Store) Skipped() (why []error, err error) {
	_, skipped, err := s.runs()
	for _, t := range skipped {
		why = append(why, t.err)
	}
	return why, err
}

// Filter selects runs. Zero: all.
type Filter struct {
	Scenario string // the name or the hash
	Name     string
	Limit    int // maximum number; 0: all
}

// List returns the runs that pass the filter, newest first.
func (s *Store) List(f Filter) ([]Summary, error) {
	runs, _, err := s.runs()
	if err != nil {
		return nil, err
	}
	all := []Summary{}
	for _, r := range runs {
		if f.Scenario != "" && f.Scenario != r.Scenario && f.Scenario != r.ScenarioHash || f.Name != "" && f.Name != r.Name {
			continue
		}
		if all = append(all, r.Summary); len(all) == f.Limit {
			break
		}
	}
	return all, nil
}

// find returns the run that ref refers to.
func (s *Store) find(ref string) (stored, error) {
	runs, skipped, err := s.runs()
	if err != nil {
		return stored{}, err
	}
	if len(runs)+len(skipped) == 0 {
		return stored{}, fmt.Errorf("%w: %q: none is stored yet; store one with hone bench, or with hone load --save NAME", ErrNotFound, ref)
	}
	if back, ok := fromLatest(ref); ok {
		runs = slices.DeleteFunc(runs, func(r stored) bool { return r.Made == Repeat })
		if back < len(runs) {
			return runs[back], nil
		}
		return stored{}, notFound(ref)
	}
	id := strings.ToLower(ref)
	if i := slices.IndexFunc(runs, func(r stored) bool { return r.ID == id }); i >= 0 {
		return runs[i], nil
	}
	if len(id) == idDigits && isHex(id) {
		for _, t := range skipped {
			if strings.Contains(t.folder, id) {
				return stored{}, t.err
			}
		}
	}
	return findNamed(runs, ref)
}

// fromLatest parses latest and latest~N.
func fromLatest(ref string) (back int, ok bool) {
	number, ok := strings.CutPrefix(ref, "latest")
	if !ok || number == "" {
		return 0, ok
	}
	number, ok = strings.CutPrefix(number, "~")
	back, err := strconv.Atoi(number)
	return back, ok && err == nil && back >= 0
}

// findNamed looks for a run with this name, of this git revision (whose runs are called "main 2b1d8c6ad7"),
// or with an ID of this prefix.
func findNamed(runs []stored, ref string) (stored, error) {
	name, revision, begin := -1, -1, []stored{}
	for i, r := range runs {
		if name < 0 && ref != "" && r.Name == headText(ref) {
			name = i
		}
		if rest, ok := strings.CutPrefix(r.Name, ref+" "); revision < 0 && ok && len(rest) == 10 {
			revision = i
		}
		if len(ref) >= refDigits && strings.HasPrefix(r.ID, strings.ToLower(ref)) {
			begin = append(begin, r)
		}
	}
	if name < 0 {
		name = revision
	}
	if name >= 0 {
		begin = slices.DeleteFunc(begin, func(r stored) bool { return r.ID == runs[name].ID })
		begin = append([]stored{runs[name]}, begin...)
	}
	switch len(begin) {
	case 0:
		return stored{}, notFound(ref)
	case 1:
		return begin[0], nil
	}
	var ids []string
	for _, r := range begin[:min(len(begin), 8)] {
		ids = append(ids, r.ID)
	}
	return stored{}, fmt.Errorf("%w: %q is %s; give more digits of one of them", ErrAmbiguous, ref, strings.Join(ids, " or "))
}

func isHex(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

func notFound(ref string) error {
	return fmt.Errorf("%w: %q; hone run list shows the stored runs", ErrNotFound, ref)
}
