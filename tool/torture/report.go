package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/trial"
)

// Report is what became of a server.
type Report struct {
	Schema         string            `json:"schema"`
	Valid          bool              `json:"valid"`
	InvalidReasons []string          `json:"invalid_reasons"`
	Target         string            `json:"target"`
	Kind           string            `json:"kind"`
	Access         string            `json:"access"`
	Seed           uint64            `json:"seed"`
	Version        string            `json:"version"` // of hone
	At             time.Time         `json:"at"`
	Took           float64           `json:"took_seconds"`
	Own            uint64            `json:"own_memory"` // bytes that hone itself had from the system at most
	Machine        map[string]string `json:"machine"`
	Baseline       Bystanders        `json:"baseline"`
	Results        []Result          `json:"results"`
	// Against is the comparison with an earlier report; nil: none was asked for.
	Against *Changes `json:"against,omitempty"`
}

// Result is what became of a server in one scenario.
type Result struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Verdict Verdict  `json:"verdict"`
	Words   string   `json:"words"`
	Notes   []string `json:"notes,omitempty"`
	// Inputs are those with which the server was wrong, and those with which it was lenient.
	Inputs []string `json:"inputs,omitempty"`
	Tries  int      `json:"tries"`
	Took   float64  `json:"took_seconds"`
	// Bystanders is what the bystanders felt, of all scenarios that ran at the same time.
	Bystanders Bystanders `json:"bystanders"`
	// Used is nil when the process was not watched.
	Used *Used `json:"used,omitempty"`
	// Replay is the command that runs this scenario again.
	Replay string `json:"replay,omitempty"`
}

// Changes is what differs from an earlier report.
type Changes struct {
	At    time.Time `json:"at"`
	Worse []Change  `json:"worse"`
	Other []Change  `json:"other"` // better, new, or gone
}

// Change is a scenario with another verdict than before.
type Change struct {
	Name   string `json:"name"`
	Before string `json:"before"` // empty: it was not in the earlier report
	Now    string `json:"now"`    // empty: it is not in this one
}

// String returns the change in words.
func (c Change) String() string {
	switch {
	case c.Before == "":
		return c.Name + " is new: " + c.Now
	case c.Now == "":
		return c.Name + " was not tried: " + c.Before + " before"
	}
	return fmt.Sprintf("%s: %s, before %s", c.Name, c.Now, c.Before)
}

func newReport(p Plan, t *target) *Report {
	access := Outside
	if p.PID != 0 {
		access = Watched
	}
	if p.Server.Command != "" {
		access = Owned
	}
	return &Report{
		Schema: figure.SchemaTorture, Valid: true, InvalidReasons: []string{}, Target: t.String(), Kind: t.kind.String(), Access: access.String(), Seed: p.Seed,
		At: time.Now().UTC().Truncate(time.Second), Machine: trial.Environment(p.Load.Target).Strict, Results: []Result{},
	}
}

// String returns the kinds in words.
func (k Kinds) String() string {
	return cmp.Or(map[Kinds]string{
		Messages: "messages", HTTP: "HTTP", WebSocket: "WebSocket", Messages | HTTP: "messages and HTTP", HTTP | WebSocket: "HTTP and WebSocket",
	}[k], "all")
}

func (r *Report) invalid(reason string) {
	r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, reason)
}

// sort puts the results into the order of the scenarios.
func (r *Report) sort(order []Scenario) {
	place := map[string]int{}
	for i, s := range order {
		place[s.Name] = i
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return place[a.Name] - place[b.Name] })
}

// Count returns how many scenarios have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, made := range r.Results {
		if made.Verdict == v {
			n++
		}
	}
	return n
}

// Compare adds what has changed since an earlier report. Scenarios that did not apply are left out.
func (r *Report) Compare(earlier *Report) {
	before, now := earlier.verdicts(), r.verdicts()
	r.Against = &Changes{At: earlier.At, Worse: []Change{}, Other: []Change{}}
	for _, made := range slices.Concat(r.Results, earlier.Results) {
		was, is := before[made.Name], now[made.Name]
		before[made.Name] = is // once
		c := Change{Name: made.Name}
		if was != NotApplicable {
			c.Before = was.String()
		}
		if is != NotApplicable {
			c.Now = is.String()
		}
		switch {
		case was == is:
		case was != NotApplicable && is > was:
			r.Against.Worse = append(r.Against.Worse, c)
		default:
			r.Against.Other = append(r.Against.Other, c)
		}
	}
}

// verdicts returns those of all scenarios.
func (r *Report) verdicts() map[string]Verdict {
	all := map[string]Verdict{}
	for _, made := range r.Results {
		all[made.Name] = made.Verdict
	}
	return all
}

// Read reads a report that was written as JSON.
func Read(from io.Reader) (*Report, error) {
	r := new(Report)
	if err := json.NewDecoder(from).Decode(r); err != nil {
		return nil, fmt.Errorf("not a report: %w; give what hone torture --json has written", err)
	}
	if r.Schema != figure.SchemaTorture {
		return nil, fmt.Errorf("a report of the schema %q; give one of %s", r.Schema, figure.SchemaTorture)
	}
	return r, nil
}

// Summary returns the result in one line.
func (r *Report) Summary() string {
	applied := len(r.Results) - r.Count(NotApplicable)
	return fmt.Sprintf("%d of %s survived, %d slower, %d fell, %d not found out",
		r.Count(Survived), figure.Counted(applied, "scenario"), r.Count(Slower), r.Count(Fell), r.Count(NotFoundOut))
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) {
	if !r.Valid {
		figure.WriteValidity(w, r.Valid, r.InvalidReasons)
	}
	fmt.Fprintf(w, "%s (%s, %s): %s\n", r.Target, r.Kind, r.Access, r.Summary())
	fmt.Fprintf(w, "before the attacks: %v answers; seed %d; %s; hone itself took %s at most\n\n",
		r.Baseline, r.Seed, figure.Lasting(time.Duration(r.Took*1e9)), size(int64(r.Own)))
	left := 0
	for _, made := range r.Results {
		if made.Verdict == NotApplicable {
			left++
			continue
		}
		fmt.Fprintln(w, made.Line())
		for _, line := range made.Inputs {
			fmt.Fprintf(w, "  %-13s %s\n", "", line)
		}
		if made.Verdict == Slower { // a fall that did not come back is no fall, but worth knowing
			for _, note := range made.Notes {
				fmt.Fprintf(w, "  %-13s %s\n", "", note)
			}
		}
		if made.Verdict == Fell || made.Verdict == NotFoundOut {
			fmt.Fprintf(w, "  %-13s again: %s\n", "", made.Replay)
		}
	}
	if left > 0 {
		fmt.Fprintf(w, "\n%s not applicable; --json says why\n", figure.Counted(left, "scenario"))
	}
	if r.Against != nil {
		r.Against.write(w)
	}
}

// Line returns the result in a line.
func (made *Result) Line() string {
	return fmt.Sprintf("%-13s  %-24s %s", made.Verdict, made.Name, made.Words)
}

func (c *Changes) write(w io.Writer) {
	fmt.Fprintf(w, "\nagainst the report of %s: ", c.At.Format(time.DateTime))
	if len(c.Worse)+len(c.Other) == 0 {
		fmt.Fprintln(w, "the same verdicts")
		return
	}
	fmt.Fprintf(w, "%d worse\n", len(c.Worse))
	for _, change := range c.Worse {
		fmt.Fprintf(w, "  WORSE  %v\n", change)
	}
	for _, change := range c.Other {
		fmt.Fprintf(w, "         %v\n", change)
	}
}
