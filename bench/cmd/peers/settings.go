package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// settings are the flags that race, http, ws and faults share.
type settings struct {
	json    bool
	file    string
	quick   bool
	only    string
	servers string

	all   []fleet.Entry // what --servers chooses from
	build func(ctx context.Context, module, dir string, entries []fleet.Entry, say func(string)) ([]fleet.Entry, error)
	flags *flag.FlagSet
}

func newSettings(name string, stderr io.Writer) *settings {
	s := &settings{all: fleet.All(), build: buildAll, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	s.flags.SetOutput(stderr)
	s.flags.BoolVar(&s.json, "json", false, "print JSON instead of tables")
	s.flags.StringVar(&s.file, "o", "", "write there instead of to standard output; JSON when it ends in .json")
	s.flags.BoolVar(&s.quick, "quick", false, "a smoke test: one round, short, small; its figures mean nothing")
	s.flags.StringVar(&s.only, "only", "", "run these only, with commas between")
	s.flags.StringVar(&s.servers, "servers", "", "run these servers only, with commas between")
	return s
}

func (s *settings) parse(args []string) error {
	err := s.flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err == nil && s.flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", s.flags.Arg(0))
	}
	return usageError(err)
}

// usageError gives err the exit code of wrong usage.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &failure{exitUsage, err}
}

// list splits what stands between commas.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// buildAll builds programs of bench/servers.
func buildAll(ctx context.Context, module, dir string, entries []fleet.Entry, _ func(string)) ([]fleet.Entry, error) {
	return entries, fleet.Build(ctx, module, dir, entries)
}

// grounds are what a run needs, ready for it.
type grounds struct {
	module  string
	dir     string // of the built programs; remove it
	entries []fleet.Entry
	cpus    []int
	machine report.Machine
}

// prepare builds the servers.
func (s *settings) prepare(ctx context.Context, say func(string)) (*grounds, error) {
	g := new(grounds)
	var err error
	if g.entries, err = fleet.Choose(s.all, list(s.servers)); err != nil {
		return nil, usageError(err)
	}
	if g.cpus, err = fleet.CPUs(); err != nil {
		return nil, err
	}
	if g.module, err = fleet.Module(ctx); err != nil {
		return nil, err
	}
	if g.dir, err = os.MkdirTemp("", "hone-bench-"); err != nil {
		return nil, err
	}
	say("building the servers")
	if g.entries, err = s.build(ctx, g.module, g.dir, g.entries, say); err != nil {
		g.remove()
		return nil, err
	}
	g.machine = report.ThisMachine(ctx, g.module, len(g.cpus))
	return g, nil
}

func (g *grounds) remove() { os.RemoveAll(g.dir) }

// deliver writes a run to where it is wanted.
func (s *settings) deliver(run report.Run, stdout io.Writer) error {
	text, err := report.Encode(run)
	if !s.json && filepath.Ext(s.file) != ".json" {
		text = everyTable(run)
	}
	switch {
	case err != nil:
		return err
	case s.file != "":
		if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(s.file, text, 0o644)
	}
	_, err = stdout.Write(text)
	return err
}

func everyTable(run report.Run) []byte {
	var all strings.Builder
	for _, table := range run.Tables() {
		if text := table.Text(); text != "" {
			fmt.Fprintf(&all, "### %s\n\n%s\n", table.Name, text)
		}
	}
	return []byte(all.String())
}

// stopwatch makes lines for those who watch, with the time that has passed.
func stopwatch(stderr io.Writer) func(string) {
	start := time.Now()
	return func(line string) { fmt.Fprintf(stderr, "%7.1fs %s\n", time.Since(start).Seconds(), line) }
}
