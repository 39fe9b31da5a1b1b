package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// circlesFile has, for each package, how many pairs of its files may name each other: one uses a
// declaration of the other, and the other way round. Who reads one of them must read both.
const circlesFile = "internal/lint/testdata/circles.txt"

// TestCircles finds packages with more such pairs than they may have. Mostly a declaration should move: a
// function to the file of what it works on, a type to the file of its methods.
func TestCircles(t *testing.T) {
	tree := repository(t)
	builds := readBuilds(t)
	most := make(map[string]int)
	for line := range strings.Lines(string(tree.texts[circlesFile])) {
		dir, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		most[dir], _ = strconv.Atoi(n)
	}
	load := func(imported string) (io.ReadCloser, error) { return os.Open(builds[imported].export) }
	from := importer.ForCompiler(tree.fset, "gc", load)
	var out strings.Builder
	for _, p := range tree.packages() {
		b, ok := builds[path.Join(module, p.dir)]
		if !ok {
			continue
		}
		found, err := p.circles(b.files, from)
		if err != nil {
			t.Errorf("%s: %v", p.dir, err)
		}
		if len(found) > 0 {
			fmt.Fprintf(&out, "%s %d\n", p.dir, len(found))
		}
		if !*update && len(found) > most[p.dir] {
			t.Errorf("%s: %d pairs of files name each other, and %d may; move a declaration, or %s:\n%s",
				p.dir, len(found), most[p.dir], remake, strings.Join(found, "\n"))
		}
	}
	if *update {
		wantFile(t, circlesFile, out.String())
	}
}

// TestCircleFound counts the circles of a small package.
func TestCircleFound(t *testing.T) {
	p := parseTree(unpack(`
-- pool/a.go --
package pool

type pool struct{ one *lent }

func (p *pool) get() { give(p) }
-- pool/b.go --
package pool

type lent struct{ n int }

func (l *lent) back() (p *pool) { return p }
-- pool/c.go --
package pool

func give(p any) { _ = lent{n: 1}; p.(interface{ get() }).get() }
`)).packages()[0]
	found, err := p.circles([]string{"a.go", "b.go", "c.go"}, nil)
	if want := "a.go names lent of b.go, which names pool"; err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("%q, %v; want %q", found, err, want)
	}
}

// A build is what the go command knows of a package.
type build struct {
	export string   // the file with its export data
	files  []string // the names of its files on this platform
}

// readBuilds asks the go command for the packages of the modules that ship, and for all that they import.
func readBuilds(t *testing.T) map[string]build {
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", `{{.ImportPath}}|{{.Export}}|{{join .GoFiles " "}}`,
		"./...", "./observe/...", "./gateway/...", "./tool/...", "./articles/...")
	list.Dir = filepath.Join("..", "..")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	builds := make(map[string]build)
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(line), "|")
		builds[parts[0]] = build{parts[1], strings.Fields(parts[2])}
	}
	return builds
}

// circles describes the pairs of the package's files that name each other.
func (p *pkg) circles(built []string, from types.Importer) (found []string, err error) {
	var asts []*ast.File
	var fset *token.FileSet
	for _, f := range p.files {
		if slices.Contains(built, path.Base(f.path)) {
			asts, fset = append(asts, f.ast), f.fset
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: from}
	self, err := config.Check(path.Join(module, p.dir), fset, asts, info)
	if err != nil {
		return nil, err
	}
	names := make(map[[2]string]map[string]bool) // what the first file names of the second
	for id, object := range info.Uses {
		if object.Pkg() != self || !isDeclared(object) {
			continue
		}
		arrow := [2]string{path.Base(fset.Position(id.Pos()).Filename), path.Base(fset.Position(object.Pos()).Filename)}
		if names[arrow] == nil {
			names[arrow] = make(map[string]bool)
		}
		names[arrow][object.Name()] = true
	}
	for arrow, there := range names {
		if back := names[[2]string{arrow[1], arrow[0]}]; arrow[0] < arrow[1] && back != nil {
			found = append(found, fmt.Sprintf("%s names %s of %s, which names %s", arrow[0], sortedNames(there), arrow[1], sortedNames(back)))
		}
	}
	slices.Sort(found)
	return found, nil
}

// isDeclared reports whether the object is a declaration at the top of a file: not a local name, and not a
// field or a method of an interface, which belong to their type.
func isDeclared(o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return !types.IsInterface(f.Signature().Recv().Type())
	}
	return o.Parent() == o.Pkg().Scope()
}

func sortedNames(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), " ")
}
