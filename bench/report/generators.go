package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The schedules of the comparison of load generators.
const (
	GeneratorsFile   = "generators.json"
	GeneratorsSchema = "hone.bench.generators/1"
)

// Generators is a run of the comparison of load generators, which stand where others have servers.
type Generators struct {
	Head
	Rate      int         `json:"rate"` // requests a second
	WindowMS  int64       `json:"window_ms"`
	Rounds    int         `json:"rounds"`
	Seed      uint64      `json:"seed"` // of the random order
	Schedules []Stalls    `json:"schedules"`
	Samples   []Generated `json:"samples"`
}

// Stalls is the schedule of a server that does not answer in the first part of every period.
type Stalls struct {
	PeriodMS int64 `json:"period_ms"`
	StallMS  int64 `json:"stall_ms"`
}

// Period is the time from the start of a stall to the start of the next.
func (s Stalls) Period() time.Duration { return time.Duration(s.PeriodMS) * time.Millisecond }

// Stall is how long a stall lasts.
func (s Stalls) Stall() time.Duration { return time.Duration(s.StallMS) * time.Millisecond }

// Name returns a description of the schedule.
func (s Stalls) Name() string { return fmt.Sprintf("%d ms in %d", s.StallMS, s.PeriodMS) }

// Quantile returns the expected quantile of the response time, in microseconds, if requests
// arrive at a constant rate and are answered immediately or at the end of the stall: those in a
// stall wait for between zero and the whole stall, evenly distributed, and the others do not wait.
func (s Stalls) Quantile(q float64) float64 {
	part := float64(s.StallMS) / float64(s.PeriodMS)
	return 1000 * float64(s.StallMS) * max(0, (q-(1-part))/part)
}

// Generated is what one generator reported in one round, and its cost.
type Generated struct {
	Generator string `json:"generator"`
	Schedule  string `json:"schedule"`
	Round     int    `json:"round"`
	Error     string `json:"error"`             // why there are no results; empty: no error
	Doubt     string `json:"doubt"`             // why the generator itself marked them as doubtful
	Repeats   int    `json:"repeats,omitempty"` // samples before this one that the generator marked
	// In microseconds, as reported by the generator.
	P50  *float64 `json:"p50_us"`
	P99  *float64 `json:"p99_us"`
	P999 *float64 `json:"p999_us"`
	// CPU is the generator's CPU time per request, in microseconds, and Rate the requests a
	// second that reached the server, both in the window.
	CPU  *float64 `json:"cpu_us"`
	Rate float64  `json:"rate"`
}

// String formats the sample for progress output.
func (s Generated) String() string {
	if s.Error != "" {
		return s.Generator + ": " + s.Error
	}
	text := fmt.Sprintf("%s: %.0f/s", s.Generator, s.Rate)
	for _, f := range []struct {
		format string
		value  *float64
	}{{", %.1f µs of CPU", s.CPU}, {", p50 %.0f µs", s.P50}, {", p99 %.0f µs", s.P99}, {", p99.9 %.0f µs", s.P999}} {
		if f.value != nil {
			text += fmt.Sprintf(f.format, *f.value)
		}
	}
	if s.Doubt != "" {
		text += " (" + s.Doubt + ")"
	}
	return text
}

// leastRate is the fraction of the rate that must have reached the server.
const leastRate = 0.98

// Judge decides whether the run is valid: every sample has results, and had the full load.
func (g *Generators) Judge() {
	for _, s := range g.Samples {
		switch {
		case s.Error != "":
			g.doubt("%s, round %d: %s", s.Schedule, s.Round, s)
		case s.Rate < leastRate*float64(g.Rate):
			g.doubt("%s, round %d: %s sent %.0f of %d requests a second", s.Schedule, s.Round, s.Generator, s.Rate, g.Rate)
		case s.Doubt != "":
			g.doubt("%s, round %d: %s says: %s", s.Schedule, s.Round, s.Generator, s.Doubt)
		}
	}
}

