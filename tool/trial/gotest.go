package trial

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/record"
)

// Benchmarks are Go benchmarks to measure. Trees and Package are required. Each tree's test
// programs are built once. A take of a benchmark is one fresh process that runs only it; those
// of A and B follow each other, A first in half of the pairs.
type Benchmarks struct {
	Trees   []Tree // one, or two to compare: A and B
	Package string // as in go test: ./codec, or a pattern as ./...
	Bench   string // as go test -bench; zero: all
	// For is how long a take runs its benchmark, as go test -benchtime. Zero: 500 ms.
	For time.Duration
	Design
}

// Tree is source code to measure.
type Tree struct {
	Name     string // for display; becomes the Run's
	Dir      string // working folder; zero: the current one
	Commit   string // stored with the run; zero: unknown
	Modified bool   // whether files differ from Commit
}

const longestTake = 10 * time.Minute // as go test

// Run takes the samples and returns a run per tree, in the trees' order, and what is worth
// knowing beside them, as which benchmarks only one of them has. Sample number n of a run holds
// the nth valid take of every benchmark; invalid takes are samples of their own.
//
// An error of one line explains why it could not go on. When ctx ends, Run returns its error and
// what was taken until then, in whole samples.
func (p Benchmarks) Run(ctx context.Context) (runs []*record.Run, notes []string, err error) {
	t, err := p.begin()
	if err != nil {
		return nil, nil, err
	}
	defer t.end()
	if notes, err = t.prepare(ctx); err != nil {
		return nil, nil, err
	}
	err = t.rounds(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, nil, err
	}
	return t.sampled(), notes, ctx.Err()
}

// goTest is a running measurement of Benchmarks.
type goTest struct {
	plan        Benchmarks
	sides       []*treeSide
	benchmarks  []*benchmark // that all sides have
	cpus        int          // GOMAXPROCS of every take
	pairs       int          // ids given to pairs so far
	measurement              // its folder has the test programs
}

// treeSide is a tree during a measurement.
type treeSide struct {
	Tree
	label    string // in messages
	packages []*testPackage
	run      *record.Run
}

// benchmark is a top-level benchmark.
type benchmark struct {
	name     string // as in BenchmarkEncode
	label    string // as in Encode, or codec.Encode where several packages are measured
	filter   string // the -test.bench that runs it, with the wanted sub-benchmarks
	programs []*testPackage
	reversed []bool // by sample: whether B is first
	retaken  int
}

func (p Benchmarks) begin() (*goTest, error) {
	if len(p.Trees) == 0 || len(p.Trees) > 2 {
		return nil, fmt.Errorf("trial: %d trees; give one, or two to compare", len(p.Trees))
	}
	p.For = cmp.Or(p.For, UsualTake)
	t := &goTest{plan: p, cpus: runtime.GOMAXPROCS(0)}
	if err := t.begin(&t.plan.Design, "hone-gotest", BenchmarkSamples); err != nil {
		return nil, err
	}
	t.pairs = t.plan.Samples
	for i, tree := range p.Trees {
		side := &treeSide{Tree: tree, label: "the package"}
		if len(p.Trees) > 1 {
			side.label = Label(i, tree.Name)
		}
		side.run = t.add(record.GoTest, tree.Name)
		t.sides = append(t.sides, side)
	}
	return t, nil
}

// rounds takes every benchmark once per round, so that the pairs of each are spread over the
// whole time, and ends early if too many takes of one are not valid.
func (t *goTest) rounds(ctx context.Context) error {
	t.began = time.Now().UTC()
	t.planned = t.plan.Samples * len(t.benchmarks) * len(t.sides)
	for _, b := range t.benchmarks {
		b.reversed = halfOf(t.plan.Samples, t.random)
	}
	for round := range t.plan.Samples {
		samples := t.samples(round + 1)
		for _, b := range t.benchmarks {
			if ok, err := t.pair(ctx, b, round, samples); err != nil || !ok {
				return err
			}
		}
		if !slices.ContainsFunc(samples, func(s record.Sample) bool { return len(s.Metrics) > 0 }) {
			return fmt.Errorf("no benchmark printed a result; run one by hand: go test -run '^$' -bench '%s' %s", t.benchmarks[0].filter, t.benchmarks[0].programs[0].path)
		}
		t.keep(samples)
	}
	return nil
}

