package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Entries for packages that may import more than a list can hold.
const (
	anyLibrary = "the library"   // every public package of the root module
	anyPackage = "every package" // every package of all modules
)

// libraryImports is the root module: each package, and which of our packages it may import. Add a line
// here for a new package.
var libraryImports = map[string][]string{
	"wire":                      {},
	"engine":                    {"pool", "workers", "engine/internal/admission", "engine/internal/input", "engine/internal/life", "engine/internal/outbox", "engine/internal/pace", "engine/internal/proxy", "engine/internal/ration", "engine/internal/secure", "engine/internal/ticket", "engine/internal/timing", "engine/internal/transport", "internal/faultlog", "internal/sys"},
	"engine/internal/admission": {"engine/internal/timing", "engine/internal/transport"},
	"engine/internal/input":     {"pool", "engine/internal/ration"},
	"engine/internal/life":      {},
	"engine/internal/outbox":    {"pool", "engine/internal/ration"},
	"engine/internal/pace":      {},
	"engine/internal/proxy":     {},
	"engine/internal/ration":    {"pool", "engine/internal/timing", "internal/fifo"},
	"engine/internal/secure":    {"pool", "engine/internal/transport", "internal/sys"},
	"engine/internal/ticket":    {},
	"engine/internal/timing":    {"engine/internal/life"},
	"engine/internal/transport": {"internal/sys"},
	"http1":                     {"engine", "pool", "internal/faultlog", "internal/sys"},
	"websocket":                 {"engine", "http1", "pool"},
	"framed":                    {"wire", "engine", "pool", "conns", "internal/fifo", "internal/sys"},
	"handover":                  {"internal/sys"},
	"pool":                      {},
	"workers":                   {"internal/fifo"},
	"conns":                     {"internal/fifo"},
	"docs":                      {}, // its tests run the commands of the pages
	"route":                     {},
	"tlsfiles":                  {},
	"internal/fakenet":          {"internal/sys"}, // only tests import it
	"internal/faultlog":         {},
	"internal/fifo":             {},
	"internal/httpdiff":         {}, // its tests import engine and http1
	"internal/sys":              {},
	"internal/lint":             {},
	"internal/natstest":         {"internal/testrun"},                                     // only tests import it
	"internal/simulation":       {"internal/fakenet", "internal/sys", "internal/testrun"}, // only tests import it
	"internal/servetest":        {},
	"internal/testrun":          {},                         // only tests import it, in every package
	"internal/tlsfront":         {"engine", "internal/sys"}, // only tests import it
}

// observeImports is the module in observe/, in the same form.
var observeImports = map[string][]string{
	"observe/dashboard": {"observe"},
	"observe":           {"framed", "websocket", "http1", "engine", "pool", "workers", "conns", "internal/faultlog", "internal/sys"},
}

// toolImports is the module in tool/, in the same form.
var toolImports = map[string][]string{
	"tool/child":        {},
	"tool/load":         {"wire", "tool/figure", "tool/record", "tool/load/codec", "tool/load/offer", "tool/load/source", "tool/load/traffic", "internal/sys"},
	"tool/load/codec":   {"websocket", "wire", "tool/load/source", "tool/load/traffic"},
	"tool/load/fleet":   {"tool/child", "tool/figure", "tool/load"},
	"tool/load/offer":   {},
	"tool/load/source":  {},
	"tool/load/traffic": {"tool/load/offer"},
	"tool/machine":      {"tool/figure"},
	"tool/trial":        {"tool/child", "tool/load", "tool/load/codec", "tool/machine", "tool/record"},
	"tool/probe":        {"tool/figure", "tool/record"},
	"tool/history":      {"tool/compare", "tool/figure", "tool/record"},
	"tool/page":         {"tool/figure", "tool/load", "tool/machine", "tool/record", "tool/compare", "tool/knee", "tool/probe"},
	"tool/record":       {"tool/figure"},
	"tool/compare":      {"tool/exit", "tool/figure", "tool/load", "tool/probe", "tool/record"},
	"tool/command":      {"tool/exit", "tool/spec"},
	"tool/knee":         {"tool/exit", "tool/figure", "tool/load", "tool/record", "tool/trial", "internal/sys"},
	"tool/exit":         {},
	"tool/figure":       {},
	"tool/demo":         {"engine", "observe"},
	"tool/race":         {"engine", "wire", "tool/admin", "tool/child", "tool/demo", "tool/figure", "tool/load", "tool/load/codec"},
	"tool/torture":      {"websocket", "tool/child", "tool/figure", "tool/load", "tool/load/codec", "tool/load/traffic", "tool/trial"},
	"tool/view":         {"tool/figure", "tool/load", "tool/machine", "tool/trial"},
	"tool/session":      {"tool/admin", "tool/exit", "tool/load", "observe", "tool/page", "tool/record", "tool/trial", "tool/view"},
	"tool/spec":         {"wire", "tool/admin", "tool/exit", "tool/figure", "tool/load", "tool/load/codec", "tool/load/offer", "tool/load/source", "tool/load/traffic", "tool/record", "tool/trial"},
	"tool/serving":      {anyLibrary, "internal/sys", "tool/exit", "tool/figure", "observe", "tool/session", "tool/spec"},
	"tool/admin":        {"tool/exit", "tool/load", "observe"},
	"tool/prove":        {"gateway", "gateway/journal", "tool/child"},
	"tool/cmd/hone":     {anyPackage},
}

