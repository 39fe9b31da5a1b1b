package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
)

// figure extracts a metric from a sample; it returns nil if the sample lacks it.
type figure func(Sample) *float64

// cell formats one metric of a server, or none.
type cell func(server string) string

const none = "–"

// column is a metric with its heading.
type column struct {
	heading string
	cell    cell
}

// table has a row for each server, without the rows and columns that have nothing.
func (p *Peers) table(columns []column) string {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(p.Servers, func(e fleet.Entry) bool { return c.cell(e.Name) != none })
	})
	rows := [][]string{{"server"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.heading)
	}
	for _, e := range p.Servers {
		row, some := []string{serverName(e)}, false
		for _, c := range columns {
			text := c.cell(e.Name)
			some = some || text != none
			row = append(row, text)
		}
		if some {
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

// serverName is a server in a table, hone's in bold.
func serverName(e fleet.Entry) string {
	switch {
	case e.Ours():
		return "**" + e.Name + "**"
	case e.ParsesNothing:
		return e.Name + " " + e.Version + " (parses nothing)"
	}
	return strings.TrimSpace(e.Name + " " + e.Version)
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
	return SpreadOf(slices.Collect(maps.Values(p.rounds(scenario, server, of))))
}

// figure formats a metric's spread, and the number of failed rounds if there are any.
func (p *Peers) figure(scenario string, of figure) cell {
	return func(server string) string {
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

// to compares CPU per request with another server's, or, without a name, with the best of the other
// libraries in each scenario.
func (p *Peers) to(base string) func(scenario string) cell {
	return func(scenario string) cell {
		return func(server string) string {
			other := cmp.Or(base, p.bestPeer(scenario, server))
			return Ratios(p.rounds(scenario, server, cpuOf), p.rounds(scenario, other, cpuOf)).String()
		}
	}
}

// facts describes how the run was made.
func (p *Peers) facts() string {
	var t strings.Builder
	t.WriteString(p.invalid())
	fmt.Fprintf(&t, "%v. Medians of %d rounds of %.1f s, with minimum and maximum in parentheses, in random order (seed %d); %d samples were repeated because the rest of the machine was busy.\n",
		p.Machine, p.Settings.Rounds, float64(p.Settings.WindowMS)/1e3, p.Settings.Seed, p.Settings.Retaken)
	if busy := p.overall("", func(s Sample) *float64 { return s.Others }).Median; busy > 0 {
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
		server := p.overall(sc.Name, func(s Sample) *float64 { return s.ServerBusy })
		client := p.overall(sc.Name, func(s Sample) *float64 { return s.Busy })
		if server.N > 0 && client.N > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f and %.0f", sc.Name, 100*server.Median, 100*client.Median))
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

// overall is the spread of a metric over all servers in a scenario, or, without a name, in all of them.
func (p *Peers) overall(scenario string, of figure) Spread {
	var values []float64
	for _, s := range p.Samples {
		if v := of(s); v != nil && (scenario == "" || s.Scenario == scenario) {
			values = append(values, *v)
		}
	}
	return SpreadOf(values)
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
