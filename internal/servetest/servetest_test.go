package servetest

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

var (
	update = flag.Bool("update", false, "store the result in "+resultFile)
	only   = flag.String("only", "", "run the tests whose name matches this, and print the result of each")
)

// resultFile is what -update writes.
const resultFile = "internal/servetest/results.md"

// leastFast is how many tests must pass with at least one request on the fast path.
const leastFast = 80

// columns are the servers: net/http itself, and http1 on Events; and the same over TLS.
var columns = []string{"", "events", "tls", "events-tls"}

// oracle returns the column with which another is compared.
func oracle(column int) int {
	if column >= 2 {
		return 2
	}
	return 0
}

// TestServe runs each test of serve_test.go against net/http and against http1.
func TestServe(t *testing.T) {
	if !testrun.All() && !*update && *only == "" {
		t.Skip("it takes two minutes; HONE_TEST_ALL=1 or make suites runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("it compares Linux's engines")
	}
	binary, source := build(t)
	names := testsIn(t, filepath.Join(source, "serve_test.go"))
	if *only != "" {
		some := regexp.MustCompile(*only)
		names = slices.DeleteFunc(names, func(name string) bool { return !some.MatchString(name) })
	}
	outcomes := runAll(t, binary, source, names)
	for _, name := range names {
		if o := outcomes[name][0]; o.result == failed {
			t.Errorf("%s fails against net/http itself: no oracle\n%s", name, o.output)
		}
	}
	for i, engine := range columns {
		if i != oracle(i) {
			compare(t, engine, names, outcomes, i)
		}
	}
	switch {
	case *only != "":
		t.Log(eachTest(names, outcomes))
	case *update:
		if err := os.WriteFile(filepath.Join("..", "..", resultFile), []byte(markdown(t, names, outcomes)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// compare checks that one engine's outcomes equal net/http's, except for the exceptions.
func compare(t *testing.T, engine string, names []string, outcomes map[string][]outcome, column int) {
	fast := 0
	for _, name := range names {
		want, got := outcomes[name][oracle(column)], outcomes[name][column]
		except, excepted := exceptions[name]
		excepted = excepted && except.passes != engine
		switch {
		case got.result != want.result && !excepted:
			t.Errorf("%s on %s: %v, and %v by net/http\n%s", name, engine, got.result, want.result, got.output)
		case got.result == passed && excepted && except.passes != "any":
			t.Errorf("%s on %s passes; delete it from exceptions (%s)", name, engine, except.why)
		}
		if got.result == passed && got.fast > 0 {
			fast++
		}
	}
	if *only != "" {
		return
	}
	if fast < leastFast {
		t.Errorf("%s: %d tests have passed with requests on the fast path, want %d", engine, fast, leastFast)
	}
	for name := range exceptions {
		if !slices.Contains(names, name) {
			t.Errorf("exceptions has %s, which is no longer one of Go's tests", name)
		}
	}
}

// testsIn lists the tests in a file.
func testsIn(t *testing.T, file string) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
			names = append(names, fn.Name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// result says how a test ended.
type result string

const (
	passed  result = "pass"
	skipped result = "skip"
	failed  result = "fail"
)

// outcome is how a test ended, and which half of http1 served its requests.
type outcome struct {
	result
	fast, loans int
	output      string
}

// runAll runs each test on each server in a process of its own: a test that hangs or leaks
// goroutines fails alone. If few fail, it runs these twice more, one at a time, because some
// of these tests measure time.
func runAll(t *testing.T, binary, source string, names []string) map[string][]outcome {
	outcomes := make(map[string][]outcome)
	type job struct {
		name   string
		column int
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for _, name := range names {
		outcomes[name] = make([]outcome, len(columns))
	}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				outcomes[j.name][j.column] = runOne(t.Context(), binary, source, j.name, columns[j.column])
			}
		})
	}
	for _, name := range names {
		for i := range columns {
			jobs <- job{name, i}
		}
	}
	close(jobs)
	workers.Wait()
	again := 20
	for _, name := range names {
		for i := range columns {
			for range 2 {
				_, excepted := exceptions[name]
				if o := &outcomes[name][i]; o.result == failed && !excepted && again > 0 {
					again--
					*o = runOne(t.Context(), binary, source, name, columns[i])
				}
			}
		}
	}
	return outcomes
}

var (
	endOfTest = regexp.MustCompile(`(?m)^--- (PASS|SKIP): (Test\w+) `)
	counts    = regexp.MustCompile(`hone: servers=\d+ fast=(\d+) loans=(\d+)`)
)

// runOne runs one test.
func runOne(ctx context.Context, binary, source, name, engine string) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout", "20s", "-test.run", "^"+name+"$")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "HONE_SERVETEST="+engine)
	out, err := cmd.CombinedOutput()
	o = outcome{result: failed, output: string(out)}
	for _, end := range endOfTest.FindAllStringSubmatch(o.output, -1) {
		if err == nil && end[2] == name {
			o.result = map[string]result{"PASS": passed, "SKIP": skipped}[end[1]]
		}
	}
	if n := counts.FindStringSubmatch(o.output); n != nil {
		fmt.Sscan(n[1], &o.fast)
		fmt.Sscan(n[2], &o.loans)
	}
	return o
}

// markdown renders the result as a page.
func markdown(t *testing.T, names []string, outcomes map[string][]outcome) string {
	versions := strings.TrimPrefix(goTool(t, "version"), "go version ")
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		versions += ", hone at " + strings.TrimSpace(string(out))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Go's own server tests against http1\n\n")
	fmt.Fprintf(&b, "Compatibility: `net/http/serve_test.go`, run against package http1 by `go test ./internal/servetest -update`: %s.\n\n", versions)
	fmt.Fprintf(&b, "The column events is http1 on Events, and events-tls the same over TLS; tls is net/http over TLS. The [fast path and loans](../../docs/http1.md#what-it-is) are the two ways in which http1\nserves a request.\n\n")
	fmt.Fprintf(&b, "| | net/http | %s |\n|---|---|%s\n", strings.Join(columns[1:], " | "), strings.Repeat("---|", len(columns)-1))
	row := func(what string, has func(outcome) bool) {
		fmt.Fprintf(&b, "| %s |", what)
		for i := range columns {
			n := 0
			for _, name := range names {
				if has(outcomes[name][i]) {
					n++
				}
			}
			fmt.Fprintf(&b, " %d |", n)
		}
		fmt.Fprintln(&b)
	}
	row("pass", func(o outcome) bool { return o.result == passed })
	row("of those, with requests on the fast path", func(o outcome) bool { return o.result == passed && o.fast > 0 })
	row("of those, with loans to net/http only", func(o outcome) bool { return o.result == passed && o.fast == 0 && o.loans > 0 })
	row("skip", func(o outcome) bool { return o.result == skipped })
	row("fail", func(o outcome) bool { return o.result == failed })
	fmt.Fprintf(&b, "\nThe remaining passing tests send no HTTP/1 request to a server, or serve a single connection themselves.\n")
	if len(exceptions) > 0 {
		fmt.Fprintf(&b, "\n## Exceptions\n\n")
		for _, name := range names {
			if e, ok := exceptions[name]; ok {
				fmt.Fprintf(&b, "- **%s** %s.\n", name, e.why)
			}
		}
	}
	fmt.Fprintf(&b, "\n`go test ./internal/servetest -v -args -only Hijack` prints the result of each test whose name matches.\n")
	return b.String()
}

// eachTest renders the result of each test. The numbers are requests on the fast path + loans to net/http.
func eachTest(names []string, outcomes map[string][]outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| test | net/http | %s |\n|---|---|%s\n",
		strings.Join(columns[1:], " | "), strings.Repeat("---|", len(columns)-1))
	for _, name := range names {
		fmt.Fprintf(&b, "| %s | %s |", name, outcomes[name][0].result)
		for _, o := range outcomes[name][1:] {
			if o.fast+o.loans > 0 {
				fmt.Fprintf(&b, " %s, %d + %d |", o.result, o.fast, o.loans)
			} else {
				fmt.Fprintf(&b, " %s |", o.result)
			}
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