// articlesImports is the module in articles/, in the same form. The folders of an article, such as
// articles/1-server/direct, may import everything.
var articlesImports = map[string][]string{
	"articles":       {},
	"articles/claim": {"wire", "internal/testrun", "tool/child", "tool/compare", "tool/figure", "tool/load", "tool/load/codec", "tool/probe", "tool/record", "tool/trial"},
	"articles/stage": {"engine", "observe"},
}

// gatewayImports is the module in gateway/, in the same form.
var gatewayImports = map[string][]string{
	"gateway":                       {anyLibrary, "gateway/internal/delivery", "gateway/internal/mqtt", "gateway/internal/number", "gateway/journal", "internal/sys"},
	"gateway/cluster":               {"gateway/internal/writer", "gateway/journal"},
	"gateway/journal":               {"gateway/internal/writer"},
	"gateway/cmd/honed":             {anyPackage},
	"gateway/internal/commandline":  {"handover", "gateway", "gateway/internal/number", "gateway/journal", "internal/sys", "observe"},
	"gateway/internal/delivery":     {"gateway/internal/number"},
	"gateway/internal/mqtt":         {},
	"gateway/internal/number":       {},
	"gateway/internal/writer":       {},
	"gateway/relay/cmd/honed-relay": {"engine", "gateway", "gateway/journal", "gateway/internal/commandline", "gateway/internal/number", "internal/faultlog", "internal/sys", "observe"},
}

// onlyHome lists import paths that only one package may import, tests included. A path with an in concerns only that folder's code. A path with a final
// slash includes everything below it.
var onlyHome = []struct{ path, home, instead, in string }{
	{"golang.org/x/sys/", "internal/sys", "ask internal/sys for it, or syscall", ""},
	{"net/http/pprof", "observe", "mount what observe offers; importing this registers handlers for the whole process", ""},
	{"github.com/prometheus/client_golang/", "observe", "offer Stats() and let observe read it when it is scraped", ""},
	{"github.com/prometheus/procfs", "observe", "offer Stats() and let observe read it when it is scraped", ""},
	{"github.com/prometheus/client_model/", "tool/admin", "let tool/admin read /metrics", ""},
	{"github.com/prometheus/common/", "tool/admin", "let tool/admin read /metrics", ""},
	{"github.com/nats-io/", "gateway/cluster", "take a journal.Log", "gateway"},
	{"golang.org/x/term", "tool/view", "return values and let tool/view draw them", ""},
}

// outsideCode and outsideTests are the modules outside the standard library that the root module may
// import.
var (
	outsideCode  = []string{"golang.org/x/sys"}
	outsideTests = []string{"golang.org/x/sys", "go.uber.org/goleak", "pgregory.net/rapid"}
)

