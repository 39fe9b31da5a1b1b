package lint

import (
	"go/ast"
	"strings"
)

var testRules = []rule{
	{"sleeps", eachFile(checkSleeps), []example{
		{
			name:  "a test that sleeps",
			files: "-- pool/pool_test.go --\npackage pool\n\nimport \"time\"\n\nfunc TestGet() { time.Sleep(time.Millisecond) }",
			want:  []string{"pool/pool_test.go:5: time.Sleep in a test; "},
		},
		{
			name: "a test that waits for an event, and code that paces",
			files: `
-- pool/pool_test.go --
package pool

import "time"

func TestGet() {
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
-- tool/load/load.go --
package load

import "time"

func pace() { time.Sleep(time.Millisecond) }`,
		},
	}},
	{"norace", eachFile(checkNorace), []example{
		{
			name:  "code hidden from the race detector",
			files: "-- engine/parked.go --\npackage engine\n\n//go:norace\nfunc read() {}",
			want:  []string{"engine/parked.go:3: //go:norace excludes code from race tests; "},
		},
		{
			name:  "another directive, and a mention of it",
			files: "-- engine/parked.go --\npackage engine\n\n// There is no //go:norace here.\n//\n//go:noinline\nfunc read() {}",
		},
	}},
	{"skips", eachFile(checkSkips), []example{
		{
			name: "silent skips",
			files: `
-- engine/engine_test.go --
package engine

import "testing"

func TestA(t *testing.T) { t.Skip() }

func BenchmarkA(b *testing.B) { b.SkipNow() }

func need(tb testing.TB) { tb.Skip("") }

func TestB(t *testing.T) {
	t.Run("x", func(sub *testing.T) { sub.Skipf("") })
}`,
			want: []string{
				"engine/engine_test.go:5: t.Skip without a reason; ",
				"engine/engine_test.go:7: b.SkipNow without a reason; ",
				"engine/engine_test.go:9: tb.Skip without a reason; ",
				"engine/engine_test.go:12: sub.Skipf without a reason; ",
			},
		},
		{
			name: "skips with a reason, and an unrelated Skip",
			files: `
-- engine/engine_test.go --
package engine

import "testing"

func TestA(t *testing.T) { t.Skip("no Chromium; make deps installs it") }

func TestB(t *testing.T) {
	reader.Skip()
	t.Skipf("needs Linux, this is %s", "plan9")
}`,
		},
	}},
}

// checkSleeps finds tests that sleep.
func checkSleeps(f *file) []finding {
	if !f.isTest() {
		return nil
	}
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if from, name := f.qualified(e); from == "time" && name == "Sleep" {
				found = append(found, f.finding(e.Pos(), "time.Sleep in a test; wait for the event, or pass the time in as a value"))
			}
		}
		return true
	})
	return found
}

// checkNorace finds code that is excluded from race tests.
func checkNorace(f *file) []finding {
	var found []finding
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:norace") {
				found = append(found, f.finding(c.Pos(), "//go:norace excludes code from race tests; make the code free of races"))
			}
		}
	}
	return found
}

// checkSkips finds skipped tests without a reason.
func checkSkips(f *file) []finding {
	testers := testerNames(f)
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || !testers[x.Name] {
			return true
		}
		switch sel.Sel.Name {
		case "Skip", "Skipf", "SkipNow":
			if !saysSomething(call.Args) {
				found = append(found, f.finding(call.Pos(),
					`%s.%s without a reason; name the platform or "make deps"`, x.Name, sel.Sel.Name))
			}
		}
		return true
	})
	return found
}

// testerNames collects the parameters of type *testing.T, B and F and testing.TB.
func testerNames(f *file) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		typ := field.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if from, _ := f.qualified(typ); from == "testing" {
			for _, id := range field.Names {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

// saysSomething reports whether a skip has a reason that is not empty.
func saysSomething(args []ast.Expr) bool {
	if len(args) == 0 {
		return false
	}
	lit, ok := args[0].(*ast.BasicLit)
	return !ok || strings.Trim(lit.Value, "\"` ") != ""
}
