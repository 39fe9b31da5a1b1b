package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// figure extracts a metric from a sample; it returns nil if the sample lacks it.
type figure func(Sample) *float64

// Tables are the table names that Peers.Table accepts.
func (p *Peers) Tables() []string {
	return []string{"cpu", "ratios", "gnet", "rates", "tails", "memory", "slow", "run"}
}

// Table makes one table.
func (p *Peers) Table(name string) (string, error) {
	perRequest := []string{"A", "A2", "B", "C", "O", "E"}
	switch name {
	case "cpu":
		return p.matrix(perRequest, func(scenario, server string) string {
			return p.cell(scenario, server, func(s Sample) *float64 { return s.CPU })
		}), nil
	case "ratios":
		return p.matrix(perRequest, func(scenario, server string) string { return p.ratio(scenario, server, p.bestPeer(scenario, server)) }), nil
	case "gnet":
		return p.matrix(perRequest, func(scenario, server string) string { return p.ratio(scenario, server, "gnet") }), nil
	case "rates":
		return p.matrix([]string{"A", "A2", "B", "C", "O", "E"}, func(scenario, server string) string {
			return p.cell(scenario, server, func(s Sample) *float64 { return scaled(s.Rate, 1e-3) })
		}), nil
	case "memory":
		return p.matrix(p.memoryScenarios(), func(scenario, server string) string {
			return p.cell(scenario, server, func(s Sample) *float64 { return s.PerConn })
		}), nil
	case "tails":
		return p.tails("O"), nil
	case "slow":
		return p.tails("S"), nil
	case "run":
		return p.facts(), nil
	}
	return "", fmt.Errorf("there is no table %q; there are %s", name, strings.Join(p.Tables(), ", "))
}

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	s := *v * by
	return &s
}

// memoryScenarios returns the scenarios that only measure memory, and E. An idle
// scenario has a sample for each of its levels.
func (p *Peers) memoryScenarios() []string {
	var names []string
	for _, s := range p.Samples {
		if (s.Scenario == "E" || strings.HasPrefix(s.Scenario, "idle-")) && !slices.Contains(names, s.Scenario) {
			names = append(names, s.Scenario)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // idle-5k before idle-15k
	})
	return names
}

