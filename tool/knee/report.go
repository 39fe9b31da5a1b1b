package knee

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// Report is the result of hone knee, also as JSON.
type Report struct {
	Schema         string   `json:"schema"`
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Target         string   `json:"target"`
	Axis           string   `json:"axis"`
	Unit           string   `json:"unit"`
	Knee           Range    `json:"knee"`
	Trials         []Point  `json:"trials"`
	Notes          []string `json:"notes"`
	Summary        string   `json:"summary"` // the verdict in one line
	Drawn          string   `json:"drawn"`   // the metric that pictures have
	Goal           *float64 `json:"goal_us"` // for that metric

	goals []load.Goal
}

// Range is a knee in JSON; unknown values are null.
type Range struct {
	Goal    string   `json:"goal"`
	State   string   `json:"state"`
	Met     *float64 `json:"met"`
	Missed  *float64 `json:"missed"`
	Invalid *float64 `json:"invalid"`

	knee Knee
}

// Point is a trial in JSON: a point of the curve.
type Point struct {
	Load    float64  `json:"load"`
	Full    bool     `json:"full"`
	Valid   bool     `json:"valid"`
	Met     bool     `json:"met"`
	Why     string   `json:"why"` // reason for a miss or an invalid trial
	Rate    *float64 `json:"rate"`
	P50     *float64 `json:"p50_us"`
	P99     *float64 `json:"p99_us"`
	P999    *float64 `json:"p999_us"`
	Errors  int64    `json:"errors"`
	Client  *float64 `json:"client_cpu_share"`
	Plotted *float64 `json:"plotted_us"` // the drawn metric
}

// Report returns what is known so far.
func (s *Search) Report(target string) *Report {
	goals := s.Goals
	r := &Report{Schema: figure.SchemaKnee, InvalidReasons: []string{}, Target: target, Axis: s.Axis(), Unit: s.Unit(),
		Trials: []Point{}, Notes: []string{}, goals: goals}
	drawn := r.metric()
	r.Drawn = figure.Name(drawn)
	if i := slices.IndexFunc(goals, func(g load.Goal) bool { return g.Metric == drawn }); i >= 0 {
		r.Goal = &goals[i].Value
	}
	k := s.Plan.Find(s.made())
	r.Knee = rangeOf("every goal", k)
	if len(goals) == 1 {
		r.Knee.Goal = goals[0].String()
	}
	for _, p := range s.points {
		r.Trials = append(r.Trials, p.inJSON(drawn))
	}
	r.judge()
	r.Summary = r.head()
	if note := s.disturbed(); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if k.Again > unsteadyPart*k.Missed && k.Missed > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the server's capacity is not constant: a trial at %s met the goals, one at %s did not; if it recovers slowly from overload, use a longer --cool",
			r.amount(k.Again), r.amount(k.Missed)))
	}
	return r
}

