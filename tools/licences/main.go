// Command licences lists the licence of every module that hone's published modules are built
// from, read from the module's own licence file. It fails when one is not known.
//
//	go run ./tools/licences
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		stop()
		os.Exit(1)
	}
}

// built are the published modules' folders in the repository.
func built() []string {
	return []string{".", "observe", "gateway", "gateway/relay", "tool", "articles"}
}

// dependency is a module that is built in.
type dependency struct{ path, version, dir string }

func run(ctx context.Context, stdout io.Writer) error {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git: %w; run this inside the repository", err)
	}
	needs := map[dependency][]string{} // by what
	for _, folder := range built() {
		deps, err := dependencies(ctx, filepath.Join(strings.TrimSpace(string(top)), folder))
		if err != nil {
			return err
		}
		for _, d := range deps {
			needs[d] = append(needs[d], folder)
		}
	}
	var all []dependency
	for d := range needs {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b dependency) int { return strings.Compare(a.path+" "+a.version, b.path+" "+b.version) })
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "module\tversion\tlicence\tin")
	var unknown []string
	for _, d := range all {
		licence := licenceIn(d.dir)
		if licence == "" {
			licence, unknown = "?", append(unknown, d.path)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", d.path, d.version, licence, strings.Join(needs[d], ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if unknown != nil {
		return fmt.Errorf("no known licence in %s; read theirs, and teach it to tools/licences", strings.Join(unknown, ", "))
	}
	return nil
}

// dependencies are the modules of the packages that a module's commands and packages are
// built from, without ours and without those of tests.
func dependencies(ctx context.Context, dir string) ([]dependency, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "./...")
	list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	seen := map[dependency]bool{}
	var all []dependency
	for packages := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{}
			}
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module == nil || p.Module.Main || p.Module.Replace != nil {
			continue // of the standard library, or ours
		}
		if d := (dependency{p.Module.Path, p.Module.Version, p.Module.Dir}); !seen[d] {
			seen[d] = true
			all = append(all, d)
		}
	}
}

// licenceIn is the name of the licence in a module's folder; empty: there is none that is known.
func licenceIn(dir string) string {
	var names []string
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "license*", "COPYING*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are good
		names = append(names, found...)
	}
	var licences []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		if licence := nameOf(string(text)); licence != "" && !slices.Contains(licences, licence) {
			licences = append(licences, licence)
		}
	}
	return strings.Join(licences, " and ")
}

// nameOf recognises a licence by a sentence that it alone has.
func nameOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(sentence string) bool { return strings.Contains(text, sentence) }
	switch {
	case has("Apache License") && has("Version 2.0"):
		return "Apache-2.0"
	case has("Mozilla Public License") && has("2.0"):
		return "MPL-2.0"
	case has("GNU AFFERO"), has("GNU LESSER"), has("GNU GENERAL"):
		return "GPL"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Permission to use, copy, modify, and/or distribute"), has("Permission to use, copy, modify, and distribute"):
		return "ISC"
	case has("Redistribution and use in source and binary forms") && has("may be used to endorse or promote"):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("This is free and unencumbered software"):
		return "Unlicense"
	}
	return ""
}
