// Command instructions counts the user instructions that a request costs a server, and
// compares two revisions of hone:
//
//	go run ./bench/instructions                              the working tree with a4fc546
//	go run ./bench/instructions -base eb1d179 -rev a4fc546   two revisions
//	go run ./bench/instructions -functions 20                and where the difference is
//
// valgrind's cachegrind counts, which works without the processor's own counters and sees
// nothing of the kernel or of other programs. Each server runs alone under it: the same
// program, compiled against each revision, with one processor and without
// garbage collection. The client is this process. It serves each shape n and 2n requests,
// and the difference divided by n is the result, so that start-up does not count.
//
// A server is some fifty times slower under valgrind, but its timers are not. What they
// start (the watchdog, the scheduler) is most of the spread of the whole count. The count
// without functions of package runtime hardly varies.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/tool/trial"
)

// options are the command's flags.
type options struct {
	base, rev, shapes, engine string
	rounds, functions         int
}

func main() {
	var o options
	flag.StringVar(&o.base, "base", "a4fc546", "compare with this git `revision`")
	flag.StringVar(&o.rev, "rev", "", "count this git `revision` (default: the working tree)")
	flag.StringVar(&o.shapes, "shapes", "", "count the shapes whose name matches this `regexp` (default: all)")
	flag.StringVar(&o.engine, "engine", "events", "serve with the engine `name`")
	flag.IntVar(&o.rounds, "rounds", 5, "count each shape `n` times on each side")
	flag.IntVar(&o.functions, "functions", 0, "print the `n` functions that differ most")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// side is a revision with its programs.
type side struct {
	name string
	hone string // the library's folder
	dir  string // of the programs
}

// run counts all shapes on both sides, alternately, and prints the table.
func run(ctx context.Context, o options, out io.Writer) error {
	wanted, err := regexp.Compile(o.shapes)
	if err != nil {
		return fmt.Errorf("-shapes: %w", err)
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		return errors.New("valgrind is not here, which counts; install it (apt-get install valgrind)")
	}
	module, err := fleet.Module(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hone-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var sides [2]side
	for i, rev := range []string{o.base, o.rev} {
		sides[i] = side{name: "working tree", hone: filepath.Dir(module), dir: filepath.Join(dir, fmt.Sprint(i))}
		if rev != "" {
			checkout, err := trial.Checkout(ctx, filepath.Dir(module), rev)
			if err != nil {
				return err
			}
			defer checkout.Remove()
			sides[i].name, sides[i].hone = checkout.Name, checkout.Dir
		}
	}
	todo := slices.DeleteFunc(shapes(), func(s shape) bool { return !wanted.MatchString(s.name) })
	todo = slices.DeleteFunc(todo, func(s shape) bool {
		missing := slices.ContainsFunc(sides[:], func(d side) bool { return !s.buildsWith(d.hone) })
		if missing {
			fmt.Fprintf(out, "%s: left out, since one of the revisions has no package %s\n", s.name, s.library)
		}
		return missing
	})
	for _, d := range sides {
		if err := build(ctx, module, d, todo); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	fmt.Fprintf(out, row, "shape", "revision", "instructions/request", "ratio", "without the runtime", "ratio")
	for _, s := range todo {
		counts, err := count(ctx, s, sides, o)
		if err != nil {
			return err
		}
		counts.print(out, s.name, sides)
		if o.functions > 0 {
			counts.printFunctions(out, o.functions)
		}
	}
	return nil
}

// build compiles the programs of all shapes for one side.
func build(ctx context.Context, module string, d side, todo []shape) error {
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return err
	}
	var packages []string
	for _, s := range todo {
		if pkg := "./" + s.program; !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if packages == nil {
		return errors.New("there is nothing to count; give -shapes that match some")
	}
	return compile(ctx, module, d, packages)
}

// compile compiles packages of the module bench against a side's library.
func compile(ctx context.Context, module string, d side, packages []string) error {
	if d.hone == "" {
		return fleet.Compile(ctx, module, d.dir, packages...)
	}
	own, err := os.MkdirTemp("", "hone-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(own, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	file := filepath.Join(own, "go.mod")
	for _, args := range [][]string{
		{"mod", "edit", "-replace", "github.com/hone-go/hone=" + d.hone, file},
		append([]string{"build", "-trimpath", "-modfile", file, "-o", d.dir + string(filepath.Separator)}, packages...),
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off") // a workspace may choose other versions than go.mod
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// counts are the costs of a shape's requests: for each side, one profile a round.
type counts [2][]profile

// count runs a shape's rounds.
func count(ctx context.Context, s shape, sides [2]side, o options) (all counts, err error) {
	for round := range o.rounds {
		for i := range sides {
			i = (i + round) % 2 // each is first in every other round
			p, err := s.count(ctx, sides[i].dir, o.engine)
			if err != nil {
				return all, fmt.Errorf("%s, %s: %w", sides[i].name, s.name, err)
			}
			all[i] = append(all[i], p)
		}
	}
	return all, nil
}

// row is a line of the table.
const row = "%-21s  %-18s  %-24s  %-22s  %-24s  %s\n"

// print prints a line for each side. Ratios are paired by round.
func (c counts) print(out io.Writer, name string, sides [2]side) {
	for i, d := range sides {
		cells := []any{name, d.name}
		for _, of := range []func(profile) float64{profile.total, profile.withoutRuntime} {
			var each, ratios []float64
			for round, p := range c[i] {
				each = append(each, of(p))
				ratios = append(ratios, of(p)/of(c[0][round]))
			}
			cells = append(cells, spread(each, "%.1f"), spread(ratios, "%.4f"))
		}
		fmt.Fprintf(out, row, cells...)
	}
}

// printFunctions prints what each function costs a request on either side, those that differ
// most first. A function with another name is another one.
func (c counts) printFunctions(out io.Writer, most int) {
	costs := make(map[string][2]float64)
	for i, rounds := range c {
		for _, p := range rounds {
			for name, cost := range p {
				both := costs[name]
				both[i] += cost / float64(len(rounds))
				costs[name] = both
			}
		}
	}
	var names []string
	for name := range costs {
		names = append(names, name)
	}
	differs := func(name string) float64 { return max(costs[name][1]-costs[name][0], costs[name][0]-costs[name][1]) }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(differs(b), differs(a)), cmp.Compare(a, b)) })
	for _, name := range names[:min(most, len(names))] {
		both := costs[name]
		fmt.Fprintf(out, "%10.1f %10.1f %+10.1f  %s\n", both[0], both[1], both[1]-both[0], name)
	}
}

// spread is a median, with minimum and maximum.
func spread(of []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", table.Middle(of), slices.Min(of), slices.Max(of))
}
