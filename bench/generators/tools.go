package generators

import (
	"context"
	"debug/buildinfo"
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
)

// Attack is what every generator is told.
type Attack struct {
	URL     string
	Rate    int // requests a second, at constant distances
	For     time.Duration
	Workers int    // requests that may be on their way at the same time: twice what a stall holds
	Dir     string // for files
	File    string // for the result
}

// Tool is a load generator.
type Tool struct {
	fleet.Entry
	Path string
	// Command is the arguments for an attack.
	Command func(Attack) ([]string, error)
	// Figures are the percentiles that it has written, in microseconds, and why it doubts them
	// itself, if it can.
	Figures func(context.Context, Attack) (p50, p99, p999 *float64, doubt string, err error)
}

// Find finds the generators; hone is the path of hone's. The others are those on PATH, or in
// folder bin.
func Find(ctx context.Context, hone, bin string) ([]Tool, error) {
	tools := []Tool{honeTool(hone)}
	for _, other := range []struct {
		name    string
		command func(Attack) ([]string, error)
		read    func(ctx context.Context, path string, a Attack) (p50, p99, p999 *float64, err error)
	}{{"vegeta", vegetaCommand, vegetaFigures}, {"k6", k6Command, k6Figures}} {
		path, err := exec.LookPath(other.name)
		if err != nil {
			path, err = exec.LookPath(filepath.Join(bin, other.name))
		}
		if err != nil {
			return nil, fmt.Errorf("there is no %s; make bench-generators installs it", other.name)
		}
		entry := fleet.Entry{Name: other.name, Program: other.name}
		if info, err := buildinfo.ReadFile(path); err == nil && strings.HasPrefix(info.Main.Version, "v") {
			entry.Module, entry.Version = info.Main.Path, info.Main.Version
		}
		tools = append(tools, Tool{entry, path, other.command, func(ctx context.Context, a Attack) (p50, p99, p999 *float64, doubt string, err error) {
			p50, p99, p999, err = other.read(ctx, path, a)
			return p50, p99, p999, "", err
		}})
	}
	return tools, nil
}

// honeTool is hone, whose version is the commit.
func honeTool(path string) Tool {
	return Tool{fleet.Entry{Name: "hone", Program: "hone"}, path, honeCommand, honeFigures}
}

func honeCommand(a Attack) ([]string, error) {
	return []string{
		"load", a.URL, "-c", strconv.Itoa(a.Workers), "--rate", strconv.Itoa(a.Rate), "--arrivals", "constant", "-d", (a.For - time.Second).String(), "--warmup", "1s",
		"--most-others", "100%", "--json", "-o", a.File,
	}, nil
}

func honeFigures(_ context.Context, a Attack) (p50, p99, p999 *float64, doubt string, err error) {
	text, err := os.ReadFile(a.File)
	if err != nil {
		return nil, nil, nil, "", err
	}
	var result struct {
		Reasons []string            `json:"invalid_reasons"`
		Latency map[string]*float64 `json:"latency_us"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, nil, nil, "", err
	}
	return result.Latency["p50"], result.Latency["p99"], result.Latency["p999"], strings.Join(result.Reasons, "; "), nil
}

func vegetaCommand(a Attack) ([]string, error) {
	targets := filepath.Join(a.Dir, "targets")
	workers := strconv.Itoa(a.Workers)
	err := os.WriteFile(targets, []byte("GET "+a.URL+"\n"), 0o600)
	return []string{
		"attack", "-targets", targets, "-rate", strconv.Itoa(a.Rate) + "/1s", "-duration", a.For.String(),
		"-workers", workers, "-max-workers", workers, "-connections", workers, "-max-body", "0", "-output", a.File,
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

func k6Command(a Attack) ([]string, error) {
	script := filepath.Join(a.Dir, "script.js")
	err := os.WriteFile(script, fmt.Appendf(nil, k6Script, a.Rate, a.For, a.Workers, a.URL), 0o600)
	return []string{
		"run", "--quiet", "--no-usage-report", "--no-color", "--address", "", "--summary-trend-stats", "med,p(99),p(99.9),max", "--summary-export", a.File, script,
	}, err
}

// vegetaFigures reads each request's time from the result.
func vegetaFigures(ctx context.Context, vegeta string, a Attack) (p50, p99, p999 *float64, err error) {
	text, err := exec.CommandContext(ctx, vegeta, "encode", "-to", "csv", a.File).Output()
	if err != nil {
		return nil, nil, nil, err
	}
	var took []float64
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(line, ",", 4) // time, status, nanoseconds
		if len(fields) < 4 {
			return nil, nil, nil, fmt.Errorf("vegeta's line %q has too few fields", line)
		}
		t, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, nil, nil, err
		}
		took = append(took, t/1e3)
	}
	if len(took) == 0 {
		return nil, nil, nil, errors.New("vegeta has measured no request")
	}
	slices.Sort(took)
	at := func(share float64) *float64 { return &took[min(int(share*float64(len(took))), len(took)-1)] }
	return at(0.5), at(0.99), at(0.999), nil
}

// k6Figures reads the summary.
func k6Figures(_ context.Context, _ string, a Attack) (p50, p99, p999 *float64, err error) {
	text, err := os.ReadFile(a.File)
	if err != nil {
		return nil, nil, nil, err
	}
	var summary struct {
		Metrics struct {
			Took struct { // milliseconds
				P50  *float64 `json:"med"`
				P99  *float64 `json:"p(99)"`
				P999 *float64 `json:"p(99.9)"`
			} `json:"http_req_duration"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(text, &summary); err != nil {
		return nil, nil, nil, err
	}
	took := &summary.Metrics.Took
	for _, p := range []*float64{took.P50, took.P99, took.P999} {
		if p == nil {
			return nil, nil, nil, errors.New("k6's summary lacks a percentile")
		}
		*p *= 1e3
	}
	return took.P50, took.P99, took.P999, nil
}
