package lint

import (
	"go/ast"
	"regexp"
	"strings"
)

var commentRules = []rule{
	{"doc-comments", eachPackage(checkDocComments), []example{
		{
			name: "no doc comments",
			files: `
-- pool/pool.go --
// Package pool lends memory.
package pool

type Buffers struct{}

func New() *Buffers { return nil }

func (b *Buffers) Get() []byte { return nil }

const Max = 1

//go:noinline
func Put() {}

var (
	ErrFull = errors.New("pool: full")
)

type (
	Size int
)`,
			want: []string{
				"pool/pool.go:4: exported Buffers has no doc comment; ",
				"pool/pool.go:6: exported New has no doc comment; ",
				"pool/pool.go:8: method Buffers.Get has no doc comment; ",
				"pool/pool.go:10: exported Max has no doc comment; ",
				"pool/pool.go:13: exported Put has no doc comment; ",
				"pool/pool.go:16: exported ErrFull has no doc comment; ",
				"pool/pool.go:20: exported Size has no doc comment; ",
			},
		},
		{
			name: "every name documented once",
			files: `
-- pool/pool.go --
// Package pool lends memory.
package pool

// Buffers lends buffers.
type Buffers struct{ Limit int }

// Get lends one.
func (b *Buffers) Get() []byte { return nil }

func (b *Buffers) grow() {}

type hidden int

func (hidden) String() string { return "" }

const (
	Min = 1 // the smallest size
	// Max is the largest.
	Max = 2
)

// Sizes in bytes.
const (
	Small = 1
	Large = 2
)
-- pool/map_linux.go --
package pool

// Map asks the kernel for memory.
func Map() {}
-- pool/map_other.go --
//go:build !linux

package pool

func Map() {}
-- pool/pool_test.go --
package pool

func TestBuffers() {}`,
		},
	}},
	{"package-comment", eachPackage(checkPackageComment), []example{
		{
			name:  "none",
			files: "-- pool/a.go --\npackage pool\n-- pool/b.go --\npackage pool",
			want:  []string{"pool/a.go:1: package pool has no package comment; "},
		},
		{
			name:  "two",
			files: "-- pool/a.go --\n// Package pool lends.\npackage pool\n-- pool/b.go --\n// Package pool takes.\npackage pool",
			want:  []string{"pool/b.go:2: package pool has a second package comment; "},
		},
		{
			name: "one",
			files: `
-- pool/a.go --
// Package pool lends.
package pool
-- pool/b.go --
//go:build linux

package pool
-- pool/b_test.go --
package pool
-- pool/c_test.go --
package pool_test`,
		},
	}},
	{"negative", eachPackage(checkNegative), []example{
		{
			name: "other meanings",
			files: `
-- conns/config.go --
package conns

// Config configures a pool.
type Config struct {
	// Most is the most. Zero: 8. Negative: none.
	Most int
	Idle int // the idle time; negative values count as zero
	// Wait is how long to wait. Negative: off. A negative one is the default.
	Wait int
}`,
			want: []string{
				"conns/config.go:6: the comment of Config.Most says \"Negative: none.\"; ",
				"conns/config.go:7: the comment of Config.Idle says \"negative values count as zero\"; ",
				"conns/config.go:9: the comment of Config.Wait says \"negative one is the default.\"; ",
			},
		},
		{
			name: "allowed meanings, and other structs",
			files: `
-- conns/config.go --
package conns

// Config configures a pool. A negative limit is no limit.
type Config struct {
	// Most is the most. Zero: 8. Negative: no
	// limit, which is 64.
	Most int
	Idle int // Negative: off
	// Size is the size. Negative: a panic.
	Size int
	CPU  float64 // utilisation (0 to 1; negative: unknown)
	next int     // a negative one ends the line
}

type place struct {
	At int // negative: not there
}
-- tool/load/load.go --
package load

// Plan is a plan.
type Plan struct {
	Most int // negative: the default
}`,
		},
	}},
}

// negativeMeans are the meanings that a negative value of an exported field may have: no limit, off for a
// time or a share, or a mistake of the programmer; of something measured, unknown.
var (
	negative      = regexp.MustCompile(`(?i)\bnegative\b[^.]*\.?`)
	negativeMeans = regexp.MustCompile(`(?i)^negative: (?:no limit|off|a panic|unknown)\b`)
)

// checkNegative finds comments of exported fields, in the library and the gateway, that give a negative
// value another meaning.
func checkNegative(p *pkg) []finding {
	if _, library := libraryImports[p.dir]; !library && p.dir != "gateway" {
		return nil
	}
	var found []finding
	for _, f := range p.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := s.Type.(*ast.StructType)
			if !ok || !s.Name.IsExported() {
				return false
			}
			for _, field := range fields.Fields.List {
				if len(field.Names) == 0 || !field.Names[0].IsExported() {
					continue
				}
				text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
				for _, said := range negative.FindAllString(text, -1) {
					if !negativeMeans.MatchString(said) {
						found = append(found, f.finding(field.Pos(), `the comment of %s.%s says %q; a negative value means no limit, off or a panic: write "Negative: " and which, and give other meanings fields of their own`,
							s.Name.Name, field.Names[0].Name, said))
					}
				}
			}
			return false
		})
	}
	return found
}

// checkDocComments finds exported names without a doc comment. If several platforms declare the same
// name, one comment is enough.
func checkDocComments(p *pkg) []finding {
	explained := make(map[string]bool)
	for _, x := range p.exported() {
		if x.documented {
			explained[x.receiver+"."+x.id.Name] = true
		}
	}
	var found []finding
	for _, x := range p.exported() {
		what := "exported " + x.id.Name
		if x.receiver != "" {
			what = "method " + x.receiver + "." + x.id.Name
		}
		if !explained[x.receiver+"."+x.id.Name] {
			found = append(found, x.file.finding(x.id.Pos(), "%s has no doc comment; say what its user may rely on", what))
		}
	}
	return found
}

// checkPackageComment requires exactly one package comment.
func checkPackageComment(p *pkg) []finding {
	var found []finding
	comments := 0
	for _, f := range p.files {
		if !isText(f.ast.Doc) {
			continue
		}
		if comments++; comments > 1 {
			found = append(found, f.finding(f.ast.Package,
				"package %s has a second package comment; merge it into the first, or put a blank line below it", p.name))
		}
	}
	if comments == 0 && len(p.files) > 0 {
		f := p.files[0]
		found = append(found, f.finding(f.ast.Package, "package %s has no package comment; say in one sentence what it is for", p.name))
	}
	return found
}
