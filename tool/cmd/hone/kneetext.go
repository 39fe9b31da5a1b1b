package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/load"
)

// kneeReport is knee's result, also in JSON.
type kneeReport struct {
	Schema         string      `json:"schema"`
	Valid          bool        `json:"valid"`
	InvalidReasons []string    `json:"invalid_reasons"`
	Target         string      `json:"target"`
	Axis           string      `json:"axis"`
	Unit           string      `json:"unit"`
	Knee           kneeFound   `json:"knee"`  // of all goals together
	Goals          []kneeFound `json:"goals"` // of each
	Trials         []kneeTrial `json:"trials"`
	Notes          []string    `json:"notes"`

	goals  []load.Goal
	colour bool
}

// kneeFound is a knee in JSON; what is not known is null.
type kneeFound struct {
	Goal    string   `json:"goal"`
	State   string   `json:"state"`
	Met     *float64 `json:"met"`
	Missed  *float64 `json:"missed"`
	Invalid *float64 `json:"invalid"`

	knee knee.Knee
}

// kneeTrial is a trial in JSON: a point of the curve.
type kneeTrial struct {
	Load    float64  `json:"load"`
	Full    bool     `json:"full"`
	Valid   bool     `json:"valid"`
	Met     []bool   `json:"met"` // by goal; empty when not valid
	Why     string   `json:"why"` // it missed or is not valid
	Rate    *float64 `json:"rate"`
	P50     *float64 `json:"p50_us"`
	P99     *float64 `json:"p99_us"`
	P999    *float64 `json:"p999_us"`
	Errors  int64    `json:"errors"`
	Client  *float64 `json:"client_cpu_share"`
	plotted *float64 // the figure that is drawn, in µs
}

// report is what is known until now.
func (s *kneeSearch) report(target string, colour bool) *kneeReport {
	goals := s.flags.goals.goals
	r := &kneeReport{Schema: "hone.knee/1", InvalidReasons: []string{}, Target: target, Axis: s.flags.axis.value, Unit: s.unit(),
		Trials: []kneeTrial{}, Notes: []string{}, goals: goals, colour: colour}
	found := s.plan.Find(s.made())
	r.Knee = kneeOf("all goals", found.All)
	if len(goals) == 1 {
		r.Knee.Goal = goals[0].String()
	}
	for i, k := range found.Goals {
		r.Goals = append(r.Goals, kneeOf(goals[i].String(), k))
	}
	for _, p := range s.points {
		r.Trials = append(r.Trials, p.inJSON(r.drawn()))
	}
	r.judge()
	if k := found.All; k.Again > unsteadyPart*k.Missed && k.Missed > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the server is not the same all the time: a trial at %s met the goals, one at %s did not; if it takes long to recover from too much, use a longer --cool",
			r.amount(k.Again), r.amount(k.Missed)))
	}
	return r
}

// unsteadyPart is how far above a miss a trial that met is no matter of chance.
const unsteadyPart = 1.1

func kneeOf(goal string, k knee.Knee) kneeFound {
	some := func(v float64) *float64 {
		if v == 0 {
			return nil
		}
		return &v
	}
	return kneeFound{goal, k.State.String(), some(k.Met), some(k.Missed), some(k.Invalid), k}
}

func (p kneePoint) inJSON(drawn string) kneeTrial {
	t := kneeTrial{Load: p.Load, Full: p.Full, Valid: !p.Invalid, Met: p.Met, Why: p.Why}
	if t.Met == nil {
		t.Met = []bool{}
	}
	if r := p.result; r != nil {
		t.Rate, t.P50, t.P99, t.P999 = r.Rate, r.Latency.P50, r.Latency.P99, r.Latency.P999
		t.Errors, t.Client = r.Errors["total"], r.Client.CPUShare
		t.plotted = map[string]*float64{"p50": t.P50, "p90": r.Latency.P90, "p99": t.P99, "p999": t.P999, "max": r.Latency.Max}[drawn]
	}
	return t
}

// drawn is the figure in the plot: that of the first goal for a time.
func (r *kneeReport) drawn() string {
	for _, g := range r.goals {
		if slices.Contains([]string{"p50", "p90", "p99", "p999", "max"}, g.Metric) {
			return g.Metric
		}
	}
	return "p99"
}

// judge says what the search is worth.
func (r *kneeReport) judge() {
	switch r.Knee.knee.State {
	case knee.Hidden:
		r.InvalidReasons = append(r.InvalidReasons, r.known()+r.amount(r.Knee.knee.Invalid)+" could not be offered: "+r.whyInvalid(r.Knee.knee.Invalid))
	case knee.Unfinished:
		r.InvalidReasons = append(r.InvalidReasons, r.known()+fmt.Sprintf("the search is not finished after %s; let it run to the end, or narrow it with --from and --to", figure.Counted(len(r.Trials), "trial")))
	}
	for _, g := range r.Goals {
		if r.Knee.knee.State != knee.Hidden && g.knee.State == knee.Hidden {
			r.Notes = append(r.Notes, fmt.Sprintf("the knee of %s alone is not known: %s could not be offered: %s", g.Goal, r.amount(g.knee.Invalid), r.whyInvalid(g.knee.Invalid)))
		}
	}
	r.Valid = len(r.InvalidReasons) == 0
}

