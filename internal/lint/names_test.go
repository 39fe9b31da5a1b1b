package lint

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostExported is how many package-level names a package may export. The values of an enumeration
// count together with their type as one name.
const mostExported = 40

// emptyNames say nothing about a package's contents.
var emptyNames = []string{"util", "utils", "common", "helpers", "types", "misc", "base", "lib"}

// stdNames are the standard library's top-level packages.
var stdNames = []string{
	"archive", "arena", "bufio", "builtin", "bytes", "cmp", "compress", "container", "context", "crypto",
	"database", "debug", "embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html",
	"image", "index", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect",
	"regexp", "runtime", "simd", "slices", "sort", "strconv", "strings", "structs", "sync", "syscall",
	"testing", "text", "time", "unicode", "unique", "unsafe", "weak",
}

var nameRules = []rule{
	{"package-names", eachPackage(checkPackageName), []example{
		{
			name:  "a meaningless name",
			files: "-- internal/util/util.go --\npackage util",
			want:  []string{"internal/util/util.go:1: package name util is meaningless; "},
		},
		{
			name:  "a meaningless name, as a folder",
			files: "-- examples/common/main.go --\npackage main",
			want:  []string{"examples/common/main.go:1: package name common is meaningless; "},
		},
		{
			name:  "shadows the standard library",
			files: "-- errors/errors.go --\npackage errors",
			want:  []string{"errors/errors.go:1: package name errors is the standard library's; "},
		},
		{
			name:  "a descriptive name",
			files: "-- pool/pool.go --\npackage pool\n-- tool/cmd/hone/main.go --\npackage main",
		},
		{
			name:  "a command, which cannot be imported",
			files: "-- observe/examples/embed/main.go --\npackage main",
		},
	}},
	{"stutter", eachPackage(checkStutter), []example{
		{
			name: "repeats the package's name",
			files: `
-- pool/pool.go --
package pool

type PoolStats struct{}

func PoolOf() {}

const POOL_MAX = 1`,
			want: []string{
				"pool/pool.go:3: pool.PoolStats says pool twice; ",
				"pool/pool.go:5: pool.PoolOf says pool twice; ",
				"pool/pool.go:7: pool.POOL_MAX says pool twice; ",
			},
		},
		{
			name: "the thing itself, another word, a method, an unexported name",
			files: `
-- engine/engine.go --
package engine

type Engine struct{}

type Engines []Engine

func (Engine) EngineName() string { return "" }

type engineState int`,
		},
	}},
	{"exported-count", eachPackage(checkExportedCount), []example{
		{
			name:  "one name too many",
			files: "-- pool/pool.go --\npackage pool\n\nconst (\n" + manyNames(mostExported+1) + ")",
			want:  []string{"pool/pool.go:1: package pool exports 41 names (at most 40); "},
		},
		{
			name:  "the values of an enumeration count as its type",
			files: "-- pool/pool.go --\npackage pool\n\ntype Kind int\n\nconst (\n\tFirst Kind = iota\n" + manyNames(mostExported) + ")",
		},
		{
			name:  "exactly at the limit, unexported names not counted",
			files: "-- pool/pool.go --\npackage pool\n\nfunc small() {}\n\nconst (\n" + manyNames(mostExported) + ")",
		},
	}},
}

// manyNames declares n exported constants, one per line.
func manyNames(n int) string {
	var lines strings.Builder
	for i := range n {
		lines.WriteString("\tN" + strings.Repeat("x", i) + " = 1\n")
	}
	return lines.String()
}

// checkPackageName finds meaningless package names and those of the standard library.
func checkPackageName(p *pkg) []finding {
	if len(p.files) == 0 {
		return nil
	}
	name := p.name
	if name == "main" {
		name = path.Base(p.dir)
	}
	f := p.files[0]
	switch {
	case slices.Contains(emptyNames, name):
		return []finding{f.finding(f.ast.Package, "package name %s is meaningless; name it after what it provides", name)}
	case p.name != "main" && slices.Contains(stdNames, name):
		return []finding{f.finding(f.ast.Package, "package name %s is the standard library's; choose a different one", name)}
	}
	return nil
}

// checkStutter finds exported names that begin with their package's name.
func checkStutter(p *pkg) []finding {
	var found []finding
	for _, x := range p.exported() {
		name := x.id.Name
		if x.receiver != "" || len(name) <= len(p.name) || !strings.EqualFold(name[:len(p.name)], p.name) {
			continue
		}
		if next, _ := utf8.DecodeRuneInString(name[len(p.name):]); !unicode.IsLower(next) {
			found = append(found, x.file.finding(x.id.Pos(), "%s.%s says %s twice; leave the first word out", p.name, name, p.name))
		}
	}
	return found
}

// checkExportedCount finds packages that export too many names.
func checkExportedCount(p *pkg) []finding {
	names := make(map[string]bool)
	values := enumerated(p)
	for _, x := range p.exported() {
		if x.receiver == "" && !values[x.id.Name] {
			names[x.id.Name] = true
		}
	}
	if len(names) <= mostExported {
		return nil
	}
	f := p.files[0]
	return []finding{f.finding(f.ast.Package,
		"package %s exports %d names (at most %d); unexport some, or split the package", p.name, len(names), mostExported)}
}

// enumerated lists the constants of blocks that begin with one of an exported type.
func enumerated(p *pkg) map[string]bool {
	names := make(map[string]bool)
	for _, f := range p.files {
		for _, decl := range f.ast.Decls {
			block, ok := decl.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			first, ok := block.Specs[0].(*ast.ValueSpec)
			if !ok {
				continue
			}
			if kind, ok := first.Type.(*ast.Ident); !ok || !kind.IsExported() {
				continue
			}
			for _, spec := range block.Specs {
				for _, id := range spec.(*ast.ValueSpec).Names {
					names[id.Name] = true
				}
			}
		}
	}
	return names
}

// exported is one name that users of the package see.
type exported struct {
	file       *file
	id         *ast.Ident
	receiver   string // the type's name, for a method
	documented bool
}

// exported lists the package's exported names, methods of exported types included.
func (p *pkg) exported() []exported {
	var all []exported
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					receiver = receiverName(d)
				}
				if d.Name.IsExported() && (receiver == "" || token.IsExported(receiver)) {
					all = append(all, exported{f, d.Name, receiver, isText(d.Doc)})
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					all = append(all, specExported(f, d, s)...)
				}
			}
		}
	}
	return all
}

// specExported lists the exported names of one line of a declaration. A comment on the whole group
// counts for each of its constants and variables.
func specExported(f *file, d *ast.GenDecl, s ast.Spec) []exported {
	var all []exported
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			all = append(all, exported{f, s.Name, "", isText(s.Doc) || !d.Lparen.IsValid() && isText(d.Doc)})
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() {
				all = append(all, exported{f, id, "", isText(d.Doc) || isText(s.Doc) || isText(s.Comment)})
			}
		}
	}
	return all
}

// receiverName returns T for the receivers (t T), (t *T) and (t *T[K]).
func receiverName(d *ast.FuncDecl) string {
	if len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// isText reports whether a comment has text for readers, not only directives.
func isText(doc *ast.CommentGroup) bool {
	return doc != nil && strings.TrimSpace(doc.Text()) != ""
}