var importRules = []rule{
	{"packages", checkKnownPackages, []example{
		{
			name:  "a package missing in the table",
			files: "-- cache/cache.go --\npackage cache",
			want:  []string{"cache/cache.go:1: package cache is not in the import table; add it to libraryImports in internal/lint/imports_test.go"},
		},
		{
			name:  "a tool missing in the table",
			files: "-- tool/guess/guess.go --\npackage guess",
			want:  []string{"tool/guess/guess.go:1: package tool/guess is not in the import table; add it to toolImports in internal/lint/imports_test.go"},
		},
		{
			name:  "code at the root",
			files: "-- hone.go --\npackage hone",
			want:  []string{"hone.go:1: there is no root package; "},
		},
		{
			name: "packages in the table, and folders that need no entry",
			files: `
-- wire/wire.go --
package wire
-- wire/wire_test.go --
package wire_test
-- tool/cmd/hone/main.go --
package main
-- examples/upper/upper.go --
package upper
-- bench/peers.go --
package bench`,
		},
	}},
	{"direction", checkDirection, []example{
		{
			name:  "engine imports a protocol",
			files: "-- engine/direct.go --\npackage engine\n\nimport \"github.com/hone-go/hone/wire\"",
			want:  []string{"engine/direct.go:3: engine must not import wire; it may import pool, workers, engine/internal/admission"},
		},
		{
			name:  "the load generator shares the server's code",
			files: "-- tool/load/load.go --\npackage load\n\nimport \"github.com/hone-go/hone/framed\"",
			want:  []string{"tool/load/load.go:3: tool/load must not import framed; it may import wire, tool/figure, tool/record, tool/load/codec, tool/load/offer, tool/load/source, tool/load/traffic, internal/sys"},
		},
		{
			name:  "the admin side imports the tool",
			files: "-- observe/observe.go --\npackage observe\n\nimport \"github.com/hone-go/hone/tool/probe\"",
			want:  []string{"observe/observe.go:3: observe must not import tool/probe; it may import framed, websocket, http1, engine, pool, workers, conns, internal/faultlog, internal/sys"},
		},
		{
			name:  "a test that imports a higher layer",
			files: "-- wire/wire_test.go --\npackage wire_test\n\nimport \"github.com/hone-go/hone/tool/load\"",
			want:  []string{"wire/wire_test.go:3: wire must not import tool/load, not even in a test; "},
		},
		{
			name:  "an example that uses what users cannot",
			files: "-- examples/upper/upper.go --\npackage upper\n\nimport \"github.com/hone-go/hone/internal/sys\"",
			want:  []string{"examples/upper/upper.go:3: examples/upper must not import internal/sys; it may import the library"},
		},
		{
			name:  "an example in the library's module that needs another module",
			files: "-- examples/upper/upper.go --\npackage upper\n\nimport \"github.com/hone-go/hone/observe\"",
			want:  []string{"examples/upper/upper.go:3: examples/upper must not import observe; it may import the library"},
		},
		{
			name:  "a library that imports an example",
			files: "-- framed/framed.go --\npackage framed\n\nimport \"github.com/hone-go/hone/examples/upper\"",
			want:  []string{"framed/framed.go:3: framed must not import examples/upper; "},
		},
		{
			name: "as the table says",
			files: `
-- framed/framed.go --
package framed

import (
	"net"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)
-- framed/framed_test.go --
package framed_test

import "github.com/hone-go/hone/examples/upper"
-- examples/gateway/main.go --
package main

import (
	"github.com/hone-go/hone/examples/gateway/room"
	"github.com/hone-go/hone/framed"
)
-- observe/examples/embed/main.go --
package main

import (
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/observe"
)
-- articles/1-server/hone/main.go --
package main

import "github.com/hone-go/hone/route"
-- tool/cmd/hone/main.go --
package main

import (
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/load"
)`,
		},
	}},
	{"outside", checkOutside, []example{
		{
			name:  "a dependency in the library",
			files: "-- pool/pool.go --\npackage pool\n\nimport \"example.com/fast\"",
			want:  []string{"pool/pool.go:3: the library must not import example.com/fast; "},
		},
		{
			name:  "a test library in shipped code",
			files: "-- pool/pool.go --\npackage pool\n\nimport \"pgregory.net/rapid\"",
			want:  []string{"pool/pool.go:3: the library must not import pgregory.net/rapid; "},
		},
		{
			name:  "an assertion library in a test",
			files: "-- pool/pool_test.go --\npackage pool\n\nimport \"example.com/assert\"",
			want:  []string{"pool/pool_test.go:3: the library's tests must not import example.com/assert; "},
		},
		{
			name: "std, ourselves, x/sys, the test libraries, and another module",
			files: `
-- internal/sys/epoll_linux.go --
package sys

import "golang.org/x/sys/unix"
-- wire/wire.go --
package wire

import "encoding/binary"
-- wire/wire_test.go --
package wire_test

import (
	"github.com/hone-go/hone/wire"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)
-- tool/load/load.go --
package load

import "github.com/HdrHistogram/hdrhistogram-go"`,
		},
	}},
	{"one-home", checkOneHome, []example{
		{
			name:  "system calls in an engine",
			files: "-- engine/events_linux.go --\npackage engine\n\nimport \"golang.org/x/sys/unix\"",
			want:  []string{"engine/events_linux.go:3: only internal/sys imports golang.org/x/sys/unix; ask internal/sys"},
		},
		{
			name:  "profiles on the default mux",
			files: "-- examples/gateway/main.go --\npackage main\n\nimport _ \"net/http/pprof\"",
			want:  []string{"examples/gateway/main.go:3: only observe imports net/http/pprof; mount"},
		},
		{
			name:  "metrics pushed by an engine's test",
			files: "-- engine/stats_test.go --\npackage engine\n\nimport \"github.com/prometheus/client_golang/prometheus\"",
			want:  []string{"engine/stats_test.go:3: only observe imports github.com/prometheus/client_golang/prometheus; offer Stats()"},
		},
		{
			name:  "NATS in the log's package",
			files: "-- gateway/journal/stream.go --\npackage journal\n\nimport \"github.com/nats-io/nats.go\"",
			want:  []string{"gateway/journal/stream.go:3: only gateway/cluster imports github.com/nats-io/nats.go; take a journal.Log"},
		},
		{
			name: "imported by the right packages",
			files: `
-- internal/sys/epoll_linux.go --
package sys

import "golang.org/x/sys/unix"
-- observe/observe.go --
package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	"net/http/pprof"
	"runtime/pprof"
)
-- compat/handlers_test.go --
package compat

import "net/http/pprof"
-- gateway/journal/stream_test.go --
package journal

import "github.com/nats-io/nats.go"`,
		},
	}},
}

