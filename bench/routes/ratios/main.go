// Ratios prints for each contest hone's median and hone's ratio to the others: of
// the medians, and in brackets from the best to the worst run of the same number.
// It measures ten runs, or reads what go test -bench printed.
//
//	go run ./bench/routes/ratios
//	go run ./bench/routes/ratios runs.txt
//
// Its own runs bear a busy machine better: the routers take turns of a third of a
// millisecond, and a run is the median of its turns.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/bench/routes"
)

// counts is how many runs are measured.
const counts = 10

func main() {
	only := flag.String("only", "", "measure the contests whose name contains this `text`")
	flag.Parse()
	if err := run(flag.Args(), *only, counts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(files []string, only string, counts int, stdout io.Writer) error {
	t := table{ns: make(map[string]map[string][]float64)}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = t.read(f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if len(files) == 0 {
		if err := t.measure(only, counts); err != nil {
			return err
		}
	}
	if len(t.benchmarks) == 0 {
		return fmt.Errorf("nothing to show; give what go test -bench printed, or an -only that contests have in their names")
	}
	t.print(stdout)
	return nil
}

// measure runs the contests that have a text in their names.
func (t *table) measure(only string, counts int) error {
	whole, end, err := routes.Whole()
	if err != nil {
		return err
	}
	defer end()
	for _, c := range append(routes.Contests(), whole) {
		if strings.Contains(c.Name, only) {
			c.Measure(counts, func(router string, ns float64) { t.add(c.Name, router, ns) })
		}
	}
	return nil
}

// A table has the ns of each run by benchmark and router.
type table struct {
	benchmarks, routers []string // in the order of their first lines
	ns                  map[string]map[string][]float64
}

// read adds the lines "BenchmarkX/Set/router-2  n  t ns/op".
func (t *table) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") || f[3] != "ns/op" {
			continue
		}
		ns, err := strconv.ParseFloat(f[2], 64)
		cut := strings.LastIndexByte(f[0], '/')
		if err != nil || cut < 0 {
			continue
		}
		t.add(strings.TrimPrefix(f[0][:cut], "Benchmark"), withoutProcs(f[0][cut+1:]), ns)
	}
	return lines.Err()
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

// withoutProcs is a name without the number of processors behind it.
func withoutProcs(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			return name[:i]
		}
	}
	return name
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
