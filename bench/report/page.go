package report

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The markers around a table: the first names the file in bench/results and the table.
const (
	beginning = "<!-- bench: "
	ending    = "<!-- bench end -->"
)

// nothing replaces a table without stored results.
const nothing = "*No run is stored. `%s` stores one.*\n"

// stored are the files, how they come about, and how they are read.
var stored = map[string]struct {
	origin string
	read   func(path string) (Run, error)
}{
	PeersFile:      {"make bench WHAT=peers", func(path string) (Run, error) { return Read[Peers](path, PeersSchema) }},
	HTTPFile:       {"make bench WHAT=http", func(path string) (Run, error) { return Read[Peers](path, HTTPSchema) }},
	WSFile:         {"make bench WHAT=ws", func(path string) (Run, error) { return Read[Peers](path, WSSchema) }},
	torture2File:   {"make bench WHAT=faults", func(path string) (Run, error) { return Read[Torture](path, TortureSchema) }},
	tortureFile:    {"make bench WHAT=faults", func(path string) (Run, error) { return Read[Torture](path, TortureSchema) }},
	GeneratorsFile: {"make bench WHAT=generators", func(path string) (Run, error) { return Read[Generators](path, GeneratorsSchema) }},
}

// Run is a stored run.
type Run interface {
	Tables() []Table
}

// Table is one table of a run, in Markdown.
type Table struct {
	Name string
	Text func() string
}

// find returns the text of the table of that name.
func find(tables []Table, name string) (string, error) {
	var names []string
	for _, t := range tables {
		if t.Name == name {
			return t.Text(), nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("there is no table %q; there are %s", name, strings.Join(names, ", "))
}

// Fill returns the page with every table regenerated from the stored results in the folder
// results. A page with tables also has one of the versions that they are of.
func Fill(page, results string) (string, error) {
	var files []string
	dated := false
	for line := range strings.Lines(page) {
		if order, found := strings.CutPrefix(strings.TrimSpace(line), beginning); found {
			if file, _, _ := strings.Cut(order, " "); file == versionsFile {
				dated = true
			} else {
				files = append(files, file)
			}
		}
	}
	if dated != (len(files) > 0) {
		return "", fmt.Errorf("a page with tables needs another one of the versions that were measured, %s%s -->, and no other page does", beginning, versionsFile)
	}
	return fill(page, func(file, name string) (string, error) {
		if file == versionsFile {
			return versions(results, files)
		}
		known, ok := stored[file]
		if !ok {
			return "", fmt.Errorf("a marker names %q; there are %s", file, strings.Join(slices.Sorted(maps.Keys(stored)), ", "))
		}
		path := filepath.Join(results, file)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Sprintf(nothing, known.origin), nil
		}
		run, err := known.read(path)
		if err != nil {
			return "", err
		}
		return find(run.Tables(), name)
	})
}

// fill replaces the text between the markers with the output of table.
func fill(page string, table func(file, name string) (string, error)) (string, error) {
	var out strings.Builder
	inside := ""
	for line := range strings.Lines(page) {
		bare := strings.TrimSpace(line)
		switch {
		case inside != "" && bare != ending:
			continue
		case bare == ending:
			inside = ""
		}
		out.WriteString(line)
		order, found := strings.CutPrefix(bare, beginning)
		if !found {
			continue
		}
		file, name, _ := strings.Cut(strings.TrimSuffix(order, " -->"), " ")
		text, err := table(file, name)
		if err != nil {
			return "", err
		}
		out.WriteString("\n" + text + "\n")
		inside = bare
	}
	if inside != "" {
		return "", fmt.Errorf("the marker %q has no %q behind it", inside, ending)
	}
	return out.String(), nil
}