// disturbed says in how many trials other programs had much of the CPU.
func (s *Search) disturbed() string {
	n, last := 0, ""
	for _, p := range s.points {
		if len(p.disturbed) > 0 {
			n, last = n+1, p.disturbed[0]
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("in %d of %s, the last time: %s", n, figure.Counted(len(s.points), "trial"), last)
}

// unsteadyPart is how far above a miss a trial that met the goals cannot be chance.
const unsteadyPart = 1.1

func rangeOf(goal string, k Knee) Range {
	some := func(v float64) *float64 {
		if v == 0 {
			return nil
		}
		return &v
	}
	return Range{goal, k.State.String(), some(k.Met), some(k.Missed), some(k.Invalid), k}
}

func (p measured) inJSON(drawn string) Point {
	t := Point{Load: p.Load, Full: p.Full, Valid: !p.Invalid, Met: p.Met && !p.Invalid, Why: p.Why}
	if r := p.result; r != nil {
		t.Rate, t.P50, t.P99, t.P999 = r.Rate, r.Latency.P50, r.Latency.P99, r.Latency.P999
		t.Errors, t.Client = r.Errors["total"], r.Client.CPUShare
		t.Plotted = r.Latency.Named(drawn)
	}
	return t
}

// Outcome returns "met", "missed" or "not valid".
func (t Point) Outcome() string {
	switch {
	case !t.Valid:
		return "not valid"
	case !t.Met:
		return "missed"
	}
	return "met"
}

// kind is that of the artefact that stores a search.
const kind = "knee"

// Artefact returns the search as it is stored with a sample, where Of finds it.
func (r *Report) Artefact() record.Artefact {
	data, _ := json.Marshal(r) // cannot fail: trials have no NaN
	return record.Artefact{Kind: kind, Name: "knee.json", Data: data}
}

// Of returns the search of a run that hone knee stored; nil for other runs.
func Of(run *record.Run) *Report {
	for _, s := range run.Samples {
		for _, a := range s.Artefacts {
			r := new(Report)
			if a.Kind == kind && json.Unmarshal(a.Data, r) == nil {
				return r
			}
		}
	}
	return nil
}

// metric returns the metric to draw: that of the first goal for a time.
func (r *Report) metric() string {
	for _, g := range r.goals {
		if g.IsTime() && !strings.HasPrefix(g.Metric, "service.") {
			return g.Metric
		}
	}
	return "p99"
}

// judge sets whether the result is valid.
func (r *Report) judge() {
	switch r.Knee.knee.State {
	case Hidden:
		r.InvalidReasons = append(r.InvalidReasons, r.known()+r.amount(r.Knee.knee.Invalid)+" could not be offered: "+r.why(r.Knee.knee.Invalid, false))
	case Unfinished:
		r.InvalidReasons = append(r.InvalidReasons, r.known()+fmt.Sprintf("the search did not finish after %s; let it run to the end, or narrow it with --from and --to", figure.Counted(len(r.Trials), "trial")))
	}
	r.Valid = len(r.InvalidReasons) == 0
}

// known describes what is certain about an unknown knee.
func (r *Report) known() string {
	if r.Knee.Met == nil {
		return "nothing is known about the knee: "
	}
	not := ""
	if r.Knee.Missed != nil {
		not = " and missed at " + r.amount(*r.Knee.Missed)
	}
	n := 0
	for _, t := range r.Trials {
		if t.Load == *r.Knee.Met && t.Outcome() == "met" {
			n++
		}
	}
	return fmt.Sprintf("it is only known that %s is met at %s (in %s)%s: ", r.Knee.Goal, r.amount(*r.Knee.Met), figure.Counted(n, "trial"), not)
}

// why returns why the last trial at this load missed, or was not valid.
func (r *Report) why(load float64, valid bool) string {
	for _, t := range slices.Backward(r.Trials) {
		if t.Load == load && t.Valid == valid && t.Why != "" {
			return t.Why
		}
	}
	return ""
}

// Fail adds why the search could not go on.
func (r *Report) Fail(err error) {
	r.Valid = false
	r.InvalidReasons = append(r.InvalidReasons, err.Error())
	r.Summary = r.head()
}

// Failure returns the exit code.
func (r *Report) Failure(interrupted, quiet bool) error {
	reasons, said := strings.Join(r.InvalidReasons, "; "), !quiet // by the report's first line
	switch {
	case interrupted && r.Knee.knee.State == Unfinished:
		return exit.Verdict(exit.Interrupted, said, "knee: interrupted; %s", reasons)
	case !r.Valid:
		return exit.Verdict(exit.Invalid, said, "knee: %s", reasons)
	case r.Knee.knee.State == Below:
		return exit.Verdict(exit.Missed, said, "knee: %s", r.Summary)
	}
	return nil
}

// amount formats a load with its unit.
func (r *Report) amount(load float64) string {
	if r.Axis == AxisConns {
		return figure.Counted(int(load), "connection")
	}
	if load < 100 {
		return fmt.Sprintf("%.4g/s", load)
	}
	return figure.Grouped(load) + "/s"
}

// head describes the knee in one line.
func (r *Report) head() string {
	k := r.Knee.knee
	switch k.State {
	case Found:
		return fmt.Sprintf("the knee of %s is at %s; at %s: %s", r.Knee.Goal, r.amount(k.Met), r.amount(k.Missed), r.why(k.Missed, true))
	case Above:
		return fmt.Sprintf("%s is met up to %s, the highest load; raise --to", r.Knee.Goal, r.amount(k.Met))
	case Below:
		return fmt.Sprintf("%s is missed even at %s, the lowest load: %s; use a lower --from or a weaker goal", r.Knee.Goal, r.amount(k.Missed), r.why(k.Missed, true))
	}
	return strings.Join(r.InvalidReasons, "; ")
}

// Write writes the result as text.
func (r *Report) Write(w io.Writer) {
	verdict := "VALID: "
	if !r.Valid {
		verdict = "INVALID: "
	}
	fmt.Fprintln(w, verdict+r.Summary)
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	fmt.Fprintln(w)
	r.writeCurve(w)
}

// writeCurve writes a line per load, for its last trial, preferably a full one.
func (r *Report) writeCurve(w io.Writer) {
	table := figure.Table{Head: []string{"load", "trials", "answers/s", "p50", "p99", "p99.9", "goals"}, Right: "rrrrrr"}
	for _, t := range r.curve() {
		n := 0
		for _, other := range r.Trials {
			if other.Load == t.Load {
				n++
			}
		}
		table.Add(r.amount(t.Load), strconv.Itoa(n), figure.OrNone(t.Rate, figure.Grouped), figure.OrNone(t.P50, figure.Micros), figure.OrNone(t.P99, figure.Micros), figure.OrNone(t.P999, figure.Micros), t.Outcome())
	}
	table.Text(w)
}

// curve returns one trial per load, ascending: the last full one that missed, or else the
// last full one, or else the last.
func (r *Report) curve() []Point {
	best := make(map[float64]Point)
	rank := func(t Point) (n int) {
		if t.Valid {
			n++
		}
		if t.Full {
			n += 2
		}
		if t.Full && t.Outcome() == "missed" {
			n += 4
		}
		return n
	}
	for _, t := range r.Trials {
		if before, known := best[t.Load]; !known || rank(t) >= rank(before) {
			best[t.Load] = t
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b Point) int { return cmp.Compare(a.Load, b.Load) })
}

// Bracket returns what is left of the search, for loads in that unit that are to be no more than width
// apart.
func (k Knee) Bracket(unit string, width float64) string {
	switch {
	case k.Met == 0 && k.Missed == 0:
		return "not met at any load yet"
	case k.Missed == 0 && k.Invalid == 0:
		return fmt.Sprintf("met at %s %s, no upper limit found yet", figure.Grouped(k.Met), unit)
	case k.Missed == 0:
		return fmt.Sprintf("met at %s %s, generator could not offer %s", figure.Grouped(k.Met), unit, figure.Grouped(k.Invalid))
	case k.Met == 0:
		return fmt.Sprintf("missed at %s %s, not met at any load yet", figure.Grouped(k.Missed), unit)
	}
	return fmt.Sprintf("met at %s, missed at %s %s: %.1f %% apart, %.1f %% wanted", figure.Grouped(k.Met), figure.Grouped(k.Missed), unit,
		100*(k.Missed/k.Met-1), 100*width)
}
