package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// moduleOf makes a folder with these files and returns it.
func moduleOf(t *testing.T, files map[string]string) Tree {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return Tree{Dir: dir}
}

// counting is a package whose BenchmarkAllocs allocates n times. More is further code.
func counting(n, more string) map[string]string {
	return map[string]string{"a/a_test.go": `package a

import "testing"

var kept []byte

func BenchmarkAllocs(b *testing.B) {
	b.Run("deep/er", func(b *testing.B) {
		for b.Loop() {
			for range ` + n + ` {
				kept = make([]byte, 64)
			}
		}
	})
	b.Run("flat", func(b *testing.B) {
		b.SetBytes(1)
		for b.Loop() {
		}
		b.ReportMetric(7, "things/op")
	})
}

func BenchmarkSkipped(b *testing.B) { b.Skip() }
` + more}
}

func shortly(trees ...Tree) Benchmarks {
	return Benchmarks{Trees: trees, Package: "./...", For: time.Millisecond, Design: Design{Samples: 4, MostOthers: 1}}
}

func TestBenchmarksAreMeasuredInPairs(t *testing.T) {
	t.Parallel()
	a, b := moduleOf(t, counting("1", "")), moduleOf(t, counting("3", "\nfunc BenchmarkNew(b *testing.B) {}\n"))
	a.Name, a.Commit = "old", "0123"
	p := shortly(a, b)
	var order []string
	p.Progress = func(now Progress) {
		if now.Benchmark == "Allocs" {
			order = append(order, now.Name[:1])
		}
	}
	runs, notes, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || notes[0] != "BenchmarkNew (example.org/m/a) is only in B, so it is not compared" {
		t.Errorf("notes %q", notes)
	}
	if first := countOf(order, "A", 2); len(order) != 8 || first != 2 {
		t.Errorf("order %v: A is first in %d of 4 pairs", order, first)
	}
	for i, allocs := range []float64{1, 3} {
		run := runs[i]
		if len(run.Samples) != 4 || run.Made != record.GoTest || run.At.IsZero() {
			t.Fatalf("run %d: %+v", i, run)
		}
		var figures []string
		for _, m := range run.Samples[3].Metrics {
			figures = append(figures, m.Name+" "+m.Unit)
			if m.Name == "Allocs/deep/er" && m.Unit == "allocs/op" && m.Value != allocs || m.Unit == "things/op" && m.Value != 7 {
				t.Errorf("run %d: %+v", i, m)
			}
		}
		want := []string{"Allocs/deep/er ns/op", "Allocs/deep/er B/op", "Allocs/deep/er allocs/op", "Allocs/flat ns/op", "Allocs/flat things/op", "Allocs/flat B/op", "Allocs/flat allocs/op"}
		if !slices.Equal(figures, want) {
			t.Errorf("figures %q", figures)
		}
		if run.Samples[3].Pair != 4 || run.Environment.Strict["go"] != runtime.Version() || run.Environment.Strict["GOMAXPROCS"] == "" {
			t.Errorf("run %d: %+v", i, run.Environment)
		}
	}
	if runs[0].Name != "old" || runs[0].Environment.Soft["revision"] != "0123" {
		t.Errorf("%+v", runs[0])
	}
}

// countOf counts what is at the start of each group of that size.
func countOf(all []string, what string, size int) (n int) {
	for i := 0; i < len(all); i += size {
		if all[i] == what {
			n++
		}
	}
	return n
}

// Several packages are told apart by their paths, and only wanted benchmarks run.
func TestBenchmarksOfSeveralPackages(t *testing.T) {
	t.Parallel()
	files := counting("1", "")
	files["b/c/c_test.go"] = "package c\n\nimport \"testing\"\n\nfunc BenchmarkOther(b *testing.B) {}\n\nfunc BenchmarkBroken(b *testing.B) { b.Fatal() }\n"
	files["none/none.go"] = "package none\n"
	p := shortly(moduleOf(t, files))
	p.Bench, p.Samples = "llocs/deep|^BenchmarkO", 1
	runs, _, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range runs[0].Samples[0].Metrics {
		names = append(names, m.Name)
	}
	if names = slices.Compact(names); !slices.Equal(names, []string{"a.Allocs/deep/er", "b/c.Other"}) {
		t.Errorf("%q", names)
	}
}

