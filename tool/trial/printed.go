package trial

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/record"
)

// printed runs the command to its end. What it prints in Go's benchmark format are the sample's figures.
func (t *running) printed(ctx context.Context, s *serverSide, now Progress) (*record.Sample, error) {
	now.Prints = true
	t.say(now)
	sample := &record.Sample{At: time.Now().UTC(), Valid: true}
	before := machine.Measure()
	out, err := s.output(ctx)
	after := machine.Measure()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s failed: %w; run it by hand", s.label, err)
	}
	if t.plan.MaxOthers < 1 {
		spoil(sample, disturbed(before.Between(after), t.plan.MaxOthers))
	}
	if sample.Metrics, err = metricsOf(out, s.run.Environment.Strict["GOMAXPROCS"]); err != nil {
		return nil, fmt.Errorf("%s %w", s.label, err)
	}
	return sample, nil
}

// mostPrinted is how much of a command's output is read.
const mostPrinted = 16 << 20

// output returns what the command writes. While it runs for the first time, its environment is read.
func (s *serverSide) output(ctx context.Context) (string, error) {
	var mu sync.Mutex // there are two streams
	var text strings.Builder
	spoke := make(chan struct{})
	first := sync.OnceFunc(func() { close(spoke) })
	process, err := child.Start(s.shell(ctx, s.Command), child.Options{Signal: true, Said: func(line []byte) {
		first()
		mu.Lock()
		defer mu.Unlock()
		if text.Len() < mostPrinted {
			text.Write(line)
			text.WriteByte('\n')
		}
	}})
	if err != nil {
		return "", err
	}
	defer process.Stop()
	if s.run.Environment.Strict == nil {
		select {
		case <-spoke:
		case <-process.Ended():
		}
		s.run.Environment = s.environmentOf(ctx, process)
	}
	if err := process.How(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said(process))
	}
	mu.Lock()
	defer mu.Unlock()
	return text.String(), nil
}

// environmentOf is what the printed figures depend on besides the code.
func (s *serverSide) environmentOf(ctx context.Context, process *child.Child) record.Environment {
	e := s.environment(nil)
	e.Strict["GOMAXPROCS"] = cmp.Or(e.Strict["GOMAXPROCS"], strconv.Itoa(runtime.GOMAXPROCS(0)))
	if use, err := process.Used(); err == nil {
		if facts, err := machine.Program(use.Program()); err == nil {
			delete(facts.Soft, "sha256") // it may be that of go test
			maps.Copy(e.Strict, facts.Strict)
			maps.Copy(e.Soft, facts.Soft)
		}
	}
	if commit, err := git(ctx, s.Dir, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		changes, err := git(ctx, s.Dir, "status", "--porcelain", "--", ":(top)*.go", ":(top)*.s", ":(top)*.c", ":(top)*.h", ":(top)*go.mod", ":(top)*go.sum", ":(top)go.work")
		e.Soft["revision"], e.Soft["modified"] = commit, strconv.FormatBool(err != nil || changes != "")
	}
	return e
}

// metricsOf reads benchmarks: one name per sub-benchmark, without the number of CPUs, and with as much of the
// package's path as tells several packages apart. MB/s is left out: it is ns/op once more.
func metricsOf(out, cpus string) (metrics []record.Metric, err error) {
	reader := benchfmt.NewReader(strings.NewReader(out), "its output")
	var packages []string // of the metrics
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // a line that only begins like one
		}
		name := strings.TrimPrefix(result.Name.String(), "Benchmark")
		if cpus != "1" {
			name = strings.TrimSuffix(name, "-"+cpus)
		}
		for _, v := range result.Values {
			m := record.Metric{Name: name, Unit: cmp.Or(v.OrigUnit, v.Unit), Better: record.BetterOf(reader.Units(), cmp.Or(v.OrigUnit, v.Unit)), Value: v.Value}
			if v.OrigUnit != "" {
				m.Value = v.OrigValue
			}
			if m.Unit != "MB/s" {
				metrics, packages = append(metrics, m), append(packages, result.GetConfig("pkg"))
			}
		}
	}
	if len(metrics) == 0 && reader.Err() == nil {
		return nil, fmt.Errorf("printed no benchmark: without --target, what it prints in Go's benchmark format is measured, as from go test -run ^$ -bench Encode ./codec; run it by hand")
	}
	within := shared(packages)
	seen := map[string]bool{}
	for i := range metrics {
		m := &metrics[i]
		if packages[i] != within {
			m.Name = strings.TrimPrefix(strings.TrimPrefix(packages[i], within), "/") + "." + m.Name
		}
		key := m.Name + " " + m.Unit
		if seen[key] {
			return nil, fmt.Errorf("printed %s twice, and a sample has one of each; leave -count out", m.Name)
		}
		seen[key] = true
	}
	return metrics, reader.Err()
}

// shared returns the path that all packages are, or are in.
func shared(packages []string) string {
	if len(packages) == 0 {
		return ""
	}
	common := packages[0]
	for common != "" && slices.ContainsFunc(packages, func(p string) bool { return p != common && !strings.HasPrefix(p, common+"/") }) {
		common = strings.TrimSuffix(path.Dir(common), ".")
	}
	return common
}
