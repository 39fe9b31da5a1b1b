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
	"strconv"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/record"
)

// printing is a plan of commands that print these lines of benchmarks.
func printing(t *testing.T, outputs ...string) Plan {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for sh")
	}
	p := Plan{Samples: 4, MaxOthers: 1}
	for i, text := range outputs {
		file := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Servers = append(p.Servers, Server{Name: "x" + strconv.Itoa(i), Command: "cat " + file})
	}
	return p
}

// figuresOf returns the names and units of the first sample.
func figuresOf(run *record.Run) (names []string) {
	for _, m := range run.Samples[0].Metrics {
		names = append(names, m.Name+" "+m.Unit)
	}
	return names
}

func TestPrintedBenchmarks(t *testing.T) {
	t.Parallel()
	cpus := ""
	if n := runtime.GOMAXPROCS(0); n > 1 {
		cpus = "-" + strconv.Itoa(n)
	}
	text := "goos: x\npkg: example.org/m/a\nBenchmarkSkipped" + cpus + "\nBenchmarkAllocs/deep/er-64" + cpus + " 10 5 ns/op 20 MB/s 7 things/op 64 B/op N allocs/op\nBenchmark is a word\nPASS\n"
	p := printing(t, strings.Replace(text, "N", "1", 1), strings.Replace(text, "N", "3", 1))
	var order []string
	p.Progress = func(now Progress) { order = append(order, now.String()[len("sample 1 of 8: "):][:1]) }
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for i := 0; i < len(order); i += 2 {
		if order[i] == "A" {
			first++
		}
	}
	if len(order) != 8 || first != 2 {
		t.Errorf("order %v: A is first in %d of 4 pairs", order, first)
	}
	for i, allocs := range []float64{1, 3} {
		run := runs[i]
		if want := []string{"Allocs/deep/er-64 ns/op", "Allocs/deep/er-64 things/op", "Allocs/deep/er-64 B/op", "Allocs/deep/er-64 allocs/op"}; !slices.Equal(figuresOf(run), want) {
			t.Errorf("figures %q", figuresOf(run))
		}
		if s := run.Samples[3]; len(run.Samples) != 4 || run.Made != record.Printed || s.Pair != 4 || s.Metrics[3].Value != allocs || s.Metrics[0].Value != 5 {
			t.Errorf("run %d: %+v", i, run)
		}
		if e := run.Environment; e.Strict["GOMAXPROCS"] == "" || e.Strict["topology"] != "" || e.Soft["sha256"] != "" || e.Soft["command"] == "" {
			t.Errorf("run %d: %+v", i, e)
		}
	}
}

// Several packages are told apart by their paths.
func TestPrintedBenchmarksOfSeveralPackages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pkg: m/a\nBenchmarkX 1 1 ns/op\npkg: m/b/c\nBenchmarkX 1 1 ns/op\n": "a.X ns/op b/c.X ns/op",
		"pkg: m\nBenchmarkX 1 1 ns/op\npkg: m/b\nBenchmarkX 1 1 ns/op\n":     "X ns/op b.X ns/op",
		"pkg: a\nBenchmarkX 1 1 ns/op\npkg: b\nBenchmarkX 1 1 ns/op\n":       "a.X ns/op b.X ns/op",
		"pkg: ab\nBenchmarkX 1 1 ns/op\npkg: abc\nBenchmarkX 1 1 ns/op\n":    "ab.X ns/op abc.X ns/op",
	} {
		runs, err := Run(t.Context(), printing(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(figuresOf(runs[0]), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Samples that others disturb are kept, retaken as often as allowed, and then it ends.
func TestDisturbedPrintingDoesNotCount(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what other programs use is not known here")
	}
	p := printing(t, "BenchmarkX 1 1 ns/op\n", "BenchmarkX 1 1 ns/op\n")
	for i := range p.Servers {
		p.Servers[i].Command = "sleep 0.05; " + p.Servers[i].Command
	}
	p.MaxOthers, p.Retakes = -1, 2
	runs, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if len(run.Samples) != 3 {
			t.Fatalf("%d samples", len(run.Samples))
		}
		for i, s := range run.Samples {
			if s.Valid || len(s.Reasons) == 0 || s.Pair != 1+i {
				t.Errorf("sample %d: %+v", i, s)
			}
		}
	}
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"echo hello":          "the command printed no benchmark: without --target, ",
		"echo sorry; exit 3":  "the command failed: exit status 3: sorry; run it by hand",
		"cat $TWICE":          "the command printed X twice, and a sample has one of each; leave -count out",
		"nothing-of-the-kind": "the command failed: exit status 127: ",
	} {
		p := printing(t, "BenchmarkX 1 1 ns/op\nBenchmarkX 1 1 ns/op\n")
		_, file, _ := strings.Cut(p.Servers[0].Command, " ")
		p.Servers[0].Command, p.Servers[0].Env = command, []string{"TWICE=" + file}
		runs, err := Run(t.Context(), p)
		if said := fmt.Sprint(err); !strings.HasPrefix(said, want) || runs != nil {
			t.Errorf("%s: %s", command, said)
		}
	}
}

// What was measured until the end of the context is returned.
func TestInterruptedPrinting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := printing(t, "BenchmarkX 1 1 ns/op\n")
	p.Progress = func(now Progress) {
		if now.Number == 2 {
			cancel()
		}
	}
	if runs, err := Run(ctx, p); !errors.Is(err, context.Canceled) || len(runs) != 1 || len(runs[0].Samples) != 1 {
		t.Errorf("%v, %+v", err, runs)
	}
}

// The commit of the code, and whether files that are built differ from it, belong to the run.
func TestPrintedCommit(t *testing.T) {
	t.Parallel()
	p := printing(t, "BenchmarkX 1 1 ns/op\n")
	dir := t.TempDir()
	p.Servers[0].Dir, p.Samples = dir, 1
	for _, step := range []struct{ command, modified string }{
		{"true", ""},
		{"git init -q && mkdir a && touch a/a.go && git add . && git -c user.name=x -c user.email=x@example.org commit -q -m one && touch notes.txt", "false"},
		{"touch a/b.go", "true"},
	} {
		cmd := exec.Command("sh", "-c", step.command)
		if cmd.Dir = dir; cmd.Run() != nil {
			t.Skip("needs git")
		}
		runs, err := Run(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if soft := runs[0].Environment.Soft; soft["modified"] != step.modified || (len(soft["revision"]) == 40) != (step.modified != "") {
			t.Errorf("%s: %v", step.command, soft)
		}
	}
}
