package page

import (
	"bytes"
	"fmt"
	"html"
	"io"

	"github.com/hone-go/hone/tool/figure"
)

// Section is a table of a page without charts.
type Section struct {
	Heading string
	Table   *figure.Table
}

// Tables writes a page of tables as one file that opens from disk, loads nothing and has no script. The
// same tables give the same bytes.
func Tables(w io.Writer, title string, about []string, sections ...Section) error {
	style, err := web.ReadFile("web/style.css")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>%[2]s</title>
<style>%[3]s</style>
<header><div class="name"><h1>%[2]s</h1>
`, hashed(style), html.EscapeString(title), style)
	for _, line := range about {
		fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(line))
	}
	b.WriteString("</div></header>\n<main>\n")
	for _, s := range sections {
		if len(s.Table.Rows) > 0 {
			fmt.Fprintf(&b, "<section><h2>%s</h2>\n<div class=\"scroll words tables\">", html.EscapeString(s.Heading))
			s.Table.HTML(&b)
			b.WriteString("</div></section>\n")
		}
	}
	b.WriteString("</main>\n</html>\n")
	_, err = w.Write(b.Bytes())
	return err
}
