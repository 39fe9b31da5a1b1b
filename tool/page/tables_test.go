package page_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/page"
)

// TestTables: the same tables give the same bytes, and a page without a script in which nothing is HTML that a
// table has.
func TestTables(t *testing.T) {
	table := &figure.Table{Head: []string{"run", "A/name=<script>"}}
	table.Add("one", "1 <b>")
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := page.Tables(w, "main <b>", []string{"of & all"}, page.Section{Heading: "Runs", Table: table}, page.Section{Heading: "None", Table: &figure.Table{}}); err != nil {
			t.Fatal(err)
		}
	}
	text := first.String()
	if text != second.String() {
		t.Error("two pages of the same tables differ")
	}
	for _, want := range []string{"<title>main &lt;b&gt;</title>", "<p>of &amp; all</p>", "default-src 'none'; style-src 'sha256-", "<th>A/name=&lt;script&gt;</th>", "<td>1 &lt;b&gt;</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, never := range []string{"<script", "<b>", "http://", "src=", "None<"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q in it", never)
		}
	}
}