// known is what is certain of a knee that is not.
func (r *kneeReport) known() string {
	if r.Knee.Met == nil {
		return "nothing is known of the knee: "
	}
	not := ""
	if r.Knee.Missed != nil {
		not = " and missed at " + r.amount(*r.Knee.Missed)
	}
	return fmt.Sprintf("all that is known is that %s is met at %s%s: ", r.Knee.Goal, r.amount(*r.Knee.Met), not)
}

func (r *kneeReport) whyInvalid(load float64) string {
	for _, t := range slices.Backward(r.Trials) {
		if t.Load == load && !t.Valid {
			return t.Why
		}
	}
	return ""
}

// whyMissed is what a load was missed for, by the last trial that did.
func (r *kneeReport) whyMissed(load float64) string {
	for _, t := range slices.Backward(r.Trials) {
		if t.Load == load && t.Valid && t.Why != "" {
			return t.Why
		}
	}
	return ""
}

// fail adds why the search could not go on.
func (r *kneeReport) fail(err error) {
	r.Valid = false
	r.InvalidReasons = append(r.InvalidReasons, err.Error())
}

// failure is the exit code.
func (r *kneeReport) failure(interrupted, quiet bool) error {
	end := &exit.Error{Code: exit.OK}
	switch {
	case interrupted && r.Knee.knee.State == knee.Unfinished:
		end = &exit.Error{Code: exit.Interrupted, Err: errors.New("knee: interrupted; " + strings.Join(r.InvalidReasons, "; "))}
	case !r.Valid:
		end = &exit.Error{Code: exit.Invalid, Err: errors.New("knee: " + strings.Join(r.InvalidReasons, "; "))}
	case r.Knee.knee.State == knee.Below:
		end = &exit.Error{Code: exit.Missed, Err: errors.New("knee: " + r.head())}
	default:
		return nil
	}
	if !quiet {
		end.Err = nil // the first line has said so
	}
	return end
}

// amount is a load with its unit.
func (r *kneeReport) amount(load float64) string {
	if r.Axis == axisConns {
		return figure.Counted(int(load), "connection")
	}
	if load < 100 {
		return fmt.Sprintf("%.4g/s", load)
	}
	return figure.Grouped(load) + "/s"
}

// head is the knee in one line.
func (r *kneeReport) head() string {
	k := r.Knee.knee
	switch k.State {
	case knee.Found:
		return fmt.Sprintf("the knee of %s is at %s; at %s: %s", r.Knee.Goal, r.amount(k.Met), r.amount(k.Missed), r.whyMissed(k.Missed))
	case knee.Above:
		return fmt.Sprintf("%s is met up to %s, the highest load; raise --to", r.Knee.Goal, r.amount(k.Met))
	case knee.Below:
		return fmt.Sprintf("%s is missed under %s already, the lowest load: %s; lower --from, or the goal", r.Knee.Goal, r.amount(k.Missed), r.whyMissed(k.Missed))
	}
	return strings.Join(r.InvalidReasons, "; ")
}

// write writes the result for people.
func (r *kneeReport) write(w io.Writer) {
	verdict := "VALID: "
	if !r.Valid {
		verdict = "INVALID: "
	}
	fmt.Fprintln(w, verdict+r.head())
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	if len(r.Goals) > 1 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "goal\tmet up to\tmissed from\tknee")
		for _, g := range append([]kneeFound{r.Knee}, r.Goals...) {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", g.Goal, figure.OrNone(g.Met, r.amount), figure.OrNone(g.Missed, r.amount), g.State)
		}
		table.Flush()
	}
	fmt.Fprintln(w)
	r.writeCurve(w)
	r.writePlot(w)
}

// writeCurve writes a line for each load, with its last trial, a full one if there
// is one.
func (r *kneeReport) writeCurve(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "load\ttrials\tanswers/s\tp50\tp99\tp99.9\t  goals")
	for _, t := range r.curve() {
		n := 0
		for _, other := range r.Trials {
			if other.Load == t.Load {
				n++
			}
		}
		goals := "met"
		if !t.Valid {
			goals = "not valid"
		} else if slices.Contains(t.Met, false) {
			goals = "missed"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t  %s\n", r.amount(t.Load), n, figure.OrNone(t.Rate, figure.Grouped), figure.OrNone(t.P50, figure.Micros), figure.OrNone(t.P99, figure.Micros), figure.OrNone(t.P999, figure.Micros), goals)
	}
	table.Flush()
}

// curve has one trial for each load, ascending: the last full one that missed, or
// else the last full one, or else the last.
func (r *kneeReport) curve() []kneeTrial {
	best := make(map[float64]kneeTrial)
	rank := func(t kneeTrial) (n int) {
		if t.Valid {
			n++
		}
		if t.Full {
			n += 2
		}
		if t.Valid && t.Full && slices.Contains(t.Met, false) {
			n += 4
		}
		return n
	}
	for _, t := range r.Trials {
		if before, known := best[t.Load]; !known || rank(t) >= rank(before) {
			best[t.Load] = t
		}
	}
	var points []kneeTrial
	for _, t := range best {
		points = append(points, t)
	}
	slices.SortFunc(points, func(a, b kneeTrial) int {
		if a.Load < b.Load {
			return -1
		}
		return 1
	})
	return points
}
