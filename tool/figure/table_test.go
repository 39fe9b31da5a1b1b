package figure

import (
	"strings"
	"testing"
)

// TestTable writes one table in each form.
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
	const page = "<table>\n<tr><th>figure</th><th class=\"number\">µs</th><th>why</th></tr>\n<tr><td>a|b</td><td class=\"number\">1</td></tr>\n" +
		"<tr><td>p99</td><td class=\"number\">1234</td></tr>\n<tr><td>é</td><td class=\"number\">12</td><td>&lt;b&gt;</td></tr>\n</table>\n<p>one</p>\n"
	table.Rows[2][2] = "<b>"
	if table.HTML(&b); b.String() != page {
		t.Errorf("it is\n%swant\n%s", b.String(), page)
	}
	b.Reset()
	if (&Table{Right: "r", Rows: [][]string{{"1", "one"}, {"20", "twenty"}}}).Text(&b); b.String() != "   1  one\n  20  twenty\n" {
		t.Errorf("without a head: %q", b.String())
	}
}
