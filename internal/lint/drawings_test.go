package lint

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

// drawings are made by hand. Texts of the class n are names.
var drawings = []string{"docs/img/loops.svg", "docs/img/message.svg", "docs/img/modules.svg", "docs/img/request.svg"}

// mostOfADrawing is how many bytes a drawing may have.
const mostOfADrawing = 40 << 10

// TestDrawings looks for every name on the drawings in the tree.
func TestDrawings(t *testing.T) {
	tree := repository(t)
	words := make(map[string]bool)
	for _, f := range tree.files {
		for _, w := range regexp.MustCompile(`\w+`).FindAllString(string(tree.texts[f.path]), -1) {
			words[w] = true
		}
	}
	for _, name := range drawings {
		for _, fault := range drawingFaults(tree.texts[name], func(s string) bool { return tree.paths[s] || words[s] }) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// drawingFaults reports what a drawing lacks, and names that are not known: a path, or words with points between them.
func drawingFaults(drawing []byte, known func(string) bool) (faults []string) {
	if len(drawing) > mostOfADrawing {
		faults = append(faults, fmt.Sprintf("%d bytes, more than %d", len(drawing), mostOfADrawing))
	}
	for _, part := range []string{"<title", "<desc", "prefers-color-scheme: dark"} {
		if !strings.Contains(string(drawing), part) {
			faults = append(faults, "it has no "+part)
		}
	}
	names, isName := 0, false
	for d := xml.NewDecoder(strings.NewReader(string(drawing))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return append(faults, err.Error())
		}
		switch token := token.(type) {
		case xml.StartElement:
			isName = false
			for _, a := range token.Attr {
				isName = isName || token.Name.Local == "text" && a.Name.Local == "class" && a.Value == "n"
			}
		case xml.CharData:
			if name := strings.TrimSpace(string(token)); isName && name != "" {
				names++
				for word := range strings.SplitSeq(name, ".") {
					if !known(name) && !known(word) {
						faults = append(faults, fmt.Sprintf("the tree has no %q", name))
					}
				}
			}
		}
	}
	if names == 0 {
		faults = append(faults, "it has no names")
	}
	return faults
}

// TestDrawingFaults has a drawing with each fault.
func TestDrawingFaults(t *testing.T) {
	known := func(s string) bool { return s == "engine" || s == "Server" || s == "a/b" }
	head := `<svg><title>a</title><desc>b</desc><style>prefers-color-scheme: dark</style>`
	for drawing, want := range map[string]string{
		head + `<text class="n">engine</text><text class="n">engine.Server</text><text class="n">a/b</text><text>words</text></svg>`: "",
		head + `<text class="n">engine.Gone</text></svg>`:                               `the tree has no "engine.Gone"`,
		head + `<text>engine</text></svg>`:                                              "it has no names",
		`<svg><title>a</title><desc>b</desc><text class="n">engine</text></svg>`:        "it has no prefers-color-scheme: dark",
		head + `<text class="n">engine</text>` + strings.Repeat(" ", 40<<10) + `</svg>`: "more than 40960",
		head + `<text class="n">engine`:                                                 "unexpected EOF",
	} {
		got := strings.Join(drawingFaults([]byte(drawing), known), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.80q: %q, want %q", drawing, got, want)
		}
	}
}
