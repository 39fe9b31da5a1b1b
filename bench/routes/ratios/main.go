// Ratios measures the contests and prints for each hone's median and hone's ratio to the others:
// of the medians, and in brackets from the best to the worst run of the same number.
//
//	go run ./bench/routes/ratios
//
// The routers take turns of a third of a millisecond, which a busy machine disturbs less than
// whole benchmarks, and a run is the median of its turns.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/routes"
)

// counts is how many runs are measured.
const counts = 10

func main() {
	only := flag.String("only", "", "measure the contests whose name contains this `text`")
	flag.Parse()
	if err := run(*only, counts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

// run measures the contests that have a text in their names.
func run(only string, counts int, stdout io.Writer) error {
	whole, end, err := routes.Whole()
	if err != nil {
		return err
	}
	defer end()
	t := table{ns: make(map[string]map[string][]float64)}
	for _, c := range append(routes.Contests(), whole) {
		if strings.Contains(c.Name, only) {
			c.Measure(counts, func(router string, ns float64) { t.add(c.Name, router, ns) })
		}
	}
	if len(t.benchmarks) == 0 {
		return errors.New("nothing to show; give an -only that contests have in their names")
	}
	t.print(stdout)
	return nil
}

// A table has the ns of each run by benchmark and router.
type table struct {
	benchmarks, routers []string // in the order of their first lines
	ns                  map[string]map[string][]float64
}

func (t *table) add(benchmark, router string, ns float64) {
	if t.ns[benchmark] == nil {
		t.benchmarks = append(t.benchmarks, benchmark)
		t.ns[benchmark] = make(map[string][]float64)
	}
	if !slices.Contains(t.routers, router) {
		t.routers = append(t.routers, router)
	}
	t.ns[benchmark][router] = append(t.ns[benchmark][router], ns)
}

func (t *table) print(w io.Writer) {
	others := slices.DeleteFunc(slices.Clone(t.routers), func(name string) bool { return name == "hone" })
	fmt.Fprintf(w, "| ns, and hone's ratio to | hone | %s |\n|---|---%s|\n", strings.Join(others, " | "), strings.Repeat("|---", len(others)))
	for _, benchmark := range t.benchmarks {
		mine := t.ns[benchmark]["hone"]
		if len(mine) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %.4g", benchmark, median(mine))
		for _, other := range others {
			fmt.Fprintf(w, " | %s", ratio(mine, t.ns[benchmark][other]))
		}
		fmt.Fprintln(w, " |")
	}
}

func ratio(mine, theirs []float64) string {
	if len(theirs) == 0 {
		return "–"
	}
	var each []float64
	for i := range min(len(mine), len(theirs)) {
		each = append(each, mine[i]/theirs[i])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(mine)/median(theirs), slices.Min(each), slices.Max(each))
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
