package page

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/torture"
)

// tortureRow is one scenario on the page.
type tortureRow struct {
	torture.Result
	Kind, Bystanders, Process string
}

// Torture writes the page of a report of hone torture as one file that opens from disk, loads
// nothing and has no script. The same report gives the same bytes.
func Torture(w io.Writer, r *torture.Report) error {
	var rows, left []tortureRow
	for _, made := range r.Results {
		if made.Verdict == torture.NotApplicable {
			left = append(left, tortureRow{Result: made})
			continue
		}
		rows = append(rows, tortureRow{made, kindsOf[made.Verdict], felt(made.Felt), used(made.Used)})
	}
	slices.SortStableFunc(rows, func(a, b tortureRow) int { return int(b.Verdict) - int(a.Verdict) })
	var counts []map[string]any
	for _, v := range []torture.Verdict{torture.Survived, torture.Slower, torture.NotFoundOut, torture.Fell} {
		counts = append(counts, map[string]any{"Name": v.String(), "Kind": kindsOf[v], "Count": r.Count(v)})
	}
	return writeStill(w, "torture.html", map[string]any{
		"Report": r, "Rows": rows, "Left": left, "Counts": counts, "Before": felt(r.Baseline),
		"Took": figure.Lasting(time.Duration(r.Took * float64(time.Second))), "At": r.At.Format(time.DateTime) + " UTC",
	})
}

// kindsOf are the classes of the page's style sheet.
var kindsOf = map[torture.Verdict]string{torture.Survived: "good", torture.Slower: "doubtful", torture.NotFoundOut: "doubtful", torture.Fell: "bad"}

func felt(f torture.Felt) string {
	return fmt.Sprintf("median %s, worst %s of %d", figure.Micros(1e6*f.Median), figure.Micros(1e6*f.Worst), f.Asked)
}

func used(u *torture.Used) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("+%.1f MiB, %.1f s CPU", float64(u.Grown)/(1<<20), u.CPU)
}

// writeStill writes a page without a script.
func writeStill(w io.Writer, name string, values map[string]any) error {
	style, err := web.ReadFile("web/style.css")
	if err != nil {
		return err
	}
	made, err := template.ParseFS(still, "still/"+name)
	if err != nil {
		return err
	}
	values["Style"] = template.CSS(style)
	values["Policy"] = fmt.Sprintf("default-src 'none'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'", hashed(style))
	return made.Execute(w, values)
}