// samples returns an empty sample per side.
func (t *goTest) samples(pair int) []record.Sample {
	samples := make([]record.Sample, len(t.sides))
	for i := range samples {
		samples[i] = record.Sample{Order: t.taken + i + 1, At: time.Now().UTC(), Valid: true}
		if len(t.sides) > 1 {
			samples[i].Pair = pair
		}
	}
	return samples
}

// pair adds a valid take of each side to samples. It is false if there have been too many others.
func (t *goTest) pair(ctx context.Context, b *benchmark, round int, samples []record.Sample) (bool, error) {
	for {
		taken, valid, err := t.turn(t.pairs+1, b.reversed[round], func(side int) (*record.Sample, error) {
			t.say(Progress{Side: side, Name: t.sides[side].label, Number: round + 1, Of: t.plan.Samples, Benchmark: b.label})
			return t.take(ctx, b, side)
		})
		if err != nil {
			return false, err
		}
		if valid {
			for i := range samples {
				samples[i].Metrics = append(samples[i].Metrics, taken[i].Metrics...)
			}
			return true, nil
		}
		t.pairs++
		for i := range taken {
			if s := &taken[i]; s.Valid {
				s.Valid, s.Unfit, s.Reasons = false, record.Disturbed, []string{"the other take of its pair is not valid"}
			}
		}
		t.keep(taken)
		if !t.again(&b.retaken) {
			return false, nil
		}
	}
}

// take runs the benchmark in a fresh process; its sample has no figures if it skips itself.
func (t *goTest) take(ctx context.Context, b *benchmark, side int) (*record.Sample, error) {
	sample := &record.Sample{At: time.Now().UTC(), Valid: true}
	before := machine.Measure()
	out, err := t.execute(ctx, b.programs[side], "-test.bench="+b.filter, "-test.benchmem",
		"-test.benchtime="+t.plan.For.String(), "-test.count=1", "-test.timeout="+longestTake.String())
	after := machine.Measure()
	if err != nil {
		return nil, t.failed(ctx, b, side, err)
	}
	if t.plan.MostOthers < 1 {
		spoil(sample, disturbed(before.Between(after), t.plan.MostOthers))
	}
	if sample.Metrics, err = metricsOf(out, b, t.cpus); err != nil {
		return nil, t.failed(ctx, b, side, err)
	}
	return sample, nil
}

func (t *goTest) failed(ctx context.Context, b *benchmark, side int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s of %s failed: %w; run it by hand: go test -run '^$' -bench '%s' %s; or leave it out with --bench",
		b.name, t.sides[side].label, err, b.filter, b.programs[side].path)
}

// execute runs a test program without tests in its package's folder and returns its output.
func (t *goTest) execute(ctx context.Context, p *testPackage, args ...string) (string, error) {
	args = append([]string{"-test.run=^$", "-test.cpu=" + strconv.Itoa(t.cpus)}, args...)
	return output(ctx, p.dir, p.program, args...)
}

// environment is what the figures of a side depend on besides its code.
func (t *goTest) environment(number int) (record.Environment, error) {
	facts := machine.Read()
	e := record.Environment{Strict: facts.Strict, Soft: facts.Soft}
	noteVariables(e, os.Environ())
	e.Strict["GOMAXPROCS"] = strconv.Itoa(t.cpus)
	program, err := machine.Program(t.benchmarks[0].programs[number].program)
	if err != nil {
		return e, err
	}
	delete(program.Soft, "sha256") // of one program among several
	maps.Copy(e.Strict, program.Strict)
	maps.Copy(e.Soft, program.Soft)
	if side := t.sides[number]; side.Commit != "" {
		e.Soft["revision"], e.Soft["modified"] = side.Commit, strconv.FormatBool(side.Modified)
	}
	return e, nil
}

// programPath is where the test program of a package is built.
func (t *goTest) programPath(side, number int) string {
	return filepath.Join(t.folder, fmt.Sprintf("%c%d.test", 'A'+side, number))
}