// checkKnownPackages finds packages that are missing in the import table.
func checkKnownPackages(t *tree) []finding {
	var found []finding
	seen := make(map[string]bool)
	for _, f := range t.files {
		dir := f.dir()
		if seen[dir] || within(dir, "examples") || within(dir, "observe/examples") || within(dir, "bench") || within(dir, "compat") || within(dir, "deploy") || within(dir, "tools") {
			continue
		}
		seen[dir] = true
		table, name := libraryImports, "libraryImports"
		switch {
		case within(dir, "observe"):
			table, name = observeImports, "observeImports"
		case within(dir, "gateway"):
			table, name = gatewayImports, "gatewayImports"
		case within(dir, "tool"):
			table, name = toolImports, "toolImports"
		case ofArticle(dir):
			continue
		case within(dir, "articles"):
			table, name = articlesImports, "articlesImports"
		}
		if dir == "." {
			found = append(found, f.finding(f.ast.Package, "there is no root package; give the code a folder whose name says what it does"))
		} else if _, known := table[dir]; !known {
			found = append(found, f.finding(f.ast.Package,
				"package %s is not in the import table; add it to %s in internal/lint/imports_test.go", dir, name))
		}
	}
	return found
}

// checkDirection finds imports between our own packages that the table does not allow.
func checkDirection(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		from := f.dir()
		for _, spec := range f.ast.Imports {
			to, ours := strings.CutPrefix(importPath(spec), module+"/")
			switch {
			case !ours || to == from || within(from, "bench") || within(from, "compat") || within(from, "deploy"):
			case f.isTest() && isLibrary(from) && !isLibrary(to):
				found = append(found, f.finding(spec.Pos(),
					"%s must not import %s, not even in a test; move the test to a package that may import both", from, to))
			case f.isTest():
			case !allowed(from, to):
				may := mayImport(from)
				if len(may) == 0 {
					may = []string{"nothing of hone"}
				}
				found = append(found, f.finding(spec.Pos(), "%s must not import %s; it may import %s", from, to, strings.Join(may, ", ")))
			}
		}
	}
	return found
}

