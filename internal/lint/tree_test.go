package lint

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// module is the root module's path, and the prefix of every internal import.
const module = "github.com/hone-go/hone"

// tree is the repository as the rules see it. Paths are relative to its root, with slashes.
type tree struct {
	fset   *token.FileSet
	files  []*file           // Go files that belong to a package, sorted by path
	texts  map[string][]byte // every text file
	paths  map[string]bool   // every file and folder
	broken []finding         // Go files that do not parse
}

// file is one Go file.
type file struct {
	path string
	src  []byte
	ast  *ast.File
	fset *token.FileSet
}

// pkg is the files of one folder that share a package clause.
type pkg struct {
	dir   string
	name  string
	files []*file // those that are built
	tests []*file // its _test.go files, without those of package name_test
}

// readOnce is the repository, which all tests share: they only read it.
var readOnce = sync.OnceValues(func() (*tree, error) {
	debug.SetGCPercent(400) // the tree lives until the end, and marking it again and again costs a tenth of the run
	return readTree(filepath.Join("..", ".."))
})

// repository returns the parsed repository.
func repository(t *testing.T) *tree {
	t.Helper()
	tree, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// readTree parses the repository at root, without the files that git ignores.
func readTree(root string) (*tree, error) {
	ignored := ignoredPaths(root)
	files := make(map[string][]byte)
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another test's temporary file
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (d.Name() == ".git" || ignored[rel+"/"]):
			return fs.SkipDir
		case !d.Type().IsRegular() || ignored[rel] || rel == ".git":
			return nil
		}
		src, err := os.ReadFile(full)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files[rel] = src
		return err
	})
	if err != nil {
		return nil, err
	}
	return parseTree(files), nil
}

// ignoredPaths asks git for ignored paths; folders end with a slash. Without git, as in an unpacked
// archive, nothing is ignored.
func ignoredPaths(root string) map[string]bool {
	ignored := make(map[string]bool)
	git := exec.Command("git", "-C", root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	out, err := git.Output()
	if err != nil {
		return ignored
	}
	for p := range bytes.SplitSeq(out, []byte{0}) {
		ignored[string(p)] = true
	}
	return ignored
}

// parseTree makes a tree from a map of paths to contents.
func parseTree(files map[string][]byte) *tree {
	t := &tree{
		fset:  token.NewFileSet(),
		texts: make(map[string][]byte),
		paths: map[string]bool{".": true},
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		src := files[p]
		for up := p; up != "."; up = path.Dir(up) {
			t.paths[up] = true
		}
		if utf8.Valid(src) && !bytes.Contains(src, []byte{0}) {
			t.texts[p] = src
		}
		if inPackage(p) {
			t.parse(p, src)
		}
	}
	return t
}

// inPackage reports whether the go command would read the file.
func inPackage(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "testdata" || part == "vendor" || part[0] == '_' || part[0] == '.' {
			return false
		}
	}
	return strings.HasSuffix(p, ".go")
}

// parse adds a Go file, or records its syntax error.
func (t *tree) parse(p string, src []byte) {
	parsed, err := parser.ParseFile(t.fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		line := 1
		var list scanner.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			line = list[0].Pos.Line
		}
		t.broken = append(t.broken, finding{p, line, fmt.Sprintf("does not parse (%v); run gofmt", err)})
		return
	}
	t.files = append(t.files, &file{path: p, src: src, ast: parsed, fset: t.fset})
}

// packages groups the files by folder.
func (t *tree) packages() []*pkg {
	byDir := make(map[string]*pkg)
	for _, f := range t.files {
		name := f.ast.Name.Name
		if f.isTest() && strings.HasSuffix(name, "_test") {
			continue
		}
		p := byDir[f.dir()+" "+name]
		if p == nil {
			p = &pkg{dir: f.dir(), name: name}
			byDir[f.dir()+" "+name] = p
		}
		if f.isTest() {
			p.tests = append(p.tests, f)
		} else {
			p.files = append(p.files, f)
		}
	}
	var all []*pkg
	for _, key := range slices.Sorted(maps.Keys(byDir)) {
		all = append(all, byDir[key])
	}
	return all
}

// resolve determines what each identifier of the package refers to. Imported names stay unresolved,
// and a name that two platforms declare refers to the first one: enough to tell a package's variable
// from a local one without a build. The bodies of functions may be left out.
func (p *pkg) resolve(bodies bool) (*types.Package, *types.Info) {
	info := &types.Info{
		Types:      make(map[ast.Expr]types.TypeAndValue),
		Uses:       make(map[*ast.Ident]types.Object),
		Selections: make(map[*ast.SelectorExpr]*types.Selection),
	}
	var fset *token.FileSet
	var asts []*ast.File
	for _, f := range slices.Concat(p.files, p.tests) {
		fset = f.fset
		asts = append(asts, f.ast)
	}
	incomplete := types.Config{Error: func(error) {}, IgnoreFuncBodies: !bodies}
	resolved, _ := incomplete.Check(p.dir, fset, asts, info)
	return resolved, info
}

func (f *file) dir() string {
	return path.Dir(f.path)
}

func (f *file) isTest() bool {
	return strings.HasSuffix(f.path, "_test.go")
}

// finding makes a finding for a position in the file.
func (f *file) finding(at token.Pos, format string, args ...any) finding {
	return finding{f.path, f.fset.Position(at).Line, fmt.Sprintf(format, args...)}
}

// lines counts the lines from one place to another, both included.
func (f *file) lines(from, to token.Pos) int {
	return f.fset.Position(to).Line - f.fset.Position(from).Line + 1
}

// imported returns the import path for which name stands in the file, or "".
func (f *file) imported(name string) string {
	for _, spec := range f.ast.Imports {
		p := importPath(spec)
		known := path.Base(p)
		if spec.Name != nil {
			known = spec.Name.Name
		}
		if known == name {
			return p
		}
	}
	return ""
}

// qualified splits pkg.Name into the package's import path and the name.
func (f *file) qualified(e ast.Expr) (path, name string) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	if p := f.imported(x.Name); p != "" {
		return p, sel.Sel.Name
	}
	return "", ""
}

// importPath returns the path of an import.
func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // cannot fail: the parser has checked it
	return p
}

// eachFile makes a rule from a check of one file.
func eachFile(check func(*file) []finding) func(*tree) []finding {
	return func(t *tree) []finding {
		var found []finding
		for _, f := range t.files {
			found = append(found, check(f)...)
		}
		return found
	}
}

// eachPackage makes a rule from a check of one package.
func eachPackage(check func(*pkg) []finding) func(*tree) []finding {
	return func(t *tree) []finding {
		var found []finding
		for _, p := range t.packages() {
			found = append(found, check(p)...)
		}
		return found
	}
}
