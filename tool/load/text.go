package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load/codec"
)

// goalReport is the JSON form of a goal.
type goalReport struct {
	Goal string   `json:"goal"`
	Met  bool     `json:"met"`
	Got  *float64 `json:"got"`
}

// intervalReport is the JSON form of an interval.
type intervalReport struct {
	Start    float64  `json:"start_s"`
	End      float64  `json:"end_s"`
	Answered int64    `json:"answered"`
	Errors   int64    `json:"errors"`
	P50      *float64 `json:"p50_us"`
	P99      *float64 `json:"p99_us"`
	Max      *float64 `json:"max_us"`
}

// histogramsReport holds distributions in nanoseconds, in HdrHistogram's encoding (V2, compressed,
// base64).
type histogramsReport struct {
	Latency string `json:"latency"`
	Service string `json:"service,omitempty"` // open loops only
}

// Document returns the result for programs, with its goals, intervals and histograms.
func Document(r *Result, outcomes []Outcome) any {
	report := struct {
		*Result
		Window     float64          `json:"measured_s"`
		Intervals  []intervalReport `json:"intervals"`
		Histograms histogramsReport `json:"histograms_ns"`
		Goals      []goalReport     `json:"goals,omitempty"`
	}{Result: r, Window: r.Window.Seconds(), Intervals: []intervalReport{}}
	for _, i := range r.Intervals {
		report.Intervals = append(report.Intervals, intervalReport{
			i.Start.Seconds(), i.End.Seconds(), i.Answered, i.Errors, i.Times.P50, i.Times.P99, i.Times.Max,
		})
	}
	report.Histograms.Latency = string(histogram{r.Histograms.Latency}.encoded())
	if r.Histograms.Service != r.Histograms.Latency {
		report.Histograms.Service = string(histogram{r.Histograms.Service}.encoded())
	}
	for _, o := range outcomes {
		report.Goals = append(report.Goals, goalReport{o.Goal.String(), o.Met, o.Got})
	}
	return report
}