// matrix returns a table with a row for each server and a column for each scenario,
// without empty ones.
func (p *Peers) matrix(scenarios []string, cell func(scenario, server string) string) string {
	scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(name string) bool {
		return !slices.ContainsFunc(p.Samples, func(s Sample) bool { return s.Scenario == name })
	})
	rows := [][]string{append([]string{"server"}, scenarios...)}
	for _, e := range p.Servers {
		row, some := []string{serverName(e.Name, e.Version) + map[bool]string{true: " (parses nothing)"}[e.ParsesNothing]}, false
		for _, scenario := range scenarios {
			text := cell(scenario, e.Name)
			some = some || text != Spread{}.String()
			row = append(row, text)
		}
		if some {
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

func serverName(name, version string) string {
	if version == "" {
		return "**" + name + "**"
	}
	return name + " " + version
}

// rounds returns the values of a metric, by round.
func (p *Peers) rounds(scenario, server string, of figure) map[int]float64 {
	values := make(map[int]float64)
	for _, s := range p.Samples {
		if s.Scenario != scenario || s.Server != server {
			continue
		}
		if v := of(s); v != nil {
			values[s.Round] = *v
		}
	}
	return values
}

func (p *Peers) spread(scenario, server string, of figure) Spread {
	var values []float64
	for _, v := range p.rounds(scenario, server, of) {
		values = append(values, v)
	}
	return SpreadOf(values)
}

// cell formats a metric's spread, and the number of failed rounds if there are any.
func (p *Peers) cell(scenario, server string, of figure) string {
	failed := 0
	for _, s := range p.Samples {
		if s.Scenario == scenario && s.Server == server && s.Error != "" {
			failed++
		}
	}
	text := p.spread(scenario, server, of).String()
	if failed > 0 {
		text += fmt.Sprintf(" %d×failed", failed)
	}
	return text
}

func cpuOf(s Sample) *float64 { return s.CPU }

// bestPeer returns the server with the lowest median, except hone and the given one;
// empty if there is none.
func (p *Peers) bestPeer(scenario, but string) string {
	best, least := "", 0.0
	for _, e := range p.Servers {
		s := p.spread(scenario, e.Name, cpuOf)
		if e.Ours() || e.Name == but || s.N == 0 {
			continue
		}
		if best == "" || s.Median < least {
			best, least = e.Name, s.Median
		}
	}
	return best
}

// ratio compares CPU per request with another server's.
func (p *Peers) ratio(scenario, server, to string) string {
	return Ratios(p.rounds(scenario, server, cpuOf), p.rounds(scenario, to, cpuOf)).String()
}

// tails returns the response times of one scenario.
func (p *Peers) tails(scenario string) string {
	rows := [][]string{{"server", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs/request"}}
	for _, e := range p.Servers {
		row, some := []string{serverName(e.Name, e.Version)}, false
		for _, of := range []figure{
			func(s Sample) *float64 { return s.P50 },
			func(s Sample) *float64 { return s.P99 },
			func(s Sample) *float64 { return s.P999 },
			cpuOf,
		} {
			text := p.cell(scenario, e.Name, of)
			some = some || text != Spread{}.String()
			row = append(row, text)
		}
		if some {
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

// facts describes how the run was made.
func (p *Peers) facts() string {
	var t strings.Builder
	if !p.Valid {
		fmt.Fprintf(&t, "**INVALID**: %s.\n\n", strings.Join(p.InvalidReasons, "; "))
	}
	fmt.Fprintf(&t, "%v. Medians of %d rounds of %.1f s, with minimum and maximum in parentheses, in random order (seed %d); %d samples were repeated because the rest of the machine was busy.\n",
		p.Machine, p.Settings.Rounds, float64(p.Settings.WindowMS)/1e3, p.Settings.Seed, p.Settings.Retaken)
	if busy := p.busiest(); busy > 0 {
		fmt.Fprintf(&t, "In half of the samples, other processes used at most %.0f %% of a CPU.\n", 100*busy)
	}
	if p.Settings.Client != "" {
		fmt.Fprintf(&t, "The client was %s.%s\n", p.Settings.Client, p.limits())
	}
	for _, s := range p.Scenarios {
		if n, all := p.doubted(s.Name); n > 0 {
			fmt.Fprintf(&t, "In %s, the client marked its own response times as doubtful in %d of %d samples.\n", s.Name, n, all)
		}
	}
	return t.String()
}

// limits reports the CPU use of server and client in each scenario: the one that used
// all of its CPU was the bottleneck.
func (p *Peers) limits() string {
	var parts []string
	for _, sc := range p.Scenarios {
		median := func(of figure) Spread {
			var values []float64
			for _, s := range p.Samples {
				if v := of(s); s.Scenario == sc.Name && v != nil {
					values = append(values, 100**v)
				}
			}
			return SpreadOf(values)
		}
		server, client := median(func(s Sample) *float64 { return s.ServerBusy }), median(func(s Sample) *float64 { return s.Busy })
		if server.N > 0 && client.N > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f and %.0f", sc.Name, server.Median, client.Median))
		}
	}
	if parts == nil {
		return ""
	}
	return " Percent of a CPU that the server and the client used, medians of all samples: " + strings.Join(parts, ", ") + "."
}

// doubted counts the open-loop samples whose response times the client marked as doubtful.
// In a closed loop a saturated client is expected.
func (p *Peers) doubted(scenario string) (n, all int) {
	if scenario != "O" && scenario != "S" && scenario != rateScenario {
		return 0, 0
	}
	for _, s := range p.Samples {
		if s.Scenario == scenario && s.Error == "" {
			all++
			n += min(1, len(s.Doubts))
		}
	}
	return n, all
}

// busiest returns the median CPU use of other processes.
func (p *Peers) busiest() float64 {
	var others []float64
	for _, s := range p.Samples {
		if s.Others != nil {
			others = append(others, *s.Others)
		}
	}
	return SpreadOf(others).Median
}

// markdown formats rows as a table; the first row is the header. Without further rows it
// returns nothing.
func markdown(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	var t strings.Builder
	for i, row := range rows {
		for j := range row {
			row[j] = strings.NewReplacer("|", "/", "\n", " ").Replace(row[j])
		}
		t.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			t.WriteString("|---" + strings.Repeat("|---", len(row)-1) + "|\n")
		}
	}
	return t.String()
}
