package machine

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/hone-go/hone/tool/figure"
)

// Diagnosis is the result of hone doctor, also as JSON.
type Diagnosis struct {
	Schema         string   `json:"schema"`
	Valid          bool     `json:"valid"` // false: BAD
	InvalidReasons []string `json:"invalid_reasons"`
	Verdict        string   `json:"verdict"`
	Checks         []Check  `json:"checks"`
	Machine        Facts    `json:"machine"`
}

// The verdicts.
const (
	goodMachine = "good"
	fairMachine = "fair"
	badMachine  = "bad"
)

// Diagnose returns the verdict, which is that of the worst check.
func Diagnose(checks []Check, facts Facts) *Diagnosis {
	d := &Diagnosis{Schema: figure.SchemaDoctor, InvalidReasons: []string{}, Verdict: goodMachine, Checks: checks, Machine: facts}
	for _, c := range checks {
		switch c.State {
		case Bad:
			d.InvalidReasons = append(d.InvalidReasons, c.Name+" "+c.Found+": "+c.Why)
			d.Verdict = badMachine
		case Warn:
			if d.Verdict == goodMachine {
				d.Verdict = fairMachine
			}
		}
	}
	d.Valid = d.Verdict != badMachine
	return d
}

func (d *Diagnosis) count(s State) (n int) {
	for _, c := range d.Checks {
		if c.State == s {
			n++
		}
	}
	return n
}

// summary is the verdict in one line.
func (d *Diagnosis) summary() string {
	found := []string{"no sources of noise found"}
	if d.Verdict != goodMachine {
		found = nil
	}
	if n := d.count(Bad); n > 0 {
		found = append(found, figure.Counted(n, "problem"))
	}
	if n := d.count(Warn); n > 0 {
		found = append(found, figure.Counted(n, "warning"))
	}
	if n := d.count(Unknown); n > 0 {
		found = append(found, fmt.Sprintf("%d unknown", n))
	}
	return strings.ToUpper(d.Verdict) + ": " + strings.Join(found, ", ")
}

// wrong returns the checks with problems, worst first.
func (d *Diagnosis) wrong() (checks []Check) {
	for _, state := range []State{Bad, Warn} {
		for _, c := range d.Checks {
			if c.State == state {
				checks = append(checks, c)
			}
		}
	}
	return checks
}

// Text writes the diagnosis as text.
func (d *Diagnosis) Text(w io.Writer) {
	fmt.Fprintln(w, d.summary())
	table := figure.Table{Head: []string{"state", "what", "found", "wanted"}}
	for _, c := range d.Checks {
		table.Add(string(c.State), c.Name, cmp.Or(c.Found, "–"), c.Want)
	}
	table.Text(w)
	for _, c := range d.wrong() {
		fmt.Fprintf(w, "\n%s: %s\n", c.Name, c.Why)
		if c.Fix != "" {
			fmt.Fprintln(w, "  fix:", c.Fix)
		}
	}
}
