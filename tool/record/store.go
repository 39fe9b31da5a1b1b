package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	idDigits  = 12
	refDigits = 4 // of an ID, at least
)

// staleAfter is the age from which what a killed program has left is removed: no program takes so
// long to write a run.
const staleAfter = 24 * time.Hour

// Store stores runs in a folder. It is safe for concurrent use by goroutines and by programs.
type Store struct {
	disk
	path     string
	readOnly bool
}

// Open opens the store at path for reading and writing. It creates the folder if needed, and
// refuses one that holds other things.
func Open(path string) (*Store, error) {
	s := &Store{path: path}
	if err := s.makeFolder(path); err != nil {
		return nil, s.explain(err)
	}
	if err := s.judge(); err != nil {
		return nil, err
	}
	probe, err := os.MkdirTemp(path, newPrefix+"*") // a store that cannot be written says so before minutes are spent
	if err != nil {
		return nil, s.explain(err)
	}
	if err := os.Remove(probe); err != nil {
		return nil, s.explain(err)
	}
	return s, s.explain(s.tidy())
}

// OpenRead opens the store at path for reading. It creates and changes nothing, and works
// without write permission. If there is no store, the error is fs.ErrNotExist.
func OpenRead(path string) (*Store, error) {
	s := &Store{path: path, readOnly: true}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("record: no run was stored yet: %w; store one first", err)
	}
	if err := s.judge(); err != nil {
		return nil, err
	}
	return s, nil
}

// judge refuses what is not a store: a file, or a folder in which there are only other things.
func (s *Store) judge() error {
	entries, err := os.ReadDir(s.path)
	if info, also := os.Stat(s.path); also == nil && !info.IsDir() {
		return fmt.Errorf("%w: %s is a file; name a folder", ErrForeign, s.path)
	}
	if err != nil {
		return s.explain(err)
	}
	others := false
	for _, e := range entries {
		switch _, err := os.Stat(filepath.Join(s.path, e.Name(), headName)); {
		case err == nil:
			return nil
		case !strings.HasPrefix(e.Name(), "."):
			others = true
		}
	}
	if others {
		return fmt.Errorf("%w: %s holds other files; name an empty folder, or a new one", ErrForeign, s.path)
	}
	return nil
}

