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
const nothing = "*No run is stored. %s.*\n"

// stored are the files, how they come about, and how they are read.
var stored = map[string]struct {
	origin string
	read   func(path string) (tabled, error)
}{
	PeersFile:      {"`make bench WHAT=peers` stores one", func(path string) (tabled, error) { return ReadPeers(path) }},
	HTTPFile:       {"`make bench WHAT=http` stores one", func(path string) (tabled, error) { return ReadHTTP(path) }},
	WSFile:         {"`make bench WHAT=ws` stores one", func(path string) (tabled, error) { return ReadWS(path) }},
	faultsFile:     {"What measured it was replaced by tool/torture", func(path string) (tabled, error) { return readFaults(path) }},
	tortureFile:    {"`make bench WHAT=faults` stores one", func(path string) (tabled, error) { return ReadTorture(path) }},
	GeneratorsFile: {"`make bench WHAT=generators` stores one", func(path string) (tabled, error) { return ReadGenerators(path) }},
}

// tabled is a stored run.
type tabled interface {
	Table(name string) (string, error)
}

// Fill returns the page with every table regenerated from the stored results in the folder
// results.
func Fill(page, results string) (string, error) {
	return fill(page, func(file, name string) (string, error) {
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
		return run.Table(name)
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
