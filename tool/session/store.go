package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// Store says which store of runs a command uses: that file, or the usual one.
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

// Write opens the store to change it; it is made if it is not there.
func (f *Store) Write(ctx context.Context, command string) (*record.Store, error) {
	path, err := f.Locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FILE", command, err)
	}
	s, err := record.Open(ctx, path)
	return s, StoreFailure(command, err)
}

// Read opens the store to look at it; nothing is made.
func (f *Store) Read(ctx context.Context, command string) (*record.Store, error) {
	path, err := f.Locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FILE", command, err)
	}
	s, err := record.OpenRead(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Failedf("%s: %w at %s; make one with hone bench, or give --store FILE", command, errNoStore, path)
	}
	return s, StoreFailure(command, err)
}

// StoreFailure is how a command ends that could not use the store.
func StoreFailure(command string, err error) error {
	if err == nil {
		return nil
	}
	end := new(exit.Error)
	if errors.As(err, &end) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("%s: interrupted; the store is as it was", command)}
	}
	return exit.Failedf("%s: %w", command, err) // it ends with the next thing to try
}

// Run reads the run that ref means.
func (f *Store) Run(ctx context.Context, command, ref string) (*record.Run, error) {
	s, err := f.Read(ctx, command)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	run, err := s.Get(ctx, ref)
	return run, StoreFailure(command, err)
}

// FileOrRun says what a name means to a command that takes both: a file that is no
// folder, or else the run; it is nil for a file. A path is always a file's. What refers
// to a run by its place (latest, latest~1, baseline:NAME) never is, whatever lies here.
func (f *Store) FileOrRun(ctx context.Context, command, name string) (*record.Run, error) {
	if name == "latest" || strings.HasPrefix(name, "latest~") || strings.HasPrefix(name, "baseline:") {
		return f.Run(ctx, command, name)
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() || strings.ContainsAny(name, `/\`) {
		return nil, nil
	}
	run, err := f.Run(ctx, command, name)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, errNoStore) {
		return nil, exit.Failedf("%s: %q is no file, and %s", command, name, strings.TrimPrefix(err.Error(), command+": "))
	}
	return run, err
}

// Describe is what a run is called in a result.
func Describe(r *record.Run) string {
	if r.Name == "" {
		return r.ID
	}
	return r.Name + " (" + r.ID + ")"
}
