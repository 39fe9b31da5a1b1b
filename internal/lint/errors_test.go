package lint

import (
	"go/ast"
	"go/token"
	"path"
)

var errorRules = []rule{
	{"error-text", eachFile(checkErrorText), []example{
		{
			name: "decisions based on an error's text",
			files: `
-- framed/server.go --
package framed

import "strings"

func closed(err error) bool {
	if err.Error() == "closed" || "EOF" != (err.Error()) {
		return true
	}
	switch err.Error() {
	}
	return strings.Contains(strings.ToLower(err.Error()), "closed")
}`,
			want: []string{
				"framed/server.go:6: compares an error's text; ",
				"framed/server.go:6: compares an error's text; ",
				"framed/server.go:9: compares an error's text; ",
				"framed/server.go:11: searches an error's text; ",
			},
		},
		{
			name:  "a test for the error, not its text",
			files: "-- framed/server_test.go --\npackage framed\n\nvar _ = err.Error() == \"closed\"",
			want:  []string{"framed/server_test.go:3: compares an error's text; use errors.Is or errors.As, or put"},
		},
		{
			name: "decisions based on the error's identity",
			files: `
-- framed/server.go --
package framed

import (
	"errors"
	"strings"
)

func closed(err error) bool {
	println(err.Error(), strings.ToUpper("x"))
	println(strings.Repeat(err.Error(), 1))
	return err == errClosed || errors.Is(err, errDone)
}`,
		},
	}},
	{"default-mux", eachFile(checkDefaultMux), []example{
		{
			name: "one mux for the whole process",
			files: `
-- articles/avatar/avatar.go --
package avatar

import web "net/http"

func serve() {
	web.HandleFunc("/", nil)
	_ = web.DefaultServeMux
}`,
			want: []string{
				"articles/avatar/avatar.go:6: http.HandleFunc uses http.DefaultServeMux; ",
				"articles/avatar/avatar.go:7: http.DefaultServeMux uses http.DefaultServeMux; ",
			},
		},
		{
			name: "a server that has no handler",
			files: `
-- http1/server.go --
package http1

import "net/http"

var _ = http.DefaultServeMux`,
		},
		{
			name: "a separate mux",
			files: `
-- articles/avatar/avatar.go --
package avatar

import "net/http"

func serve() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", nil)
}`,
		},
	}},
}

// checkErrorText finds decisions that depend on an error's text.
func checkErrorText(f *file) []finding {
	var found []finding
	compared := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if isErrorText(e) {
				found = append(found, f.finding(e.Pos(), "compares an error's text; %s", f.insteadOfText()))
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X, n.Y)
			}
		case *ast.SwitchStmt:
			compared(n.Tag)
		case *ast.CallExpr:
			if from, name := f.qualified(n.Fun); (from == "strings" || from == "regexp") && searches(name) && hasErrorText(n.Args) {
				found = append(found, f.finding(n.Pos(), "searches an error's text; %s", f.insteadOfText()))
			}
		}
		return true
	})
	return found
}

// insteadOfText says what to do. A test may check error texts in a function whose name says so.
func (f *file) insteadOfText() string {
	if f.isTest() {
		return "use errors.Is or errors.As, or put the text in a variable when the wording itself is tested"
	}
	return "use errors.Is or errors.As"
}

// searches reports whether a function of package strings or regexp searches text.
func searches(name string) bool {
	switch name {
	case "Contains", "ContainsAny", "ContainsFunc", "ContainsRune", "Count", "Cut", "CutPrefix", "CutSuffix",
		"EqualFold", "HasPrefix", "HasSuffix", "Index", "LastIndex", "MatchString", "Compare":
		return true
	}
	return false
}

// isErrorText reports whether an expression is x.Error().
func isErrorText(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || len(call.Args) != 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

// hasErrorText reports whether x.Error() occurs anywhere in the arguments.
func hasErrorText(args []ast.Expr) bool {
	has := false
	for _, arg := range args {
		ast.Inspect(arg, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			has = has || ok && isErrorText(e)
			return true
		})
	}
	return has
}

// checkDefaultMux finds handlers on the mux that all packages of the process share. Code that
// replaces http.Server must serve that mux.
func checkDefaultMux(f *file) []finding {
	if path.Dir(f.path) == "http1" {
		return nil
	}
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		from, name := f.qualified(e)
		if from == "net/http" && (name == "DefaultServeMux" || name == "Handle" || name == "HandleFunc") {
			found = append(found, f.finding(e.Pos(), "http.%s uses http.DefaultServeMux; create a mux with http.NewServeMux", name))
		}
		return true
	})
	return found
}
