package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// apiFolder holds the exported API of each public library package, of package observe and of the
// gateway's, as text: every API change appears in a diff.
const apiFolder = "internal/lint/testdata/api"

// TestExportedAPI compares the exported names of these packages, with their signatures, fields and
// constants, with the stored API.
func TestExportedAPI(t *testing.T) {
	tree := repository(t)
	want := make(map[string]bool)
	for _, p := range tree.packages() {
		_, library := libraryImports[p.dir]
		_, observe := observeImports[p.dir]
		if (library || observe || p.dir == "gateway" || p.dir == "gateway/journal") && !within(p.dir, "internal") && len(p.files) > 0 {
			name := path.Join(apiFolder, strings.ReplaceAll(p.dir, "/", "-")+".txt")
			want[name] = true
			wantFile(t, name, p.api())
		}
	}
	if len(want) < 7 {
		t.Errorf("only %d public packages are found: %v", len(want), slices.Sorted(maps.Keys(want)))
	}
	for name := range tree.paths {
		if within(name, apiFolder) && strings.HasSuffix(name, ".txt") && !want[name] {
			if *update {
				os.Remove(filepath.Join("..", "..", name))
				continue
			}
			t.Errorf("%s belongs to a package that no longer exists; %s", name, remake)
		}
	}
}

// api is what a package's users see, one declaration after the other: constants with their values,
// variables, functions, and types each with their methods. Declarations of all platforms are
// included, each once.
func (p *pkg) api() string {
	seen := make(map[string]declared)
	resolved, _ := p.resolve(false)
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			for _, x := range p.declares(d, resolved) {
				if x.text = strings.TrimSpace(x.text); x.text != "" {
					seen[x.text] = x
				}
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(seen), func(a, b declared) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.of, b.of), cmp.Compare(a.rank, b.rank), cmp.Compare(a.text, b.text))
	})
	var out strings.Builder
	fmt.Fprintf(&out, "package %s\n", p.name)
	last := declared{kind: -1}
	for _, x := range sorted {
		if x.kind != last.kind || x.kind == ofType && x.of != last.of {
			out.WriteString("\n")
		}
		last = x
		fmt.Fprintln(&out, x.text)
	}
	return out.String()
}

// The kinds of declarations, in the order in which they are listed.
const (
	ofConst = iota
	ofVar
	ofFunc
	ofType
)

// declared is one exported declaration without its comments.
type declared struct {
	kind int
	of   string // the type
	rank int    // 0 for the type's own declaration, 1 for its methods; for a constant its value
	text string
}

// declares lists the exported names of a declaration.
func (p *pkg) declares(d ast.Decl, resolved *types.Package) []declared {
	if f, ok := d.(*ast.FuncDecl); ok {
		receiver := ""
		if f.Recv != nil {
			receiver = receiverName(f)
		}
		signature := p.print(&ast.FuncDecl{Recv: f.Recv, Name: f.Name, Type: f.Type})
		switch {
		case !f.Name.IsExported() || receiver != "" && !token.IsExported(receiver):
			return nil
		case receiver != "":
			return []declared{{ofType, receiver, 1, signature}}
		}
		return []declared{{ofFunc, "", 0, signature}}
	}
	var all []declared
	group := d.(*ast.GenDecl)
	for _, s := range group.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				all = append(all, declared{ofType, s.Name.Name, 0, "type " + p.typeText(s)})
			}
		case *ast.ValueSpec:
			for i, id := range s.Names {
				if id.IsExported() {
					all = append(all, p.value(group.Tok, s, i, resolved))
				}
			}
		}
	}
	return all
}

// value describes a constant with its value, or a variable with its type, or else with the start of
// its initial value.
func (p *pkg) value(kind token.Token, s *ast.ValueSpec, i int, resolved *types.Package) declared {
	name := s.Names[i].Name
	if c, ok := resolved.Scope().Lookup(name).(*types.Const); ok && kind == token.CONST {
		typ := types.TypeString(c.Type(), types.RelativeTo(resolved))
		if c.Type() != types.Typ[types.Invalid] {
			text := fmt.Sprintf("const %s %s = %s", name, typ, c.Val().ExactString())
			return declared{ofConst, typ, int(s.Pos()), strings.Replace(text, " untyped int", "", 1)}
		}
	}
	text := kind.String() + " " + name
	if s.Type != nil {
		text += " " + p.print(s.Type)
	} else if i < len(s.Values) {
		text += " = " + p.print(s.Values[i])
	}
	if kind == token.CONST {
		return declared{ofConst, "", int(s.Pos()), text}
	}
	return declared{ofVar, "", 0, text}
}

