package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/perf/benchfmt"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/record"
)

// testPackage is a package with a built test program.
type testPackage struct {
	path    string // its import path
	dir     string // its source folder, where its tests expect to run
	program string
	names   []string // of its benchmarks that --bench chooses
}

// prepare builds the test programs and finds the benchmarks that all sides have. The notes say
// which ones only one has.
func (t *goTest) prepare(ctx context.Context) (notes []string, err error) {
	wanted, err := parseBench(t.plan.Bench)
	if err != nil {
		return nil, err
	}
	for i, side := range t.sides {
		if err := t.build(ctx, i, side, wanted); err != nil {
			return nil, err
		}
	}
	found := map[string]bool{}
	for i, side := range t.sides {
		other := t.sides[len(t.sides)-1-i]
		for _, p := range side.packages {
			partner := other.find(p.path)
			for _, name := range p.names {
				key := p.path + " " + name
				switch {
				case found[key]:
				case partner == nil || !slices.Contains(partner.names, name):
					notes = append(notes, fmt.Sprintf("%s (%s) is only in %s, so it is not compared", name, p.path, side.label))
				default:
					found[key] = true
					t.benchmarks = append(t.benchmarks, &benchmark{name: name, filter: wanted.of(name), programs: t.programsOf(p.path)})
				}
			}
		}
	}
	if len(t.benchmarks) == 0 {
		return nil, t.nothing(notes)
	}
	t.label()
	for i, side := range t.sides {
		if side.run.Environment, err = t.environment(i); err != nil {
			return nil, fmt.Errorf("trial: %w", err)
		}
	}
	return notes, nil
}

// nothing is the error that no benchmark can be measured.
func (t *goTest) nothing(notes []string) error {
	if len(notes) > 0 {
		return fmt.Errorf("no benchmark is in both revisions: %s; measure it without --revision", notes[0])
	}
	return fmt.Errorf("no benchmark of %s matches --bench %q; list them: go test -list '^Benchmark' %[1]s", t.plan.Package, t.plan.Bench)
}

func (s *treeSide) find(importPath string) *testPackage {
	for _, p := range s.packages {
		if p.path == importPath {
			return p
		}
	}
	return nil
}

func (t *goTest) programsOf(importPath string) (all []*testPackage) {
	for _, side := range t.sides {
		all = append(all, side.find(importPath))
	}
	return all
}

// label names the benchmarks as figures: with as much of the package's path as tells several
// packages apart.
func (t *goTest) label() {
	first := t.benchmarks[0].programs[0].path
	common, several := path.Dir(first)+"/", false
	for _, b := range t.benchmarks {
		p := b.programs[0].path
		several = several || p != first
		for !strings.HasPrefix(p, common) {
			common = path.Dir(strings.TrimSuffix(common, "/")) + "/"
			if common == "./" {
				common = ""
			}
		}
	}
	for _, b := range t.benchmarks {
		if b.label = strings.TrimPrefix(b.name, "Benchmark"); several {
			b.label = strings.TrimPrefix(b.programs[0].path, common) + "." + b.label
		}
	}
}

const examplePackages = "./codec or ./..."

