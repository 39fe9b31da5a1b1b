package observe_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// TestModuleStaysSmall limits go.mod to what the admin side needs, tests included: a program that
// embeds it gets these modules, and none of the command's.
func TestModuleStaysSmall(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	edit := exec.Command("go", "mod", "edit", "-json")
	out, err := edit.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var direct, required []string
	for _, r := range mod.Require {
		required = append(required, r.Path)
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	if want := []string{"github.com/hone-go/hone", "github.com/prometheus/client_golang", "github.com/prometheus/procfs"}; !slices.Equal(direct, want) {
		t.Errorf("go.mod requires %v, want %v; code that needs more belongs in tool/", direct, want)
	}
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOWORK=off") // go.mod must be sufficient by itself
	out, err = list.CombinedOutput()
	if err != nil {
		t.Fatalf("without go.work: %v\n%s", err, out)
	}
	for module := range strings.FieldsSeq(string(out)) {
		if module != "github.com/hone-go/hone/observe" && !slices.Contains(required, module) {
			t.Errorf("the package or its tests use %s, which go.mod does not list", module)
		}
	}
}

// TestOutsideProgram builds examples/embed outside the repository, with an empty go.sum and without
// a network, and compares what it must download with what client_golang and procfs alone need.
func TestOutsideProgram(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("examples", "embed", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mine, sums := outside(t, string(source), "")
	var require strings.Builder // without observe's go.mod, the versions must be named here
	for line := range strings.Lines(string(own)) {
		for _, module := range []string{"github.com/prometheus/client_golang", "github.com/prometheus/procfs", "golang.org/x/sys"} { // procfs needs the last one too
			if version, found := strings.CutPrefix(line, "\t"+module+" "); found {
				fmt.Fprintf(&require, "require %s %s\n", module, strings.TrimSuffix(strings.TrimSpace(version), " // indirect"))
			}
		}
	}
	alone, fewest := outside(t, `package main

import (
	_ "github.com/prometheus/client_golang/prometheus/collectors"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/procfs"
)

func main() {}
`, require.String())
	if len(alone) < 5 || fewest < 20 {
		t.Fatalf("client_golang and procfs alone need %v and %d sums: the test checks the wrong thing", alone, fewest)
	}
	library, err := os.ReadFile(filepath.Join("..", "go.sum")) // x/sys, and what its tests need
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mine {
		if !slices.Contains(alone, m) && !strings.Contains("\n"+string(library), "\n"+m+" ") {
			t.Errorf("a program that embeds the admin side needs %s, which neither the library nor client_golang and procfs do", m)
		}
	}
	if sums > 40 {
		t.Errorf("go.sum has %d lines, more than 40", sums)
	}
	t.Logf("%d lines of go.sum, %d without the library and observe; modules %v", sums, fewest, mine)
}

// outside builds a program in a folder of its own. It returns the modules that its go.sum names, and
// the number of lines in it.
func outside(t *testing.T, source, require string) (modules []string, sums int) {
	t.Helper()
	dir := t.TempDir()
	library, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod := fmt.Sprintf("module service.example/mine\n\ngo 1.26.0\n\nreplace github.com/hone-go/hone => %q\n\n"+
		"replace github.com/hone-go/hone/observe => %q\n\n%s", library, filepath.Join(library, "observe"), require)
	for name, text := range map[string]string{"go.mod": mod, "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		command := exec.Command("go", args...)
		command.Dir = dir
		// go mod tidy also needs the modules of dependencies' tests, which it downloads.
		command.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOFLAGS=")
		out, err := command.CombinedOutput()
		switch {
		case err == nil:
		case args[0] == "mod" && !testrun.All():
			t.Skipf("go mod tidy needs modules that are not in the cache, and a network to download them: %v\n%s", err, out)
		default:
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		sums++
		if name, _, _ := strings.Cut(line, " "); !slices.Contains(modules, name) {
			modules = append(modules, name)
		}
	}
	return modules, sums
}
