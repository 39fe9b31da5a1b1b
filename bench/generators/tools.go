package generators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
)

// attack is what every generator is told.
type attack struct {
	url      string
	duration time.Duration
	workers  int    // requests that may be on their way at the same time: twice what a stall holds
	dir      string // for files
	file     string // for the result
}

// tool is a load generator.
type tool struct {
	fleet.Entry
	path    string
	command func(attack) ([]string, error) // the arguments for an attack
	// figures are the percentiles that it has written, and why it doubts them itself, if it can.
	figures func(context.Context, attack) (table.Sample, error)
}

func tools() []tool {
	all := []tool{{command: honeCommand, figures: honeFigures}, {command: vegetaCommand, figures: vegetaFigures}, {command: k6Command, figures: k6Figures}}
	all[0].Server, all[0].Package, all[0].Command = table.Server{Name: "hone", Program: "hone"}, "tool/cmd/hone", "{dir}/whole/hone"
	all[1].Server, all[1].Command = table.Server{Name: "vegeta", Program: "vegeta", Module: "github.com/tsenart/vegeta/v12"}, "vegeta"
	all[2].Server, all[2].Command = table.Server{Name: "k6", Program: "k6", Module: "go.k6.io/k6"}, "k6"
	return all
}

// named finds a generator, and its program.
func named(name, dir string) (t tool, err error) {
	all := tools()
	t = all[slices.IndexFunc(all, func(t tool) bool { return t.Name == name })]
	t.path, err = exec.LookPath(strings.ReplaceAll(t.Command, "{dir}", dir))
	return t, err
}

// percentiles makes a sample of microseconds.
func percentiles(p50, p99, p999 *float64) (s table.Sample, err error) {
	s.Figures = make(map[string]float64)
	for name, us := range map[string]*float64{"p50_us": p50, "p99_us": p99, "p999_us": p999} {
		if us == nil {
			err = errors.New("a percentile is missing")
		} else {
			s.Figures[name] = *us
		}
	}
	return s, err
}

func honeCommand(a attack) ([]string, error) {
	return []string{
		"load", a.url, "-c", strconv.Itoa(a.workers), "--rate", strconv.Itoa(rate), "--arrivals", "constant", "-d", (a.duration - time.Second).String(), "--warmup", "1s",
		"--max-others", "100%", "--json", "-o", a.file,
	}, nil
}

func honeFigures(_ context.Context, a attack) (table.Sample, error) {
	var result struct {
		Reasons []string            `json:"invalid_reasons"`
		Latency map[string]*float64 `json:"latency_us"`
	}
	text, err := os.ReadFile(a.file)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return table.Sample{}, err
	}
	s, err := percentiles(result.Latency["p50"], result.Latency["p99"], result.Latency["p999"])
	if len(result.Reasons) > 0 {
		s.Doubts, err = result.Reasons, nil
	}
	return s, err
}

func vegetaCommand(a attack) ([]string, error) {
	targets := filepath.Join(a.dir, "targets")
	workers := strconv.Itoa(a.workers)
	err := os.WriteFile(targets, []byte("GET "+a.url+"\n"), 0o600)
	return []string{
		"attack", "-targets", targets, "-rate", strconv.Itoa(rate) + "/1s", "-duration", a.duration.String(),
		"-workers", workers, "-max-workers", workers, "-connections", workers, "-max-body", "0", "-output", a.file,
	}, err
}

// k6Script asks for constant arrivals, and keeps no body, which is cheapest for k6.
const k6Script = `import http from 'k6/http';
export const options = {
  discardResponseBodies: true,
  scenarios: { constant: {
    executor: 'constant-arrival-rate', rate: %d, timeUnit: '1s', duration: '%s', preAllocatedVUs: %d,
  } },
};
export default function () { http.get('%s'); }
`

func k6Command(a attack) ([]string, error) {
	script := filepath.Join(a.dir, "script.js")
	err := os.WriteFile(script, fmt.Appendf(nil, k6Script, rate, a.duration, a.workers, a.url), 0o600)
	return []string{
		"run", "--quiet", "--no-usage-report", "--no-color", "--address", "", "--summary-trend-stats", "med,p(99),p(99.9),max", "--summary-export", a.file, script,
	}, err
}

// vegetaFigures reads each request's time from the result.
func vegetaFigures(ctx context.Context, a attack) (table.Sample, error) {
	text, err := exec.CommandContext(ctx, "vegeta", "encode", "-to", "csv", a.file).Output()
	if err != nil {
		return table.Sample{}, err
	}
	var took []float64
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(line, ",", 4) // time, status, nanoseconds
		if len(fields) < 4 {
			return table.Sample{}, fmt.Errorf("vegeta's line %q has too few fields", line)
		}
		t, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return table.Sample{}, err
		}
		took = append(took, t/1e3)
	}
	if len(took) == 0 {
		return table.Sample{}, errors.New("vegeta has measured no request")
	}
	slices.Sort(took)
	at := func(share float64) *float64 { return &took[min(int(share*float64(len(took))), len(took)-1)] }
	return percentiles(at(0.5), at(0.99), at(0.999))
}

// k6Figures reads the summary.
func k6Figures(_ context.Context, a attack) (table.Sample, error) {
	var summary struct {
		Metrics struct {
			Took struct { // milliseconds
				P50  *float64 `json:"med"`
				P99  *float64 `json:"p(99)"`
				P999 *float64 `json:"p(99.9)"`
			} `json:"http_req_duration"`
		} `json:"metrics"`
	}
	text, err := os.ReadFile(a.file)
	if err == nil {
		err = json.Unmarshal(text, &summary)
	}
	if err != nil {
		return table.Sample{}, err
	}
	took := &summary.Metrics.Took
	s, err := percentiles(took.P50, took.P99, took.P999)
	for name := range s.Figures {
		s.Figures[name] *= 1e3
	}
	return s, err
}