// mayImport returns a folder's entry in the table.
func mayImport(dir string) []string {
	switch {
	case within(dir, "observe/examples"):
		return []string{anyLibrary, "observe"}
	case within(dir, "examples"):
		return []string{anyLibrary}
	case within(dir, "observe"):
		return observeImports[dir]
	case within(dir, "gateway"):
		return gatewayImports[dir]
	case within(dir, "tool"):
		return toolImports[dir]
	case ofArticle(dir):
		return []string{anyPackage}
	case within(dir, "articles"):
		return articlesImports[dir]
	}
	return libraryImports[dir]
}

// allowed reports whether the code in from may import the package to.
func allowed(from, to string) bool {
	_, library := libraryImports[to]
	_, observe := observeImports[to]
	_, tool := toolImports[to]
	_, gateway := gatewayImports[to]
	may := mayImport(from)
	switch {
	case slices.Contains(may, to):
		return true
	case slices.Contains(may, anyPackage):
		return library || observe || tool && !within(from, "gateway") || gateway && within(from, "gateway") || within(to, "articles") && within(from, "articles")
	case slices.Contains(may, anyLibrary) && library && !within(to, "internal"):
		return true
	}
	return within(from, "examples") && within(to, from) // packages of the example itself
}

// checkOutside finds imports of other modules in the root module.
func checkOutside(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		if !isLibrary(f.dir()) {
			continue
		}
		who, may := "the library", outsideCode
		if f.isTest() {
			who, may = "the library's tests", outsideTests
		}
		for _, spec := range f.ast.Imports {
			p := importPath(spec)
			first, _, _ := strings.Cut(p, "/")
			in := func(module string) bool { return within(p, module) }
			if strings.Contains(first, ".") && !in(module) && !slices.ContainsFunc(may, in) {
				found = append(found, f.finding(spec.Pos(),
					"%s must not import %s; write the part that is needed, or move the code into tool/", who, p))
			}
		}
	}
	return found
}

// checkOneHome finds imports that are reserved for one package.
func checkOneHome(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		for _, spec := range f.ast.Imports {
			p := importPath(spec)
			for _, only := range onlyHome {
				if only.in != "" && (f.isTest() || !within(f.dir(), only.in)) {
					continue
				}
				covered := p == only.path || strings.HasSuffix(only.path, "/") && strings.HasPrefix(p, only.path)
				if covered && f.dir() != only.home && f.dir() != "compat" { // compat runs other people's servers
					found = append(found, f.finding(spec.Pos(), "only %s imports %s; %s", only.home, p, only.instead))
				}
			}
		}
	}
	return found
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// ofArticle reports whether a folder belongs to one article, as articles/1-server does.
func ofArticle(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "articles/")
	return ok && rest[0] >= '1' && rest[0] <= '9'
}

// isLibrary reports whether a folder belongs to the root module.
func isLibrary(dir string) bool {
	return !within(dir, "observe") && !within(dir, "gateway") && !within(dir, "tool") && !within(dir, "articles") && !within(dir, "tools") && !within(dir, "bench") && !within(dir, "compat") && !within(dir, "deploy")
}

// TestImportTable checks the table itself for consistency.
func TestImportTable(t *testing.T) {
	known := []string{anyLibrary, anyPackage}
	known = slices.AppendSeq(known, maps.Keys(libraryImports))
	known = slices.AppendSeq(known, maps.Keys(observeImports))
	known = slices.AppendSeq(known, maps.Keys(toolImports))
	known = slices.AppendSeq(known, maps.Keys(gatewayImports))
	known = slices.AppendSeq(known, maps.Keys(articlesImports))
	for _, table := range []map[string][]string{libraryImports, observeImports, toolImports, gatewayImports, articlesImports} {
		for from, may := range table {
			for _, to := range may {
				if !slices.Contains(known, to) {
					t.Errorf("%s may import %s, which is missing in the table", from, to)
				}
				up := isLibrary(from) && !isLibrary(to) || within(from, "observe") && !isLibrary(to) && !within(to, "observe")
				across := within(from, "gateway") && within(to, "tool") || within(to, "gateway") && !within(from, "gateway") && from != "tool/prove"
				up = up || within(to, "articles") && !within(from, "articles")
				if up || across {
					t.Errorf("%s may import %s: allowed imports between modules: articles to tool to observe to library, gateway to the last two, and tool/prove to gateway", from, to)
				}
			}
		}
	}
	if allowed("tool/load", "framed") || allowed("tool/load/codec", "framed") {
		t.Error("tool/load may import framed: load generator and server must not share code")
	}
}
