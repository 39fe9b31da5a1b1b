package figure

import (
	"strings"
	"testing"
)

// TestTable writes one table both ways.
func TestTable(t *testing.T) {
	table := Table{Head: []string{"figure", "µs", "why"}, Right: "-r", Notes: []string{"one"}}
	table.Add("a|b", "1")
	table.Line("p99", "%d", 1234)
	table.Add("é", "12", "")
	const text = "figure    µs  why\na|b        1\np99     1234\né         12\nnote: one\n"
	const markdown = "| figure | µs | why |\n|---|--:|---|\n| `a\\|b` | 1 |\n| p99 | 1234 |\n| é | 12 |  |\n\n- one\n"
	var b strings.Builder
	if table.Text(&b); b.String() != text {
		t.Errorf("it is\n%swant\n%s", b.String(), text)
	}
	b.Reset()
	if table.Markdown(&b); b.String() != markdown {
		t.Errorf("it is\n%swant\n%s", b.String(), markdown)
	}
	b.Reset()
	if (&Table{Right: "r", Rows: [][]string{{"1", "one"}, {"20", "twenty"}}}).Text(&b); b.String() != "   1  one\n  20  twenty\n" {
		t.Errorf("without a head: %q", b.String())
	}
}
