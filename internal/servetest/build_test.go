package servetest

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hone-go/hone"

// build builds net/http's test binary, with hooks, in a temporary folder. It also returns the
// folder of the source.
func build(t *testing.T) (binary, source string) {
	t.Helper()
	g := newGoroot(t)
	g.addHone()
	server := filepath.Join("src", "net", "http", "server.go")
	g.put(server, withHooks(t, read(t, filepath.Join(g.from, server))))
	g.put("src/net/http/hone.go", read(t, "testdata/hooks.go"))
	modes := filepath.Join("src", "net", "http", "clientserver_test.go")
	g.put(modes, withModes(t, read(t, filepath.Join(g.from, modes))))
	main := filepath.Join("src", "net", "http", "main_test.go")
	g.put(main, withRun(t, read(t, filepath.Join(g.from, main))))
	g.put("src/net/http/hone_test.go", read(t, "testdata/hone_test.go"))
	binary = filepath.Join(g.dir, "http.test")
	cmd := exec.Command(filepath.Join(g.from, "bin", "go"), "test", "-c", "-vet=off", "-o", binary, "net/http")
	cmd.Dir = filepath.Join(g.dir, "src")
	cmd.Env = append(os.Environ(), "GOROOT="+g.dir, "GOWORK=off", "GOFLAGS=", "GOTOOLCHAIN=local")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return binary, filepath.Join(g.from, "src", "net", "http")
}

// goroot is a folder of links to the installed Go, where files can be added and replaced.
type goroot struct {
	t         *testing.T
	dir, from string
}

func newGoroot(t *testing.T) *goroot {
	g := &goroot{t: t, dir: t.TempDir(), from: goTool(t, "env", "GOROOT")}
	g.link(".", "src")
	g.link("src", "net")
	g.link("src/net", "http")
	g.link("src/net/http", "")
	return g
}

// link makes a folder of links to the contents of the installed Go's folder, except for one.
func (g *goroot) link(folder, but string) {
	files, err := os.ReadDir(filepath.Join(g.from, folder))
	if err == nil {
		err = os.MkdirAll(filepath.Join(g.dir, folder), 0o700)
	}
	for _, f := range files {
		if err == nil && f.Name() != but {
			err = os.Symlink(filepath.Join(g.from, folder, f.Name()), filepath.Join(g.dir, folder, f.Name()))
		}
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// put adds a file or replaces a link.
func (g *goroot) put(name string, content []byte) {
	name = filepath.Join(g.dir, name)
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.RemoveAll(name)
	}
	if err == nil {
		err = os.WriteFile(name, content, 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// addHone copies http1, and the packages it imports from outside the standard library, into
// GOROOT: a package there may import no others.
func (g *goroot) addHone() {
	type pkg struct {
		Dir, ImportPath string
		Standard        bool
		GoFiles, SFiles []string
		HFiles          []string
	}
	paths := make(map[string]string) // import paths: the original one, and the one in GOROOT
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(goTool(g.t, "list", "-deps", "-json=Dir,ImportPath,Standard,GoFiles,SFiles,HFiles", module+"/http1")))
	for dec.More() {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			g.t.Fatal(err)
		}
		if p.Standard {
			continue
		}
		inside, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			inside = path.Join("outside", p.ImportPath[strings.Index(p.ImportPath, "/")+1:])
		}
		paths[p.ImportPath] = "hone/" + inside
		pkgs = append(pkgs, p)
	}
	for _, p := range pkgs {
		for _, name := range slices.Concat(p.GoFiles, p.SFiles, p.HFiles) {
			src := read(g.t, filepath.Join(p.Dir, name))
			if strings.HasSuffix(name, ".go") {
				src = withImports(src, paths)
			}
			g.put(filepath.Join("src", paths[p.ImportPath], name), src)
		}
	}
}

// withImports rewrites the import paths of a Go file.
func withImports(src []byte, paths map[string]string) []byte {
	for old, now := range paths {
		src = bytes.ReplaceAll(src, []byte(strconv.Quote(old)), []byte(strconv.Quote(now)))
	}
	return bytes.ReplaceAll(src, []byte(module+"/"), []byte("hone/"))
}

// hooked are the methods of http.Server that call a hook first. %s stands for the receiver and
// the parameters.
var hooked = map[string]string{
	"Serve":                "if hook := HoneHooks.Serve; hook != nil { if err, done := hook(%s); done { return err } }; ",
	"ServeTLS":             "if hook := HoneHooks.ServeTLS; hook != nil { if err, done := hook(%s); done { return err } }; ",
	"Shutdown":             "if hook := HoneHooks.Shutdown; hook != nil { if err, done := hook(%s); done { return err } }; ",
	"Close":                "if hook := HoneHooks.Close; hook != nil { if err, done := hook(%s); done { return err } }; ",
	"SetKeepAlivesEnabled": "if hook := HoneHooks.SetKeepAlivesEnabled; hook != nil && hook(%s) { return }; ",
}

// withHooks returns net/http's server.go with hooks.
func withHooks(t *testing.T, src []byte) []byte {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, d := range slices.Backward(f.Decls) {
		method, ok := d.(*ast.FuncDecl)
		if !ok || method.Recv == nil || hooked[method.Name.Name] == "" {
			continue
		}
		if pointer, ok := method.Recv.List[0].Type.(*ast.StarExpr); !ok || pointer.X.(*ast.Ident).Name != "Server" {
			continue
		}
		var args []string
		for _, field := range slices.Concat(method.Recv.List, method.Type.Params.List) {
			for _, id := range field.Names {
				args = append(args, id.Name)
			}
		}
		hook := strings.Replace(hooked[method.Name.Name], "%s", strings.Join(args, ", "), 1)
		at := fset.Position(method.Body.Lbrace).Offset + 1
		if method.Name.Name == "Serve" {
			src = replaceNode(t, src, fset, find(method, isIdent("testHookServerServe")), "HoneServes(l)")
		}
		src = slices.Insert(src, at, []byte(hook)...)
		done++
	}
	if done != len(hooked) {
		t.Fatalf("found %d of http.Server's methods %d; change hooked", done, len(hooked))
	}
	return src
}

// withRun returns net/http's main_test.go with honeRun instead of m.Run.
func withRun(t *testing.T, src []byte) []byte {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return replaceNode(t, src, fset, find(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Run" && isIdent("m")(method.X)
	}), "honeRun(m)")
}

// withModes returns net/http's clientserver_test.go with honeModes's modes instead of the usual ones.
func withModes(t *testing.T, src []byte) []byte {
	const usual = "[]testMode{http1Mode, http2Mode}"
	if bytes.Count(src, []byte(usual)) != 1 {
		t.Fatalf("%s is not in clientserver_test.go of this Go version; change how the modes are set", usual)
	}
	return bytes.Replace(src, []byte(usual), []byte("honeModes("+usual+")"), 1)
}

// find returns the first node for which wanted is true, or nil.
func find(in ast.Node, wanted func(ast.Node) bool) (found ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
		if found == nil && n != nil && wanted(n) {
			found = n
		}
		return found == nil
	})
	return found
}

func isIdent(name string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && id.Name == name
	}
}

// replaceNode returns src with n replaced by text.
func replaceNode(t *testing.T, src []byte, fset *token.FileSet, n ast.Node, text string) []byte {
	t.Helper()
	if n == nil {
		t.Fatalf("%s does not fit into this Go version; change how the hooks are added", text)
	}
	return slices.Replace(src, fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset, []byte(text)...)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// goTool runs the go command in this folder.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(string(out))
}
