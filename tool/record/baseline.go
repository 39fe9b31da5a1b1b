package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Baseline is a named run with which others are compared.
type Baseline struct {
	Name string    `json:"name"`
	ID   string    `json:"id"`
	At   time.Time `json:"at"` // when the baseline was set
}

const (
	baselineFolder = "baselines"
	mostName       = 80 // bytes of a baseline's name: a file's may have 255
)

// baselinePath returns the file of a baseline: its name, with %XX for whatever a file system might
// read in another way.
func (s *Store) baselinePath(name string) string {
	var escaped strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0 {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", c)
		}
	}
	return filepath.Join(s.path, baselineFolder, escaped.String())
}

// SetBaseline makes the run that ref refers to the baseline of that name, replacing any
// other.
func (s *Store) SetBaseline(name, ref string) error {
	if name = cleanText(name); name == "" || len(name) > mostName {
		return fmt.Errorf("record: a baseline needs a name of 1 to %d bytes, as in main or v1.2", mostName)
	}
	if s.readOnly {
		return fmt.Errorf("%w: %s; it was opened for reading", ErrReadOnly, s.path)
	}
	r, err := s.find(ref)
	if err != nil {
		return err
	}
	text, err := encode(Baseline{name, r.ID, time.Now().UTC()})
	if err == nil {
		err = s.makeFolder(filepath.Join(s.path, baselineFolder))
	}
	if err == nil {
		err = s.replace(s.baselinePath(name), text)
	}
	return s.explain(err)
}

// RemoveBaseline removes the name; the run stays.
func (s *Store) RemoveBaseline(name string) error {
	if _, err := s.baseline(name); err != nil {
		return err
	}
	path := s.baselinePath(name)
	return s.explain(errors.Join(os.Remove(path), s.sync(filepath.Dir(path))))
}

// baseline reads a baseline.
func (s *Store) baseline(name string) (b Baseline, err error) {
	if len(name) > mostName {
		return b, notFound("baseline:" + name)
	}
	text, err := os.ReadFile(s.baselinePath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return b, notFound("baseline:" + name)
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fmt.Errorf("%w: baseline %s: %w; set it again", ErrDamaged, name, err)
	}
	return b, nil
}

// Baselines returns all baselines, sorted by name.
func (s *Store) Baselines() ([]Baseline, error) {
	all := []Baseline{}
	entries, err := os.ReadDir(filepath.Join(s.path, baselineFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.explain(err)
	}
	for _, e := range entries {
		var b Baseline
		text, err := os.ReadFile(filepath.Join(s.path, baselineFolder, e.Name()))
		if err != nil || json.Unmarshal(text, &b) != nil || filepath.Base(s.baselinePath(b.Name)) != e.Name() {
			continue // being written, removed meanwhile, or somebody else's
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Baseline) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Remove removes the runs that the references refer to. It refuses to remove a baseline, and then
// removes none. Both runs of a pair go.
func (s *Store) Remove(refs ...string) (freed int64, err error) {
	if s.readOnly {
		return 0, fmt.Errorf("%w: %s; it was opened for reading", ErrReadOnly, s.path)
	}
	baselines, err := s.Baselines()
	if err != nil {
		return 0, err
	}
	var folders []string
	for _, ref := range refs { // look up all first: removing changes what latest means
		r, err := s.find(ref)
		if err != nil {
			return 0, err
		}
		var names []string
		for _, b := range baselines {
			if slices.Contains(strings.Split(r.folder, "+"), b.ID) {
				names = append(names, b.Name)
			}
		}
		if names != nil {
			return 0, fmt.Errorf("record: run %s, or its partner, is the baseline %s; remove or move the baseline first", r.ID, strings.Join(names, ", "))
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
