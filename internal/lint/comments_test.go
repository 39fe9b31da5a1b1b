package lint

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
