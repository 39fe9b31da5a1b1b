package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

var stateRules = []rule{
	{"init", eachFile(checkInit), []example{
		{
			name:  "work before main",
			files: "-- pool/pool.go --\npackage pool\n\nfunc init() { warm() }",
			want:  []string{"pool/pool.go:3: init() runs before main; "},
		},
		{
			name:  "a method and another name",
			files: "-- pool/pool.go --\npackage pool\n\ntype p struct{}\n\nfunc (p) init() {}\n\nfunc initial() {}",
		},
	}},
	{"globals", eachPackage(checkGlobals), []example{
		{
			name: "values that change",
			files: `
-- pool/pool.go --
package pool

var count int

var shared = sync.Pool{}

var free = make(chan []byte, 8)

var (
	locks   = [4]sync.Mutex{}
	current = &config{}
)`,
			want: []string{
				"pool/pool.go:3: package-level var count is mutable state; ",
				"pool/pool.go:5: package-level var shared is mutable state; ",
				"pool/pool.go:7: package-level var free is mutable state; ",
				"pool/pool.go:10: package-level var locks is mutable state; ",
				"pool/pool.go:11: package-level var current is mutable state; ",
			},
		},
		{
			name: "tables that are written to",
			files: `
-- pool/pool.go --
package pool

var assigned = []int{1, 2}

var counted = 1

var indexed = map[string]int{}

var pointed = config{limit: 1}

var locked = config{limit: 2}

var removed = map[string]int{"a": 1}

var now = time.Now

var copied = [2]int{}

func (c *config) set() {}

func use() *config {
	assigned = nil
	counted++
	indexed["a"] = 1
	locked.set()
	delete(removed, "a")
	copy(copied[:], assigned)
	return &pointed
}

type config struct{ limit int }
-- pool/pool_test.go --
package pool

func stub() { now = nil }`,
			want: []string{
				"pool/pool.go:3: package-level var assigned is changed at pool/pool.go:22; ",
				"pool/pool.go:5: package-level var counted is changed at pool/pool.go:23; ",
				"pool/pool.go:7: package-level var indexed is changed at pool/pool.go:24; ",
				"pool/pool.go:9: package-level var pointed is changed at pool/pool.go:28; ",
				"pool/pool.go:11: package-level var locked is changed at pool/pool.go:25; ",
				"pool/pool.go:13: package-level var removed is changed at pool/pool.go:26; ",
				"pool/pool.go:15: package-level var now is changed at pool/pool_test.go:3; ",
				"pool/pool.go:17: package-level var copied is changed at pool/pool.go:27; ",
			},
		},
		{
			name: "errors, assertions, tables, embedded files",
			files: `
-- pool/pool.go --
package pool

var ErrFull = errors.New("pool: full")

var errWrapped = fmt.Errorf("pool: %w", ErrFull)

var _ io.Closer = (*pool)(nil)

var names = [...]string{full: "full"}

var table = map[string]func() int{"a": func() int { return 1 }}

var header = []byte{0x0d, 0x0a}

var magic = []byte("\x0d\x0a")

var most = 64 << 10

var alias = net.ErrClosed

//go:embed page.html
var page []byte

func use() {
	names := names
	names[0] = "a local copy"
	most, local := 1, 2
	most++
	_, _ = most, local
}
-- pool/pool_test.go --
package pool

var seed int`,
		},
	}},
}

// checkInit finds init functions.
func checkInit(f *file) []finding {
	var found []finding
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, f.finding(fn.Pos(), "init() runs before main; do the work in a constructor"))
		}
	}
	return found
}

// checkGlobals finds package-level variables that hold state.
func checkGlobals(p *pkg) []finding {
	var found []finding
	resolved, info := p.resolve(true)
	changes := changedVars(p, resolved, info)
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec)
				for i, name := range spec.Names {
					where, changed := changes[name.Name]
					switch {
					case name.Name == "_":
					case !isEmbedded(decl, spec) && (i >= len(spec.Values) || !isFixed(info, spec.Values[i])):
						found = append(found, f.finding(name.Pos(),
							"package-level var %s is mutable state; keep it in a struct that the caller creates", name.Name))
					case changed:
						found = append(found, f.finding(name.Pos(),
							"package-level var %s is changed at %s:%d; keep it in a struct that the caller creates", name.Name, where.Filename, where.Line))
					}
				}
			}
		}
	}
	return found
}

// isEmbedded reports whether the variable has a go:embed directive.
func isEmbedded(decl *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// isFixed reports whether a variable with this initial value is effectively constant: an error, a
// table, or an expression without calls.
func isFixed(info *types.Info, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		return true
	case *ast.ParenExpr:
		return isFixed(info, e.X)
	case *ast.UnaryExpr:
		return e.Op != token.AND && e.Op != token.ARROW && isFixed(info, e.X)
	case *ast.BinaryExpr:
		return isFixed(info, e.X) && isFixed(info, e.Y)
	case *ast.CompositeLit:
		return !holdsState(e)
	case *ast.CallExpr:
		switch types.ExprString(e.Fun) {
		case "errors.New", "fmt.Errorf":
			return true
		}
		return info.Types[e.Fun].IsType() && len(e.Args) == 1 && isFixed(info, e.Args[0])
	}
	return false
}

// holdsState reports whether a literal contains something mutable: a lock, an atomic, a pool, a
// channel, newly allocated memory.
func holdsState(lit *ast.CompositeLit) bool {
	holds := false
	ast.Inspect(lit, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			holds = holds || ok && (x.Name == "sync" || x.Name == "atomic")
		case *ast.CallExpr:
			fn, ok := n.Fun.(*ast.Ident)
			holds = holds || ok && (fn.Name == "make" || fn.Name == "new")
		}
		return true
	})
	return holds
}

// changedVars maps each package-level variable that code of the package assigns, writes into or
// takes the address of, to the first place where it does.
func changedVars(p *pkg, resolved *types.Package, info *types.Info) map[string]token.Position {
	changes := make(map[string]token.Position)
	for _, f := range slices.Concat(p.files, p.tests) {
		note := func(exprs ...ast.Expr) {
			for _, e := range exprs {
				id := root(e)
				if id == nil {
					continue
				}
				v, ok := info.Uses[id].(*types.Var)
				if !ok || v.Parent() != resolved.Scope() {
					continue
				}
				if _, known := changes[id.Name]; !known {
					changes[id.Name] = f.fset.Position(id.Pos())
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			note(written(info, n)...)
			return true
		})
	}
	return changes
}

// written lists the expressions that a node modifies or passes on by address.
func written(info *types.Info, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs // := declares local variables
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		return []ast.Expr{n.Key, n.Value}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && info.Types[fn].IsBuiltin() {
			switch fn.Name {
			case "delete", "clear", "copy":
				return n.Args[:1]
			}
		}
	case *ast.SelectorExpr:
		if s := info.Selections[n]; s != nil && s.Kind() == types.MethodVal && byAddress(s) {
			return []ast.Expr{n.X}
		}
	}
	return nil
}

// byAddress reports whether a method call takes its receiver's address.
func byAddress(s *types.Selection) bool {
	_, have := s.Recv().(*types.Pointer)
	_, want := s.Obj().Type().(*types.Signature).Recv().Type().(*types.Pointer)
	return want && !have
}

// root returns the variable at the start of an expression: v in v.f[i].g.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}