// Takes that others disturb are kept, retaken as often as allowed, and then it ends.
func TestDisturbedTakesDoNotCount(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what other programs use is not known here")
	}
	p := shortly(moduleOf(t, counting("1", "")), moduleOf(t, counting("1", "")))
	p.Bench, p.For, p.MostOthers, p.Retakes = "Allocs/flat", 50*time.Millisecond, -1, 2
	runs, _, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if len(run.Samples) != 3 {
			t.Fatalf("%d samples", len(run.Samples))
		}
		for i, s := range run.Samples {
			if s.Valid || len(s.Reasons) == 0 || s.Pair != 5+i {
				t.Errorf("sample %d: %+v", i, s)
			}
		}
	}
}

func TestBenchmarksThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	good := moduleOf(t, counting("1", ""))
	for name, c := range map[string]struct {
		change func(*Benchmarks)
		want   string
	}{
		"no such":       {func(p *Benchmarks) { p.Bench = "Nope" }, "no benchmark of ./... matches --bench \"Nope\"; list them: go test -list '^Benchmark' ./..."},
		"no pattern":    {func(p *Benchmarks) { p.Bench = "a/[" }, `--bench "a/[" is no pattern: `},
		"no package":    {func(p *Benchmarks) { p.Package = "./nope" }, "finding ./nope for the package: exit status 1: "},
		"a flag":        {func(p *Benchmarks) { p.Package = "-exec=rm" }, `"-exec=rm" is not a package; `},
		"only skipped":  {func(p *Benchmarks) { p.Bench = "Skipped" }, "no benchmark printed a result; run one by hand: go test -run '^$' -bench '^BenchmarkSkipped$' example.org/m/a"},
		"does not link": {func(p *Benchmarks) { p.Trees = []Tree{moduleOf(t, counting("x", ""))} }, "building example.org/m/a for the package: exit status 1: "},
		"fails": {func(p *Benchmarks) {
			p.Trees[0] = moduleOf(t, counting("1", "\nfunc BenchmarkBad(b *testing.B) { b.Fatal(\"sorry\") }\n"))
		}, "BenchmarkBad of the package failed: exit status 1: --- FAIL: BenchmarkBad"},
		"only in one": {func(p *Benchmarks) {
			p.Trees, p.Bench = []Tree{good, moduleOf(t, counting("1", "\nfunc BenchmarkNew(b *testing.B) {}\n"))}, "New"
		}, "no benchmark is in both revisions: BenchmarkNew (example.org/m/a) is only in B, so it is not compared; measure it without --revision"},
	} {
		t.Run(name, func(t *testing.T) {
			p := shortly(good)
			c.change(&p)
			runs, _, err := p.Run(t.Context())
			text := fmt.Sprint(err)
			if err == nil || !strings.HasPrefix(text, c.want) || !strings.Contains(text, "; ") || runs != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// What was measured until the end of the context is returned.
func TestInterruptedBenchmarks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := shortly(moduleOf(t, counting("1", "")))
	p.Progress = func(now Progress) {
		if now.Number == 2 && now.Benchmark == "Skipped" {
			cancel()
		}
	}
	runs, _, err := p.Run(ctx)
	if !errors.Is(err, context.Canceled) || len(runs) != 1 || len(runs[0].Samples) != 1 {
		t.Errorf("%v, %+v", err, runs)
	}
}

// A pattern chooses what go test -bench chooses.
func TestBenchPattern(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]map[string]string{
		"":                  {"BenchmarkA": "^BenchmarkA$"},
		".":                 {"BenchmarkA": "^BenchmarkA$"},
		"kA/x|kB/y/z|AB":    {"BenchmarkA": "^BenchmarkA$/x", "BenchmarkB": "^BenchmarkB$/y/z", "BenchmarkAB": "^BenchmarkAB$/x|^BenchmarkAB$", "BenchmarkC": ""},
		"(A|B)/[/|]/(x|/)y": {"BenchmarkA": "^BenchmarkA$/[/|]/(x|/)y"},
		`A\/b`:              {"BenchmarkA": ""},
	} {
		filter, err := parseBench(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range want {
			if got := filter.of(name); got != want {
				t.Errorf("%q, %s: %q, want %q", pattern, name, got, want)
			}
		}
	}
}

func TestWorkingTree(t *testing.T) {
	t.Parallel()
	tree := moduleOf(t, counting("1", ""))
	if got := WorkingTree(t.Context(), tree.Dir); got != tree {
		t.Errorf("without git: %+v", got)
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		cmd.Dir = tree.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt", "not built")
	if got := WorkingTree(t.Context(), filepath.Join(tree.Dir, "a")); len(got.Commit) != 40 || got.Modified {
		t.Errorf("%+v", got)
	}
	write("a/new_test.go", "package a")
	if got := WorkingTree(t.Context(), tree.Dir); !got.Modified {
		t.Errorf("with a new file: %+v", got)
	}
}
