package lint

import (
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// toolchainless are the modules that others import as a library: their go line says all that they need.
var toolchainless = []string{".", "observe"}

var moduleRules = []rule{
	{"one-version", checkOneVersion, []example{
		{
			name: "two versions of one module",
			files: `
-- go.mod --
module example.com/a

require golang.org/x/sys v0.50.0
-- tool/go.mod --
module example.com/a/tool

require (
	example.com/a v0.0.0
	golang.org/x/sys v0.49.0 // indirect
)`,
			want: []string{"tool/go.mod:5: golang.org/x/sys is v0.49.0 here and v0.50.0 in go.mod; "},
		},
		{
			name: "one version, and a go.mod that tests read",
			files: `
-- go.mod --
module example.com/a

require golang.org/x/sys v0.50.0
-- tool/go.mod --
module example.com/a/tool

require golang.org/x/sys v0.50.0 // indirect
-- tool/testdata/go.mod --
require golang.org/x/sys v0.1.0`,
		},
	}},
	{"go-lines", checkGoLines, []example{
		{
			name: "other versions of Go, and a module outside the workspace",
			files: `
-- go.work --
go 1.26.0
toolchain go1.26.11
use (
	.
	./bench
	./tool
)
-- go.mod --
go 1.26.0
toolchain go1.26.11
-- bench/go.mod --
go 1.26.0
-- examples/go.mod --
go 1.26.0
toolchain go1.26.11
-- tool/go.mod --
go 1.25.0
toolchain go1.26.1`,
			want: []string{
				"bench/go.mod:1: the toolchain is \"\", but go.work and this kind of module say \"go1.26.11\"; ",
				"examples/go.mod:1: go.work does not use this module; ",
				"go.mod:1: the toolchain is \"go1.26.11\", but go.work and this kind of module say \"\"; ",
				"tool/go.mod:1: go 1.25.0 is not 1.26.0, as in go.work; ",
				"tool/go.mod:1: the toolchain is \"go1.26.1\", but go.work and this kind of module say \"go1.26.11\"; ",
			},
		},
		{
			name: "one version of Go",
			files: `
-- go.work --
go 1.26.0

// why
toolchain go1.26.11

use (
	.
	./tool
)
-- go.mod --
go 1.26.0
-- tool/go.mod --
go 1.26.0

toolchain go1.26.11`,
		},
	}},
}

// checkOneVersion finds dependencies that two modules require in different versions. The workspace builds all
// with the newest of them, so tests here would not test what users of one module build.
func checkOneVersion(t *tree) []finding {
	var found []finding
	first := map[string]requirement{}
	for _, m := range moduleFiles(t) {
		for _, r := range m.require {
			known, seen := first[r.module]
			switch {
			case !seen:
				first[r.module] = r
			case r.version != known.version:
				found = append(found, finding{r.file, r.line, fmt.Sprintf("%s is %s here and %s in %s; require the newer one in both, and run go mod tidy",
					r.module, r.version, known.version, known.file)})
			}
		}
	}
	return found
}

// checkGoLines compares the go and toolchain lines of all modules with go.work's.
func checkGoLines(t *tree) []finding {
	work := parseModule("go.work", t.texts["go.work"])
	var found []finding
	for _, m := range moduleFiles(t) {
		report := func(format string, args ...any) {
			found = append(found, finding{m.file, 1, fmt.Sprintf(format, args...)})
		}
		dir, toolchain := path.Dir(m.file), work.toolchain
		if slices.Contains(toolchainless, dir) {
			toolchain = ""
		}
		if !slices.Contains(work.use, dir) {
			report("go.work does not use this module; go work use ./%s", dir)
		}
		if m.goLine != work.goLine {
			report("go %s is not %s, as in go.work; go mod edit -go=%[2]s", m.goLine, work.goLine)
		}
		if m.toolchain != toolchain {
			report("the toolchain is %q, but go.work and this kind of module say %q; go mod edit -toolchain=%[2]s", m.toolchain, toolchain)
		}
	}
	return found
}

// TestWorkspaceVersions asks the go command which versions the workspace builds with: those of every go.mod, also
// where a module requires a newer one only by way of another.
func TestWorkspaceVersions(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	list.Dir = filepath.Join("..", "..")
	list.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -m all: %v", err)
	}
	built := map[string]string{}
	for line := range strings.Lines(string(out)) {
		module, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		built[module] = version
	}
	for _, m := range moduleFiles(repository(t)) {
		for _, r := range m.require {
			if version := built[r.module]; version != r.version && version != "" {
				t.Errorf("%s:%d: the workspace builds with %s %s, and users of this module with %s; require that version", m.file, r.line, r.module, version, r.version)
			}
		}
	}
}

// TestGoVersion says which Go runs the tests, and whether go.work names a newer one.
func TestGoVersion(t *testing.T) {
	want := parseModule("go.work", repository(t).texts["go.work"]).toolchain
	switch ran := runtime.Version(); {
	case !version.IsValid(want):
		t.Errorf("go.work has no toolchain line that names a version: %q", want)
	case version.Compare(ran, want) < 0:
		t.Logf("tested with %s; programs are built with %s, which go.work names: GOTOOLCHAIN=%s fetches it", ran, want, want)
	default:
		t.Logf("tested with %s", ran)
	}
}

// moduleFile is what a go.mod or go.work says.
type moduleFile struct {
	file              string
	goLine, toolchain string
	require           []requirement
	use               []string // folders
}

// requirement is one version of one module.
type requirement struct {
	file            string
	line            int
	module, version string
}

// moduleFiles are the go.mod files of the repository, without those that tests read.
func moduleFiles(t *tree) []moduleFile {
	var all []moduleFile
	for file, text := range t.texts {
		if path.Base(file) == "go.mod" && !strings.Contains("/"+file, "/testdata/") {
			all = append(all, parseModule(file, text))
		}
	}
	slices.SortFunc(all, func(a, b moduleFile) int { return strings.Compare(a.file, b.file) })
	return all
}

// parseModule reads the lines of a go.mod or go.work that the rules compare.
func parseModule(file string, text []byte) moduleFile {
	m := moduleFile{file: file}
	block, number := "", 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch {
		case words[0] == "go" && len(words) == 2:
			m.goLine = words[1]
		case words[0] == "toolchain" && len(words) == 2:
			m.toolchain = words[1]
		case words[0] == "use" && len(words) == 2:
			m.use = append(m.use, path.Clean(words[1]))
		case words[0] == "require" && len(words) == 3:
			m.require = append(m.require, requirement{file, number, words[1], words[2]})
		}
	}
	return m
}
