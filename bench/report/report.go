// Package report stores benchmark runs as JSON and generates Markdown tables from
// them.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
)

// The files in bench/results, and their schemas.
const (
	PeersFile   = "peers.json"
	HTTPFile    = "http.json"
	WSFile      = "ws.json"
	PeersSchema = "hone.bench.peers/1"
	HTTPSchema  = "hone.bench.http/1"
	WSSchema    = "hone.bench.ws/1"
)

// Head has the fields that all stored runs start with.
type Head struct {
	Schema string `json:"schema"`
	// Valid means that the results may be quoted.
	Valid          bool          `json:"valid"`
	InvalidReasons []string      `json:"invalid_reasons"`
	Machine        Machine       `json:"machine"`
	Servers        []fleet.Entry `json:"servers"`
}

// invalid says why a run may not be quoted; it returns nothing for a valid one.
func (h Head) invalid() string {
	if h.Valid {
		return ""
	}
	reasons := h.InvalidReasons
	if more := len(reasons) - 3; more > 0 {
		reasons = append(reasons[:3:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("**INVALID**: %s.\n\n", strings.Join(reasons, "; "))
}

// Peers is a run of the comparison of speed and memory: of servers of hone's frames, of HTTP, or of
// WebSocket.
type Peers struct {
	Head
	Settings  Settings   `json:"settings"`
	Scenarios []Scenario `json:"scenarios"`
	Samples   []Sample   `json:"samples"`
}

// Settings are the parameters of a run.
type Settings struct {
	Rounds   int    `json:"rounds"`
	WindowMS int64  `json:"window_ms"`
	WarmupMS int64  `json:"warmup_ms"`
	Seed     uint64 `json:"seed"` // of the order
	Retaken  int    `json:"retaken"`
	Client   string `json:"client"`        // the package of the load generator; empty: tool/load
	Wrk      string `json:"wrk,omitempty"` // the version of wrk; empty: unknown, or not used
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
	Error    string `json:"error"` // why there are no results; empty: no error
	// PerConn is the server's memory per idle connection, and Resident its total memory, in
	// bytes, if measured.
	PerConn  *float64 `json:"per_conn_bytes"`
	Resident *int64   `json:"resident_bytes"`
	// Calls are the server's system calls per request, if counted.
	Calls *float64 `json:"calls,omitempty"`
	// Instructions of the server per message, if counted.
	UserInstructions   *float64 `json:"user_instructions,omitempty"`
	KernelInstructions *float64 `json:"kernel_instructions,omitempty"`
	Push               *Push    `json:"push,omitempty"` // where the server pushes
	drive.Figure
}

// Push is the result of a broadcast to many connections.
type Push struct {
	CPU  *float64 `json:"cpu_us"`        // of the server's process, per recipient
	User *float64 `json:"user_us"`       // user time only
	Peak int64    `json:"peak_resident"` // peak memory of the server, in bytes
	// Alone and During are the p99 of other connections' response times without and during
	// pushes, in microseconds.
	Alone  *float64 `json:"alone_p99_us"`
	During *float64 `json:"during_p99_us"`
	Times  int      `json:"times"` // pushes during the other requests, or to slow consumers
	// Closed connections, of those that do not read, and the seconds until then.
	Closed      int      `json:"closed,omitempty"`
	ClosedAfter *float64 `json:"closed_after_s,omitempty"`
	Grown       int64    `json:"grown_bytes,omitempty"` // Peak minus the memory before
}

// String formats the available results.
func (p *Push) String() string {
	text := fmt.Sprintf(" peak %.1f MiB, %d pushes", float64(p.Peak)/(1<<20), p.Times)
	for _, f := range []struct {
		format string
		value  *float64
	}{
		{", %.2f µs/recipient", p.CPU}, {" (%.2f user)", p.User}, {", p99 %.0f µs", p.Alone}, {" and %.0f µs", p.During}, {", after %.1f s", p.ClosedAfter},
	} {
		if f.value != nil {
			text += fmt.Sprintf(f.format, *f.value)
		}
	}
	if p.ClosedAfter != nil {
		text += fmt.Sprintf(" %d closed, grown by %.1f MiB", p.Closed, float64(p.Grown)/(1<<20))
	}
	return text
}

// Encode encodes a run as JSON, with one sample per line, so that diff can compare
// two runs.
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
	names := slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
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

// Read reads a stored run of that schema.
func Read[T any](path, schema string) (*T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var head Head
	run := new(T)
	if err := errors.Join(json.Unmarshal(text, &head), json.Unmarshal(text, run)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if head.Schema != schema {
		return nil, fmt.Errorf("%s has the schema %q; this program reads %s", path, head.Schema, schema)
	}
	return run, nil
}