// WriteText prints a result for people; title says what was loaded, and how. One line of doubt stands before
// the figures, the others behind them.
func WriteText(w io.Writer, title string, p Plan, r *Result, outcomes []Outcome) {
	figure.WriteValidity(w, r.Valid, r.InvalidReasons[:min(1, len(r.InvalidReasons))], r.judgedBy())
	table := new(figure.Table)
	table.Add("target", title)
	if p.Conns > 0 {
		writeRequests(table, r)
	}
	if len(r.Statuses) > 0 {
		table.Add("statuses", statusesText(r.Statuses))
	}
	writeConnections(table, r)
	if p.Conns > 0 {
		table.Add("latency", quantilesText(r.Latency))
	}
	writeSteps(table, r)
	switch open := p.Rate > 0 || !p.Schedule.None(); {
	case p.Conns > 0 && !open:
		table.Add("", "times of a closed loop, which are not waiting times; --rate measures those")
	case open && p.Arrivals == Constant:
		table.Add("", "of constant arrivals, which a periodic stall of the server can hit or miss every time; --arrivals poisson cannot")
	}
	if r.Offered != nil {
		table.Add("service", quantilesText(r.Service))
		table.Add("lag", quantilesText(r.Lag))
	}
	writeBeside(table, r)
	table.Line("client", "%s CPU a request, %s of its CPUs", figure.OrNone(r.Client.CPUPerRequest, figure.Micros), figure.OrNone(r.Client.CPUShare, percent))
	if s := r.Server; s != nil {
		said := []string{figure.OrNone(s.CPUPerRequest, figure.Micros) + " CPU a request"}
		if s.Engine != nil {
			said = append(said, *s.Engine)
		}
		if s.RSS != nil {
			said = append(said, figure.Bytes(float64(*s.RSS)))
		}
		if s.Descriptors != nil {
			said = append(said, figure.Grouped(float64(*s.Descriptors))+" descriptors")
		}
		table.Add("server", strings.Join(said, ", "))
	}
	for _, o := range outcomes {
		table.Add("goal", o.String())
	}
	table.Text(w)
	writeAgents(w, r.Agents)
	for _, reason := range r.InvalidReasons[min(1, len(r.InvalidReasons)):] {
		fmt.Fprintln(w, "INVALID, too:", reason)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintln(w, "WARNING:", warning)
	}
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// writeAgents prints a line for each agent.
func writeAgents(w io.Writer, agents []Agent) {
	if len(agents) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := figure.Table{Head: []string{"agent", "machine", "conns", "requests", "errors", "answers/s", "p50", "p99", "lag p99", "CPU", "clock"}, Right: "--rrrrrrrrr"}
	for _, a := range agents {
		clock := "–"
		if a.Clock != nil && a.ClockError != nil {
			clock = fmt.Sprintf("%+.3f ± %.3f ms", *a.Clock/1e3, *a.ClockError/1e3)
		}
		table.Add(a.Name, a.Machine, figure.Grouped(float64(a.Conns)),
			figure.Grouped(float64(a.Requests)), figure.Grouped(float64(a.Errors)), figure.OrNone(a.Rate, figure.Grouped),
			figure.OrNone(a.Latency.P50, figure.Micros), figure.OrNone(a.Latency.P99, figure.Micros), figure.OrNone(a.LagP99, figure.Micros), figure.OrNone(a.CPUShare, percent), clock)
	}
	table.Text(w)
}

// writeRequests prints the counts of requests and errors.
func writeRequests(table *figure.Table, r *Result) {
	counts := fmt.Sprintf("%s in %s, %s errors", figure.Grouped(float64(r.Requests)), figure.Time(r.Window), figure.Grouped(float64(r.Errors["total"])))
	table.Add("requests", counts)
	rate := figure.OrNone(r.Rate, figure.Grouped) + "/s"
	if r.Offered != nil {
		what := "/s"
		if len(r.Steps) > 0 {
			what = " sessions/s"
		}
		rate += ", offered " + figure.Grouped(*r.Offered) + what
	}
	if r.Schedule != "" {
		rate += " (" + r.Schedule + ")"
	}
	if r.RateAtLeast != nil {
		rate = "at least " + figure.Grouped(*r.RateAtLeast) + "/s"
	}
	table.Add("answers", rate)
	if r.SizeMean != nil && r.SizeMost != nil {
		table.Line("content", "%s bytes on average, %s at most", figure.Grouped(*r.SizeMean), figure.Grouped(float64(*r.SizeMost)))
	}
}

// writeSteps prints a line for each step.
func writeSteps(table *figure.Table, r *Result) {
	if len(r.Steps) < 2 {
		return
	}
	for _, s := range r.Steps {
		table.Line(s.Name, "%s requests, %s errors, %s/s, %s", figure.Grouped(float64(s.Requests)),
			figure.Grouped(float64(s.Errors["total"])), figure.OrNone(s.Rate, figure.Grouped), quantilesText(s.Latency))
	}
}

// writeConnections prints what happened to connections and unanswered requests.
func writeConnections(table *figure.Table, r *Result) {
	if r.Reconnects > 0 {
		table.Line("reconnects", "%s, %s requests retried", figure.Grouped(float64(r.Reconnects)), figure.Grouped(float64(r.Retries)))
	}
	if r.Drains > 0 {
		table.Line("drains", "%s connections closed by the server's shutdown", figure.Grouped(float64(r.Drains)))
	}
	if r.Outage != nil {
		table.Line("outage", "%s without any connection at the longest", figure.Micros(*r.Outage))
	}
	var waited []string
	for _, kind := range []Kind{Timeout, codec.Unanswered} {
		if n := r.Errors[kind.String()]; n > 0 {
			waited = append(waited, figure.Grouped(float64(n))+" "+kind.String())
		}
	}
	if len(waited) > 0 {
		table.Line("no answer", "%s, in the latencies with the time that they waited", strings.Join(waited, ", "))
	}
	if n := r.Errors[Closed.String()]; n > 0 {
		table.Line("broken off", "%s requests whose connection ended, in no latency", figure.Grouped(float64(n)))
	}
	if r.Unsent > 0 {
		table.Line("unsent", "%s requests that the server has never seen", figure.Grouped(float64(r.Unsent)))
	}
}

// writeBeside prints the idle connections and the churn.
func writeBeside(table *figure.Table, r *Result) {
	if i := r.Idle; i != nil {
		table.Line("idle", "%s of %s connections open at the end, %s closed by the server",
			figure.Grouped(float64(i.Open)), figure.Grouped(float64(i.Conns)), figure.Grouped(float64(i.Closed)))
		if i.Failed > 0 {
			table.Line("not idle", "%s connections had no answer, and were not kept", figure.Grouped(float64(i.Failed)))
		}
		if i.Closed > 0 {
			table.Add("closed after", quantilesText(i.ClosedAfter))
		}
		if i.ServerBytes != nil {
			table.Line("memory", "%s of server memory per idle connection", figure.Bytes(*i.ServerBytes))
		}
	}
	if c := r.Churn; c != nil {
		table.Line("churn", "%s connections, %s errors", figure.Grouped(float64(c.Conns)), figure.Grouped(float64(c.Errors["total"])))
		table.Add("dial", quantilesText(c.Dial))
		if c.First.Max != nil {
			table.Add("first answer", quantilesText(c.First))
		}
	}
}

// statusesText formats counts, for example 200 × 1,234, 404 × 5.
func statusesText(counts map[string]int64) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, status+" × "+figure.Grouped(float64(counts[status])))
	}
	return strings.Join(parts, ", ")
}

func quantilesText(q Quantiles) string {
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s",
		figure.OrNone(q.P50, figure.Micros), figure.OrNone(q.P90, figure.Micros), figure.OrNone(q.P99, figure.Micros), figure.OrNone(q.P999, figure.Micros), figure.OrNone(q.Max, figure.Micros))
}
