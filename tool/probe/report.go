package probe

import (
	"fmt"
	"io"

	"github.com/hone-go/hone/tool/figure"
)

// Report is the result of hone profile, also as JSON.
type Report struct {
	Schema         string   `json:"schema"`
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Of             string   `json:"of"`
	Against        *string  `json:"against"` // null: none
	*View
	Lines []Line `json:"lines"`

	left int // functions that are not shown
}

// NewReport reports on a view of a profile of that name, or of one against another.
func NewReport(v *View, names []string) *Report {
	r := &Report{Schema: figure.SchemaProfile, Valid: true, InvalidReasons: []string{}, Of: names[0], View: v}
	r.doubt(names[0], v.Doubts)
	if len(names) > 1 {
		r.Against = &names[1]
		r.doubt(names[1], v.DoubtsBefore)
	}
	return r
}

// Largest lists the n largest functions; 0 means all.
func (r *Report) Largest(n int) {
	r.Lines = r.Top()
	if r.left = len(r.Lines) - n; n > 0 && r.left > 0 {
		r.Lines = r.Lines[:n]
	}
}

// doubt records that a load was not valid.
func (r *Report) doubt(name string, doubts []string) {
	for _, doubt := range doubts {
		r.Valid, r.InvalidReasons = false, append(r.InvalidReasons, "the load of "+name+" was not valid: "+doubt)
	}
}

// all formats the total with its unit.
func (r *Report) all() string {
	if r.Kind == CPU {
		return figure.Digits(r.Total) + " CPU-seconds " + string(r.Per)
	}
	return r.amount(r.Total) + " allocated " + string(r.Per)
}

// writeHead describes what is shown.
func (r *Report) writeHead(w io.Writer) {
	if !r.Valid {
		figure.WriteValidity(w, r.Valid, r.InvalidReasons)
	}
	fmt.Fprintf(w, "%s of %s: %s%s\n", r.Kind, r.Of, r.all(), r.from(r.Samples, r.Total))
	if r.Before != nil {
		fmt.Fprintf(w, "against %s: %s%s, so %s\n", *r.Against, r.amount(*r.Before), r.from(r.SamplesBefore, *r.Before), r.change(r.Total-*r.Before))
	}
	fmt.Fprintln(w)
}

// from formats the number of samples and the value of one, of which all values are
// multiples.
func (r *Report) from(samples *int64, total float64) string {
	if samples == nil || *samples == 0 {
		return ""
	}
	return fmt.Sprintf(", from %s samples of %s", figure.Grouped(float64(*samples)), r.amount(total/float64(*samples)))
}

// WriteTop writes the table of functions.
func (r *Report) WriteTop(w io.Writer) {
	r.writeHead(w)
	if few, _ := r.Few(); few != "" {
		fmt.Fprintf(w, "note: %s\n\n", few)
	}
	table := figure.Table{Head: []string{"flat", "%", "cum", "%", "function"}, Right: "rrrr"}
	if r.Against != nil {
		table = figure.Table{Head: []string{"flat grew", "flat", "before", "cum grew", "cum", "before", "function"}, Right: "rrrrrr"}
	}
	for _, l := range r.Lines {
		if r.Against != nil {
			table.Add(r.change(l.FlatGrowth()), r.amount(l.Flat), r.amount(*l.FlatBefore), r.change(l.CumGrowth()), r.amount(l.Cum), r.amount(*l.CumBefore), l.Function)
			continue
		}
		table.Add(r.amount(l.Flat), r.share(l.Flat), r.amount(l.Cum), r.share(l.Cum), l.Function)
	}
	table.Text(w)
	if r.left > 0 {
		fmt.Fprintf(w, "and %d more; --top 0 shows all\n", r.left)
	}
}

// amount formats a value with three significant digits and its unit.
func (r *Report) amount(v float64) string {
	if v == 0 {
		return "0"
	}
	if r.Unit == "B" {
		return figure.Bytes(v)
	}
	return figure.Digits(v) + " " + r.Unit
}

// change formats a difference with its sign.
func (r *Report) change(v float64) string {
	if v > 0 {
		return "+" + r.amount(v)
	}
	return r.amount(v)
}

func (r *Report) share(v float64) string {
	return fmt.Sprintf("%.1f", 100*v/r.Total)
}
