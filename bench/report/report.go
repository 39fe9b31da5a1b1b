// Package report is what the comparisons leave behind: runs as JSON, and the
// Markdown tables that are made from them.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
)

// The files below bench/results, and the schemas of what is in them.
const (
	PeersFile    = "peers.json"
	HTTPFile     = "http.json"
	FaultsFile   = "faults.json"
	PeersSchema  = "hone.bench.peers/1"
	HTTPSchema   = "hone.bench.http/1"
	FaultsSchema = "hone.bench.faults/1"
)

// Head is what every stored run begins with.
type Head struct {
	Schema string `json:"schema"`
	// Valid says that the figures may be quoted.
	Valid          bool          `json:"valid"`
	InvalidReasons []string      `json:"invalid_reasons"`
	Machine        Machine       `json:"machine"`
	Servers        []fleet.Entry `json:"servers"`
}

// Peers is a run of the comparison of speed and memory.
type Peers struct {
	Head
	Settings  Settings   `json:"settings"`
	Scenarios []Scenario `json:"scenarios"`
	Samples   []Sample   `json:"samples"`
}

// Settings say how a run was made.
type Settings struct {
	Rounds   int    `json:"rounds"`
	WindowMS int64  `json:"window_ms"`
	WarmupMS int64  `json:"warmup_ms"`
	Seed     uint64 `json:"seed"` // of the order
	Retaken  int    `json:"retaken"`
	Client   string `json:"client"` // the package that loaded the servers; empty: tool/load
}

// Scenario is one way of using a server.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// Sample is one server in one scenario in one round.
type Sample struct {
	Scenario string `json:"scenario"`
	Server   string `json:"server"`
	Round    int    `json:"round"`
	Error    string `json:"error"` // why there are no figures; empty: none
	// PerConn is how much of the server's memory an idle connection takes, and
	// Resident is all of it, in bytes; where that was measured.
	PerConn  *float64 `json:"per_conn_bytes"`
	Resident *int64   `json:"resident_bytes"`
	// Calls are the server's system calls for a request; where they were counted.
	Calls *float64 `json:"calls,omitempty"`
	drive.Figure
}

// Faults is a run of the fault probes.
type Faults struct {
	Head
	Probes   []Scenario `json:"probes"`
	Findings []Finding  `json:"findings"`
}

// Finding is what one probe found out about one server.
type Finding struct {
	Probe    string   `json:"probe"`
	Server   string   `json:"server"`
	Survived bool     `json:"survived"`
	Words    string   `json:"words"`
	Grown    *int64   `json:"grown_bytes"` // the most that its memory grew by while it lasted
	CPU      *float64 `json:"cpu_share"`   // of one CPU, while it lasted
}

// Encode is a run as JSON, one sample or finding a line, so that two can be
// compared by eye and by diff.
func Encode(run any) ([]byte, error) {
	var fields map[string]json.RawMessage
	whole, err := json.Marshal(run)
	if err == nil {
		err = json.Unmarshal(whole, &fields)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	names := slices.SortedFunc(mapKeys(fields), func(a, b string) int {
		return cmp.Compare(bytes.Index(whole, []byte(`"`+a+`":`)), bytes.Index(whole, []byte(`"`+b+`":`)))
	})
	for i, name := range names {
		out.WriteString(map[bool]string{true: "{\n", false: ",\n"}[i == 0])
		fmt.Fprintf(&out, "%q: ", name)
		var items []json.RawMessage
		if err := json.Unmarshal(fields[name], &items); err != nil || len(items) == 0 {
			out.Write(fields[name])
			continue
		}
		for j, item := range items {
			out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[j == 0])
			out.Write(item)
		}
		out.WriteString("\n]")
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// read fills run with a stored one of that schema.
func read(path, schema string, head *Head, run any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, run); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if head.Schema != schema {
		return fmt.Errorf("%s has the schema %q; this program reads %s", path, head.Schema, schema)
	}
	return nil
}

// ReadPeers reads a stored Peers; nil when there is none.
func ReadPeers(path string) (*Peers, error) {
	p := new(Peers)
	return absent(p, read(path, PeersSchema, &p.Head, p))
}

// HTTP is a run of the comparison of servers of HTTP.
type HTTP struct{ Peers }

// ReadHTTP reads a stored HTTP; nil when there is none.
func ReadHTTP(path string) (*HTTP, error) {
	p := new(HTTP)
	return absent(p, read(path, HTTPSchema, &p.Head, p))
}

// ReadFaults reads stored Faults; nil when there are none.
func ReadFaults(path string) (*Faults, error) {
	f := new(Faults)
	return absent(f, read(path, FaultsSchema, &f.Head, f))
}

func absent[T any](run *T, err error) (*T, error) {
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}