// typeText describes a type as its users see it: for a struct or an interface, a line for each
// exported field or method, and a note if there are others.
func (p *pkg) typeText(s *ast.TypeSpec) string {
	head, list := "", (*ast.FieldList)(nil)
	switch t := s.Type.(type) {
	case *ast.StructType:
		head, list = "struct", t.Fields
	case *ast.InterfaceType:
		head, list = "interface", t.Methods
	default:
		return p.print(&ast.TypeSpec{Name: s.Name, TypeParams: s.TypeParams, Assign: s.Assign, Type: s.Type})
	}
	var lines strings.Builder
	hidden := false
	for _, f := range list.List {
		if len(f.Names) == 0 {
			fmt.Fprintf(&lines, "\t%s\n", p.print(f.Type))
		}
		for _, id := range f.Names {
			method, isMethod := f.Type.(*ast.FuncType)
			switch {
			case !id.IsExported():
				hidden = true
			case isMethod && head == "interface":
				fmt.Fprintf(&lines, "\t%s\n", strings.TrimPrefix(p.print(&ast.FuncDecl{Name: id, Type: method}), "func "))
			default:
				fmt.Fprintf(&lines, "\t%s %s\n", id.Name, p.print(f.Type))
			}
		}
	}
	if hidden {
		lines.WriteString("\t// and what is not exported\n")
	}
	if lines.Len() == 0 {
		head += " {}"
	} else {
		head += " {\n" + lines.String() + "}"
	}
	return p.print(&ast.TypeSpec{Name: s.Name, TypeParams: s.TypeParams, Type: ast.NewIdent("")}) + " " + head
}

// print formats a piece of code as gofmt does.
func (p *pkg) print(node any) string {
	var out bytes.Buffer
	config := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}
	if err := config.Fprint(&out, token.NewFileSet(), node); err != nil {
		return fmt.Sprintf("cannot be printed: %v", err)
	}
	return out.String()
}

// TestAPIText checks the text of some declarations.
func TestAPIText(t *testing.T) {
	tree := parseTree(unpack(`
-- pool/pool.go --
// Package pool lends.
package pool

import "time"

// Size is a size.
type Size uint8

// Sizes.
const (
	_     Size = iota
	Small      // small
	Large
	small = 7
	Wait  = time.Second
)

// ErrFull says no.
var ErrFull = errors.New("pool: full")

var hidden int

// Pool is one.
type Pool[T any] struct {
	// Max is the most. Zero: none.
	Max, least int
	New func() *T // makes one

	mu sync.Mutex
}

// Get lends.
func (p *Pool[T]) Get(n int) (x *T, err error) { return nil, nil }

func (p *Pool[T]) grow() {}

// New makes one.
func New() *Pool[int] { return nil }

// Lender lends.
type Lender interface {
	// Lend lends.
	Lend() Size
}

type inner struct{}

func (inner) String() string { return "" }
-- pool/map_linux.go --
package pool

// Map maps.
func Map(n int) []byte { return nil }
-- pool/map_other.go --
package pool

func Map(n int) []byte { return make([]byte, n) }
-- pool/pool_test.go --
package pool

func TestPool() {}
`))
	want := `package pool

const Wait = time.Second
const Small Size = 1
const Large Size = 2

var ErrFull = errors.New("pool: full")

func Map(n int) []byte
func New() *Pool[int]

type Lender interface {
	Lend() Size
}

type Pool[T any] struct {
	Max int
	New func() *T
	// and what is not exported
}
func (p *Pool[T]) Get(n int) (x *T, err error)

type Size uint8
`
	if got := tree.packages()[0].api(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
