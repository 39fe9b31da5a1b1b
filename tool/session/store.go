package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// Store selects the store of runs that a command uses: that folder, or the default.
type Store struct{ Path string }

var errNoStore = errors.New("there is no store of runs yet")

// Locate returns the store's path.
func (f *Store) Locate() (string, error) {
	if f.Path != "" {
		return f.Path, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return record.Find(here)
}

// Write opens the store for writing and creates it if needed.
func (f *Store) Write(command string) (*record.Store, error) {
	path, err := f.Locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FOLDER", command, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); f.Path != "" && err != nil { // a typing error makes no folders
		return nil, exit.Failedf("%s: --store %s: %w; make that folder first, or give another", command, f.Path, err)
	}
	s, err := record.Open(path)
	return s, StoreFailure(command, err)
}

// Read opens an existing store for reading.
func (f *Store) Read(command string) (*record.Store, error) {
	path, err := f.Locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FOLDER", command, err)
	}
	s, err := record.OpenRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Failedf("%s: %w at %s; make one with hone bench, or give --store FOLDER", command, errNoStore, path)
	}
	return s, StoreFailure(command, err)
}

// StoreFailure is the outcome of a command that could not use the store.
func StoreFailure(command string, err error) error {
	if err == nil {
		return nil
	}
	end := new(exit.Error)
	if errors.As(err, &end) {
		return err
	}
	return exit.Failedf("%s: %w", command, err) // the cause ends with advice
}

// Reading calls do with the store, open for reading.
func (f *Store) Reading(command string, do func(*record.Store) error) error {
	return during(f.Read, command, do)
}

// Writing calls do with the store, open for writing.
func (f *Store) Writing(command string, do func(*record.Store) error) error {
	return during(f.Write, command, do)
}

func during(open func(string) (*record.Store, error), command string, do func(*record.Store) error) error {
	s, err := open(command)
	if err != nil {
		return err
	}
	return StoreFailure(command, do(s))
}

// Run reads the run that ref refers to.
func (f *Store) Run(command, ref string) (run *record.Run, err error) {
	err = f.Reading(command, func(s *record.Store) (err error) {
		run, err = s.Get(ref)
		return err
	})
	return run, err
}

// FileOrRun resolves a name for a command that accepts both: a regular file of that name,
// or else the run; the run is nil for a file. A path always means a file. latest and
// latest~1 always mean runs, even if such a file exists.
func (f *Store) FileOrRun(command, name string) (*record.Run, error) {
	if name == "latest" || strings.HasPrefix(name, "latest~") {
		return f.Run(command, name)
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() || strings.ContainsAny(name, `/\`) {
		return nil, nil
	}
	run, err := f.Run(command, name)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, errNoStore) {
		return nil, exit.Failedf("%s: %q is not a file, and %s", command, name, strings.TrimPrefix(err.Error(), command+": "))
	}
	return run, err
}
