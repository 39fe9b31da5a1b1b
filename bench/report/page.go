package report

import (
	"fmt"
	"path/filepath"
	"strings"
)

// The markers around a table: the first names the file in bench/results and the table.
const (
	beginning = "<!-- bench: "
	ending    = "<!-- bench end -->"
)

// nothing replaces a table without stored results.
const nothing = "*No run is stored: `make bench-peers`, `make bench-http`, `make bench-ws`, `make bench-faults` and `make bench-generators` store them.*\n"

// Fill returns the page with every table regenerated from the stored results in the folder
// results.
func Fill(page, results string) (string, error) {
	peers, err := ReadPeers(filepath.Join(results, PeersFile))
	if err != nil {
		return "", err
	}
	faults, err := ReadFaults(filepath.Join(results, FaultsFile))
	if err != nil {
		return "", err
	}
	web, err := ReadHTTP(filepath.Join(results, HTTPFile))
	if err != nil {
		return "", err
	}
	sockets, err := ReadWS(filepath.Join(results, WSFile))
	if err != nil {
		return "", err
	}
	generators, err := ReadGenerators(filepath.Join(results, GeneratorsFile))
	if err != nil {
		return "", err
	}
	table := func(file, name string) (string, error) {
		switch {
		case file == PeersFile && peers != nil:
			return peers.Table(name)
		case file == HTTPFile && web != nil:
			return web.Table(name)
		case file == WSFile && sockets != nil:
			return sockets.Table(name)
		case file == FaultsFile && faults != nil:
			return faults.Table(name)
		case file == GeneratorsFile && generators != nil:
			return generators.Table(name)
		case file == GeneratorsFile || file == PeersFile || file == HTTPFile || file == WSFile || file == FaultsFile:
			return nothing, nil
		}
		return "", fmt.Errorf("a marker names %q; there are %s, %s, %s, %s and %s", file, PeersFile, HTTPFile, WSFile, FaultsFile, GeneratorsFile)
	}
	return fill(page, table)
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
