// Package table keeps what was measured, one file for each row, and makes tables, verdicts and the
// picture of the main README from it.
package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/machine"
)

// Schema is that of a stored row.
const Schema = "hone.bench/2"

// Head has what every stored run begins with.
type Head struct {
	Schema string `json:"schema"`
	// Valid means that the figures may be quoted.
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Machine        Machine  `json:"machine"`
	Servers        []Server `json:"servers"`
}

// Server is what was measured: a server, a load generator or a router.
type Server struct {
	Name    string `json:"name"`
	Program string `json:"program"` // a folder of bench/servers, or a program of the system
	Module  string `json:"module"`  // whose code does the work
	Version string `json:"version"` // of that module, of Go or of the program; empty: this repository's
}

// Floor is the program that shows what the kernel and the protocol cost without a library; it is nobody's peer.
const Floor = "floor"

// Ours reports whether the server is hone's.
func (s Server) Ours() bool {
	return slices.Contains([]string{"hone", "honed", "http1", "ws"}, s.Program)
}

// Default reports whether the server is hone's with its default engine.
func (s Server) Default() bool { return s.Ours() && !strings.HasSuffix(s.Name, "buffered") }

// Row is one way of using servers, and what was measured of each.
type Row struct {
	Head
	Name     string   `json:"name"`  // as in frames/A, which is also its file's
	Title    string   `json:"title"` // the load, and the CPUs of server and client
	Rounds   int      `json:"rounds"`
	WindowMS int64    `json:"window_ms"`
	Seed     uint64   `json:"seed"`    // of the order; 0: hone bench's
	Retaken  int      `json:"retaken"` // samples that were thrown away because other programs were busy
	Client   string   `json:"client"`
	Packages []string `json:"packages"` // of hone, in its servers
	Samples  []Sample `json:"samples"`
}

// Sample is what one server showed in one round. A row with several cases has a sample for each.
type Sample struct {
	Server  string             `json:"server"`
	Case    string             `json:"case,omitempty"`
	Round   int                `json:"round"`
	Error   string             `json:"error,omitempty"` // why there are no figures
	Figures map[string]float64 `json:"figures,omitempty"`
	Doubts  []string           `json:"doubts,omitempty"` // why the client does not vouch for them
}

// Invalid says why a run may not be quoted; it returns nothing for a valid one.
func (h Head) Invalid() string {
	if h.Valid {
		return ""
	}
	reasons := h.InvalidReasons
	if more := len(reasons) - 3; more > 0 {
		reasons = append(reasons[:3:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("**INVALID**: %s.\n\n", strings.Join(reasons, "; "))
}

// Doubt makes a run invalid.
func (h *Head) Doubt(format string, args ...any) {
	h.Valid, h.InvalidReasons = false, append(h.InvalidReasons, fmt.Sprintf(format, args...))
}

// Values returns a figure of a server by round.
func (r *Row) Values(server, of, figure string) map[int]float64 {
	values := make(map[int]float64)
	for _, s := range r.Samples {
		if v, has := s.Figures[figure]; has && s.Server == server && s.Case == of {
			values[s.Round] = v
		}
	}
	return values
}

// Changed reports whether one of the row's packages, in the repository that dir is in, is not as it was measured.
func (r *Row) Changed(ctx context.Context, dir string) bool {
	args := []string{"-C", dir, "diff", "--quiet", r.Machine.Commit, "--", ":(top,exclude,glob)**/*_test.go"}
	for _, name := range r.Packages {
		args = append(args, ":(top,glob)"+name+"/*.go")
	}
	return len(r.Packages) == 0 || exec.CommandContext(ctx, "git", args...).Run() != nil
}

// Cases are those of the row, in the order of its samples; a single empty one if it has none.
func (r *Row) Cases() []string {
	var all []string
	for _, s := range r.Samples {
		if !slices.Contains(all, s.Case) {
			all = append(all, s.Case)
		}
	}
	return all
}

// Machine describes the machine and the commit of a run. Unknown fields are empty.
type Machine struct {
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Kernel  string `json:"kernel"`
	System  string `json:"system"` // as in linux/amd64
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"` // the tree had uncommitted changes
	Date    string `json:"date"`
}

// ThisMachine describes this machine; dir is a folder in the repository.
func ThisMachine(ctx context.Context, dir string) Machine {
	facts := machine.Read().Strict
	m := Machine{
		CPU: facts["cpu"], CPUs: runtime.NumCPU(), Kernel: facts["kernel"], System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly),
	}
	if commit, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(commit))
		// Rows that were stored before this one, and the pages that are made of them, change no figure.
		diff := exec.CommandContext(ctx, "git", "-C", dir, "diff", "--quiet", "HEAD", "--", ":/", ":/!*.md", ":/!docs", ":/!bench/results")
		m.Changed = diff.Run() != nil
	}
	return m
}

// String returns the line under a table.
func (m Machine) String() string {
	commit := m.Commit
	if m.Changed {
		commit += " with changes"
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s %s, commit %s, %s", m.CPU, m.CPUs, m.Kernel, m.Go, m.System, commit, m.Date)
}

// Encode encodes a run as JSON, with a server or a sample on each line, so that diff can compare two runs.
func Encode(run any) ([]byte, error) {
	text, err := json.Marshal(run)
	for _, begin := range []string{`{"name":`, `{"server":`} { // quotes within a string are escaped
		text = bytes.ReplaceAll(text, []byte("["+begin), []byte("[\n"+begin))
		text = bytes.ReplaceAll(text, []byte(","+begin), []byte(",\n"+begin))
	}
	return append(text, '\n'), err
}

// Write stores the row below the folder results.
func (r *Row) Write(results string) error {
	text, err := Encode(r)
	if err != nil {
		return err
	}
	path := filepath.Join(results, filepath.FromSlash(r.Name)+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// Stored is everything in the folder results.
type Stored struct {
	rows     map[string]*Row
	tortures map[string]*Torture
	days     releases
	used     map[string]string // the versions that go.mod, go.work and the Makefile name
}

// Load reads the folder bench/results.
func Load(results string) (*Stored, error) {
	s := &Stored{rows: map[string]*Row{}, tortures: map[string]*Torture{}}
	err := filepath.WalkDir(results, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := s.add(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	var errUsed error
	s.used, errUsed = used(results)
	return s, errors.Join(err, errUsed)
}

func (s *Stored) add(text []byte) error {
	var head Head
	if json.Unmarshal(text, &head) != nil || head.Schema == "" { // the versions have no schema
		return json.Unmarshal(text, &s.days)
	}
	switch head.Schema {
	case Schema:
		r := new(Row)
		err := json.Unmarshal(text, r)
		s.rows[r.Name] = r
		return err
	case TortureSchema:
		t := new(Torture)
		err := json.Unmarshal(text, t)
		s.tortures[t.name()] = t
		return err
	}
	return fmt.Errorf("the schema is %q; this program reads %s and %s", head.Schema, Schema, TortureSchema)
}

// names are the rows that begin with one of prefixes, each of which is a row or a group of rows.
func (s *Stored) names(prefixes ...string) (all []string) {
	for _, prefix := range prefixes {
		for _, name := range slices.Sorted(maps.Keys(s.rows)) {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				all = append(all, name)
			}
		}
	}
	return all
}