// build builds the side's packages and lists their benchmarks.
func (t *goTest) build(ctx context.Context, number int, side *treeSide, wanted benchFilter) error {
	t.say(Progress{Side: number, Name: side.label})
	if t.plan.Package == "" || strings.HasPrefix(t.plan.Package, "-") {
		return fmt.Errorf("%q is not a package; name it as in %s", t.plan.Package, examplePackages)
	}
	listed, err := output(ctx, side.Dir, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}", t.plan.Package)
	if err != nil {
		return t.unbuilt(ctx, side, "finding "+t.plan.Package, "name a package that both revisions have, as in "+examplePackages, err)
	}
	for line := range strings.Lines(listed) {
		importPath, dir, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue // what the go command says beside
		}
		p := &testPackage{path: importPath, dir: dir, program: t.programPath(number, len(side.packages))}
		if _, err := output(ctx, side.Dir, "go", "test", "-c", "-o", p.program, importPath); err != nil {
			return t.unbuilt(ctx, side, "building "+importPath, "make its tests build there: go test -c "+importPath, err)
		}
		side.packages = append(side.packages, p)
		if _, err := os.Stat(p.program); err != nil {
			continue // all its tests are for other platforms
		}
		names, err := t.execute(ctx, p, "-test.list=^Benchmark")
		if err != nil {
			return t.unbuilt(ctx, side, "listing the benchmarks of "+importPath, "run it by hand: go test -list ^Benchmark "+importPath, err)
		}
		for name := range strings.Lines(names) {
			if name = strings.TrimSpace(name); strings.HasPrefix(name, "Benchmark") && !strings.ContainsAny(name, " \t") && wanted.of(name) != "" {
				p.names = append(p.names, name)
			}
		}
	}
	return nil
}

func (t *goTest) unbuilt(ctx context.Context, side *treeSide, doing, try string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s for %s: %w; %s", doing, side.label, err, try)
}

// output runs a program to its end and returns all that it wrote. If it fails, the error has it.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var mu sync.Mutex // there are two streams
	var text strings.Builder
	process, err := child.Start(cmd, child.Options{Signal: true, Said: func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		text.Write(line)
		text.WriteByte('\n')
	}})
	if err != nil {
		return "", err
	}
	defer process.Stop()
	if err := process.How(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said(process))
	}
	mu.Lock()
	defer mu.Unlock()
	return text.String(), nil
}

// metricsOf reads the figures of a take: one name per sub-benchmark, without the number of CPUs.
// MB/s is left out: it is ns/op once more.
func metricsOf(out string, b *benchmark, cpus int) (metrics []record.Metric, err error) {
	reader := benchfmt.NewReader(strings.NewReader(out), b.name)
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // a line that only begins like one
		}
		name := "Benchmark" + strings.TrimPrefix(result.Name.String(), "Benchmark")
		if cpus > 1 {
			name = strings.TrimSuffix(name, "-"+strconv.Itoa(cpus))
		}
		rest, found := strings.CutPrefix(name, b.name)
		if !found {
			continue
		}
		for _, v := range result.Values {
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" {
				value, unit = v.OrigValue, v.OrigUnit
			}
			if unit != "MB/s" {
				metrics = append(metrics, record.Metric{Name: b.label + rest, Unit: unit, Better: record.BetterOf(reader.Units(), unit), Value: value})
			}
		}
	}
	return metrics, reader.Err()
}

// benchFilter is a --bench: alternatives of elements, the first for a benchmark's name, the
// others for its sub-benchmarks, as go test -bench defines it.
type benchFilter []benchAlternative

type benchAlternative struct {
	name *regexp.Regexp
	rest string // "" or "/" and the elements for sub-benchmarks
}

func parseBench(text string) (filter benchFilter, err error) {
	for _, alternative := range splitOutside(text, '|') {
		elements := splitOutside(alternative, '/')
		var wrong error
		for _, e := range elements {
			_, err := regexp.Compile(e)
			wrong = errors.Join(wrong, err)
		}
		if wrong != nil {
			return nil, fmt.Errorf("--bench %q is no pattern: %w; write it as for go test -bench, as in 'Encode|Decode/small'", text, wrong)
		}
		filter = append(filter, benchAlternative{regexp.MustCompile(elements[0]), strings.TrimPrefix(alternative, elements[0])})
	}
	return filter, nil
}

// of returns the -test.bench for one benchmark. Empty: it is not wanted.
func (f benchFilter) of(name string) string {
	var parts []string
	for _, a := range f {
		if a.name.MatchString(name) {
			parts = append(parts, "^"+name+"$"+a.rest)
		}
	}
	return strings.Join(parts, "|")
}

// splitOutside splits a regular expression at a separator that is not in brackets, parentheses or
// after a backslash.
func splitOutside(text string, separator byte) (parts []string) {
	start, depth, class := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == separator && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}
