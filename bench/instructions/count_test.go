package main

import (
	"maps"
	"os/exec"
	"path"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/internal/testrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// programs builds the servers of all shapes.
func programs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := fleet.Compile(t.Context(), "..", dir, "./servers/hone", "./servers/http1", "./servers/ws"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAsk asks servers that run as usual.
func TestAsk(t *testing.T) {
	dir := programs(t)
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			server, err := fleet.Start(t.Context(), dir, fleet.Entry{Server: table.Server{Program: path.Base(s.program)}}, fleet.How{CPU: fleet.AnyCPU, Loops: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			if err := s.ask(t.Context(), server.Addr, 3); err != nil {
				t.Error(err)
			}
			other := shape{request: []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), conns: 1, depth: 1}
			if err := other.ask(t.Context(), server.Addr, 1); err == nil {
				t.Error("what is not found counts as an answer")
			}
		})
	}
}

// TestCount counts twice.
func TestCount(t *testing.T) {
	if _, err := exec.LookPath("valgrind"); err != nil {
		testrun.Lacks(t, "no valgrind; apt-get install valgrind")
	}
	dir := programs(t)
	s := shape{"few", "servers/hone", "framed", []byte("sixteen letters."), 20, 4, 50, ""}
	var costs [2]float64
	for i := range costs {
		p, err := s.count(t.Context(), dir, "events")
		if err != nil {
			t.Fatal(err)
		}
		costs[i] = p.withoutRuntime()
	}
	if ratio := costs[1] / costs[0]; costs[0] < 200 || costs[0] > 5000 || ratio < 0.8 || ratio > 1.25 {
		t.Errorf("%.1f instructions a request, and then %.1f", costs[0], costs[1])
	}
}

const counted = `desc: I1 cache: 32768 B, 64 B, 8-way associative
cmd: ./hone --loops 1
events: Ir
fl=/go/src/runtime/proc.go
fn=runtime.schedule
1 100
2 11
fl=/a folder/engine/steps.go
fn=engine.(*connRef).serve
10 5
fl=/a folder/engine/lifecycle.go
fn=engine.(*connRef).serve
12 7
summary: 123
`

func TestParseProfile(t *testing.T) {
	p, err := parseProfile([]byte(counted))
	if err != nil || !maps.Equal(p, profile{"runtime.schedule": 111, "engine.(*connRef).serve": 12}) || p.total() != 123 || p.withoutRuntime() != 12 {
		t.Errorf("%v, %v", p, err)
	}
	for name, bad := range map[string]string{
		"another sum": strings.Replace(counted, "summary: 123", "summary: 124", 1),
		"no end":      strings.Replace(counted, "summary: 123", "", 1),
	} {
		if p, err := parseProfile([]byte(bad)); err == nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func TestPrint(t *testing.T) {
	var c counts
	for _, cost := range []float64{100, 300, 200} { // the other side costs half as much more
		c[0] = append(c[0], profile{"engine.same": cost, "engine.old": 1})
		c[1] = append(c[1], profile{"engine.same": 1.5 * cost, "engine.new": 1})
	}
	var out strings.Builder
	c.print(&out, "shape", [2]side{{name: "old"}, {name: "new"}})
	c.printFunctions(&out, 2)
	for _, want := range []string{"201.0 (101.0–301.0)", "301.0 (151.0–451.0)", "1.4975 (1.4950–1.4983)", "200.0      300.0     +100.0  engine.same", "+1.0  engine.new"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}