// tidy removes what killed programs have left.
func (s *Store) tidy() error {
	left, _ := filepath.Glob(filepath.Join(s.path, "*", newPrefix+"*")) // the pattern is a good one
	more, _ := filepath.Glob(filepath.Join(s.path, newPrefix+"*"))
	for _, path := range append(left, more...) {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > staleAfter {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Folder returns the folder of a run.
func (s *Store) Folder(ref string) (string, error) {
	r, err := s.find(ref)
	return filepath.Join(s.path, r.folder), err
}

// Add stores a run, completely or not at all, and sets its ID. A run that is already
// stored stays as it is.
func (s *Store) Add(r *Run) error {
	c, err := seal(r)
	if err == nil {
		err = s.put(c)
	}
	if err == nil {
		r.ID = c.ID
	}
	return err
}

// Identify sets the ID that Add gives a run, or those that AddTogether gives several.
func Identify(runs ...*Run) error {
	for _, r := range runs {
		c, err := seal(r)
		if err != nil {
			return err
		}
		r.ID = c.ID
	}
	for i, r := range runs {
		r.PairedWith = partner(runs, i)
	}
	return nil
}

// partner returns PairedWith of one of several runs: the first run, and of that the second.
func partner(runs []*Run, i int) string {
	if len(runs) < 2 {
		return runs[i].PairedWith
	}
	return runs[max(0, 1-i)].ID
}

// AddTogether stores all runs or none: those whose samples alternate, each with PairedWith set. What is
// already stored stays as it is.
func (s *Store) AddTogether(runs ...*Run) error {
	var all []*sealed
	var drafts []*Run
	for _, r := range runs {
		c, err := seal(r)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(o *sealed) bool { return o.ID == c.ID }) {
			return fmt.Errorf("record: run %s cannot be paired with itself; pass runs whose samples alternate, each with an Order", c.ID)
		}
		all, drafts = append(all, c), append(drafts, c.Run)
	}
	for i, c := range all {
		c.PairedWith = partner(drafts, i)
	}
	if err := s.put(all...); err != nil {
		return err
	}
	for i, r := range runs {
		r.ID, r.PairedWith = all[i].ID, all[i].PairedWith
	}
	return nil
}

// put stores a run, or several together, in a folder of its own.
func (s *Store) put(runs ...*sealed) error {
	if s.readOnly {
		return fmt.Errorf("%w: %s; it was opened for reading", ErrReadOnly, s.path)
	}
	files, heads, name := map[string][]byte{}, []Summary{}, ""
	for _, c := range runs {
		switch in, err := s.holding(c.ID); {
		case err != nil:
			return s.explain(err)
		case in != "" && len(runs) > 1 && !strings.HasPrefix(in, runs[0].ID+"+"):
			return fmt.Errorf("record: run %s is stored already, without the run that it alternated with; remove it first: hone run rm %[1]s", c.ID)
		case in != "":
			return nil
		}
		name = strings.TrimPrefix(name+"+"+c.ID, "+")
		heads = append(heads, headOf(c.Run))
		files[c.ID+".json"] = c.text
		for hash, data := range c.blobs {
			files[hash] = data
		}
	}
	files[headName] = encodeHeads(heads)
	return s.explain(s.place(filepath.Join(s.path, name), files))
}

// holding returns the folder that holds a run; empty: none.
func (s *Store) holding(id string) (string, error) {
	entries, err := os.ReadDir(s.path)
	for _, e := range entries {
		if !strings.Contains(e.Name(), id) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		heads, err := s.heads(e.Name())
		if err != nil {
			return "", fmt.Errorf("%s: %w; remove it", filepath.Join(s.path, e.Name()), err)
		}
		if slices.ContainsFunc(heads, func(h Summary) bool { return h.ID == id }) {
			return e.Name(), nil
		}
	}
	return "", err
}

// Get returns the run that ref refers to, with its artefacts, and verifies its content. See
// the package documentation for the forms of ref.
func (s *Store) Get(ref string) (*Run, error) {
	r, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	return s.read(r)
}

// read reads a run, and verifies it.
func (s *Store) read(r stored) (*Run, error) {
	folder := filepath.Join(s.path, r.folder)
	text, err := os.ReadFile(filepath.Join(folder, r.ID+".json"))
	if err == nil && !strings.HasPrefix(digest(text), r.ID) {
		err = errors.New("the content of " + r.ID + ".json is not that of the run")
	}
	var run *Run
	if err == nil {
		run, err = unseal(text, func(hash string) ([]byte, error) {
			data, err := os.ReadFile(filepath.Join(folder, filepath.Base(hash)))
			if err == nil && digest(data) != hash {
				err = errors.New("an artefact has other content: " + hash)
			}
			return data, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: run %s in %s: %w; remove the folder, or take it from a backup", ErrDamaged, r.ID, folder, err)
	}
	run.PairedWith = r.PairedWith
	return run, nil
}

// Remove removes the runs that the references refer to, or none if one refers to none. Runs that were stored together go together.
func (s *Store) Remove(refs ...string) (freed int64, err error) {
	if s.readOnly {
		return 0, fmt.Errorf("%w: %s; it was opened for reading", ErrReadOnly, s.path)
	}
	var folders []string
	for _, ref := range refs { // look up all first: removing changes what latest means
		r, err := s.find(ref)
		if err != nil {
			return 0, err
		}
		if !slices.Contains(folders, r.folder) { // or named twice
			folders = append(folders, r.folder)
		}
	}
	for _, folder := range folders {
		size, err := s.remove(filepath.Join(s.path, folder))
		if err != nil {
			return freed, s.explain(err)
		}
		freed += size
	}
	return freed, nil
}

// Repeat is Run.Made of both runs in which a program was measured against itself, to
// learn how much identical programs differ. Latest never means one of them.
const Repeat = "noise"

// mostRepeats bounds how many sessions are read: more add little.
const mostRepeats = 32

// Repeats returns the sessions in which a program was measured against itself with this
// scenario, newest first: A and B of each, whose samples alternated.
func (s *Store) Repeats(scenarioHash string) (all [][2]*Run, err error) {
	runs, _, err := s.runs()
	for _, a := range runs {
		if a.Made != Repeat || a.ScenarioHash != scenarioHash || !strings.HasPrefix(a.folder, a.ID+"+") {
			continue
		}
		i := slices.IndexFunc(runs, func(b stored) bool { return b.ID == a.PairedWith })
		if i < 0 {
			continue
		}
		if len(all) == mostRepeats {
			break
		}
		var session [2]*Run
		for side, r := range []stored{a, runs[i]} {
			if session[side], err = s.read(r); err != nil {
				return nil, err
			}
		}
		all = append(all, session)
	}
	return all, err
}