func (g *Generators) doubt(format string, args ...any) {
	g.Valid, g.InvalidReasons = false, append(g.InvalidReasons, fmt.Sprintf(format, args...))
}

// Tables are those of the percentiles and of the cost.
func (g *Generators) Tables() []Table {
	return []Table{{"truth", g.truth}, {"cpu", g.cpu}, {"run", g.facts}}
}

// rounds returns a metric of one generator under one schedule, by round.
func (g *Generators) rounds(generator, schedule string, of func(Generated) *float64) map[int]float64 {
	values := map[int]float64{}
	for _, s := range g.Samples {
		if v := of(s); s.Generator == generator && s.Schedule == schedule && v != nil {
			values[s.Round] = *v
		}
	}
	return values
}

func (g *Generators) median(generator, schedule string, of func(Generated) *float64) Spread {
	return SpreadOf(slices.Collect(maps.Values(g.rounds(generator, schedule, of))))
}

// truth returns the percentiles in milliseconds, with their error against the computed ones.
func (g *Generators) truth() string {
	head := []string{"stall", "figure", "computed"}
	for _, tool := range g.Servers {
		head = append(head, serverName(tool))
	}
	rows := [][]string{head}
	for _, schedule := range g.Schedules {
		for _, q := range []struct {
			name string
			part float64
			of   func(Generated) *float64
		}{
			{"p50", 0.5, func(s Generated) *float64 { return s.P50 }},
			{"p99", 0.99, func(s Generated) *float64 { return s.P99 }},
			{"p99.9", 0.999, func(s Generated) *float64 { return s.P999 }},
		} {
			want := schedule.Quantile(q.part)
			row := []string{schedule.Name(), q.name, fmt.Sprintf("%.1f", want/1e3)}
			for _, tool := range g.Servers {
				got := g.median(tool.Name, schedule.Name(), q.of)
				cell := none
				if got.N > 0 {
					cell = fmt.Sprintf("%.1f", got.Median/1e3)
				}
				if got.N > 0 && want > 0 {
					cell += strings.Replace(fmt.Sprintf(" (%+.1f %%)", 100*(got.Median/want-1)), "-", "−", 1)
				}
				row = append(row, cell)
			}
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}

// cpu returns the generators' CPU per request, and the first one's ratio to the others.
func (g *Generators) cpu() string {
	if len(g.Servers) == 0 {
		return ""
	}
	first := g.Servers[0].Name
	head := []string{"stall"}
	for _, tool := range g.Servers {
		head = append(head, serverName(tool))
	}
	for _, tool := range g.Servers[1:] {
		head = append(head, first+" / "+tool.Name)
	}
	of := func(s Generated) *float64 { return s.CPU }
	rows := [][]string{head}
	for _, schedule := range g.Schedules {
		row := []string{schedule.Name()}
		for _, tool := range g.Servers {
			row = append(row, g.median(tool.Name, schedule.Name(), of).String())
		}
		ours := g.rounds(first, schedule.Name(), of)
		for _, tool := range g.Servers[1:] {
			row = append(row, Ratios(ours, g.rounds(tool.Name, schedule.Name(), of)).String())
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// facts describes how the run was made.
func (g *Generators) facts() string {
	var t strings.Builder
	t.WriteString(g.invalid())
	fmt.Fprintf(&t, "%v. %d requests a second, medians of %d rounds in random order (seed %d); CPU in a window of %.0f s, with minimum and maximum in parentheses.\n",
		g.Machine, g.Rate, g.Rounds, g.Seed, float64(g.WindowMS)/1e3)
	repeats := map[string]int{}
	for _, s := range g.Samples {
		repeats[s.Generator] += s.Repeats
	}
	for _, tool := range g.Servers {
		if n := repeats[tool.Name]; n > 0 {
			fmt.Fprintf(&t, "%d samples of %s were repeated because it marked them as invalid: it had sent requests late. The others do not report that.\n", n, tool.Name)
		}
	}
	return t.String()
}
