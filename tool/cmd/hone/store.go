package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// storeFlag says which store of runs a command uses.
type storeFlag struct{ path string }

func (f *storeFlag) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "store", "", "the `FILE` with the runs (.hone/runs.db in the nearest folder upwards that has .hone, else the user's)")
}

var errNoStore = errors.New("there is no store of runs yet")

// locate returns the store's path.
func (f *storeFlag) locate() (string, error) {
	if f.path != "" {
		return f.path, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return record.Find(here)
}

// write opens the store to change it; it is made if it is not there.
func (f *storeFlag) write(ctx context.Context, command string) (*record.Store, error) {
	path, err := f.locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FILE", command, err)
	}
	s, err := record.Open(ctx, path)
	return s, storeFailure(command, err)
}

// read opens the store to look at it; nothing is made.
func (f *storeFlag) read(ctx context.Context, command string) (*record.Store, error) {
	path, err := f.locate()
	if err != nil {
		return nil, exit.Failedf("%s: %w; give --store FILE", command, err)
	}
	s, err := record.OpenRead(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Failedf("%s: %w at %s; make one with hone bench, or give --store FILE", command, errNoStore, path)
	}
	return s, storeFailure(command, err)
}

// storeFailure is the failure of a command that could not use the store.
func storeFailure(command string, err error) error {
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

// notKept is the failure of a command that could not store what it has printed.
func notKept(command string, err error) error {
	if err == nil {
		return nil
	}
	return exit.Failedf("%s: the result is not kept: %w", command, err) // it ends with the next thing to try
}

// withRun opens the store, and reads the run that ref means.
func (f *storeFlag) withRun(ctx context.Context, command, ref string) (*record.Run, error) {
	s, err := f.read(ctx, command)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	run, err := s.Get(ctx, ref)
	return run, storeFailure(command, err)
}

// fileOrRun says what a name means to a command that takes both: a file that is no
// folder, or else the run; it is nil for a file. A path is always a file's. What refers
// to a run by its place (latest, latest~1, baseline:NAME) never is, whatever lies here.
func (f *storeFlag) fileOrRun(ctx context.Context, command, name string) (*record.Run, error) {
	if name == "latest" || strings.HasPrefix(name, "latest~") || strings.HasPrefix(name, "baseline:") {
		return f.withRun(ctx, command, name)
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() || strings.ContainsAny(name, `/\`) {
		return nil, nil
	}
	run, err := f.withRun(ctx, command, name)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, errNoStore) {
		return nil, exit.Failedf("%s: %q is no file, and %s", command, name, strings.TrimPrefix(err.Error(), command+": "))
	}
	return run, err
}

// completeRuns offers the store's runs to the shell.
func (f *storeFlag) completeRuns(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := f.read(cmd.Context(), cmd.Name())
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer s.Close()
	runs, err := s.List(cmd.Context(), record.Filter{Limit: 50})
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	offers := []cobra.Completion{cobra.CompletionWithDesc("latest", "the newest run")}
	for _, r := range runs {
		offers = append(offers, cobra.CompletionWithDesc(r.ID, r.Name+" "+r.Scenario))
	}
	return offers, cobra.ShellCompDirectiveDefault
}
