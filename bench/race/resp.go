package race

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
)

// respRow has redis-benchmark ask, whose commands are counted; those that come 16 or 64 at once are eight times as many.
func respRow() Row {
	const commands = 60_000
	cases := []struct {
		name, args string
		times      int
	}{
		{"GET", "-t get -P 1", 1}, {"SET", "-t set -P 1", 1}, {"GET, 16 at once", "-t get -P 16", 8}, {"SET, 16 at once", "-t set -P 16", 8}, {"INCR, 64 at once", "-t incr -P 64", 8},
	}
	measure := func(ctx context.Context, g *Ground, e fleet.Entry) (samples []table.Sample, err error) {
		server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU})
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		_, port, _ := strings.Cut(server.Addr, ":")
		for _, c := range cases {
			n := commands * c.times
			if g.Small() {
				n = 500
			}
			args := append([]string{"-p", port, "-q", "-c", "50", "-n", strconv.Itoa(n)}, strings.Fields(c.args)...)
			cpu, others, err := watch(server.PID, func() error {
				out, err := exec.CommandContext(ctx, "redis-benchmark", args...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "requests per second") {
					return fmt.Errorf("redis-benchmark (make deps installs it): %w: %s", err, out)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			samples = append(samples, table.Sample{Case: c.name, Figures: map[string]float64{"cpu_us": float64(cpu) / 1e3 / float64(n), "others": others}})
		}
		return samples, nil
	}
	return Row{
		Name: "resp", Client: "redis-benchmark", Servers: fleet.RESP(), Rounds: cpuRounds,
		Title: func([]int) string { return "50 connections of redis-benchmark, not pinned" },
		Round: each(measure),
	}
}
