package lint

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A figure is a number with a unit of speed or size. A multiplication, as in 2 × `total-output`, is none.
const figure = `\d[\d.,  ]*(?:[  ]?×(?:[^  ]|[  ](?:[a-z]{2}|[^\x60(\da-zA-Z])|$)|[  ]?(?:µs|ms|ns)\b|/s\b|[  ]?%|[  ]bytes (?:per|a|an|for each) (?:idle )?connection)`

// origin is what says where figures come from: a command or a test that repeats them, a stored run, or a commit.
const origin = `Benchmark[A-Z]|Test[A-Z]|figures\.md|bench/results|commit [0-9a-f]{7}|\x60(?:go test|go run|make|hone) `

// mostExcused is how many lines may have figures without a run.
const mostExcused = 40

// TestFiguresHaveRuns finds figures of the main pages, outside of code and of generated sections, that stand neither in
// nor beside a paragraph, list or table that says how to repeat them. testdata/figures.txt has those that need not, each with
// its reason: limits that the code sets, and rules.
func TestFiguresHaveRuns(t *testing.T) {
	text, err := os.ReadFile("testdata/figures.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range loneFigures(repository(t).texts, string(text)) {
		t.Error(fault)
	}
}

// excuse is a line of the list: the page, a part of the line that has the figure, and the reason.
type excuse struct {
	page, part, reason string
	used               bool
}

// loneFigures reports figures without a run, and lines of the list of excuses that excuse nothing.
func loneFigures(texts map[string][]byte, list string) (faults []string) {
	var excuses []*excuse
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			page, rest, _ := strings.Cut(line, ": ")
			part, reason, _ := strings.Cut(rest, " # ")
			excuses = append(excuses, &excuse{page: page, part: part, reason: reason})
		}
	}
	if len(excuses) > mostExcused {
		faults = append(faults, fmt.Sprintf("testdata/figures.txt has %d lines, more than %d: name a run", len(excuses), mostExcused))
	}
	find, from, code := regexp.MustCompile(figure), regexp.MustCompile(origin), regexp.MustCompile("`[^`]*`")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".md" || path.Dir(name) != "docs" && !strings.HasPrefix(name, "README.") {
			continue
		}
		all := paragraphs(string(texts[name]))
		for i, p := range all {
			if from.MatchString(strings.Join(slices.Concat(all[max(0, i-1)].lines, p.lines, all[min(len(all)-1, i+1)].lines), "\n")) {
				continue
			}
			for j, line := range p.lines {
				found := find.FindString(code.ReplaceAllString(line, "`"))
				if found == "" {
					continue
				}
				excuse := slices.IndexFunc(excuses, func(e *excuse) bool { return e.page == name && strings.Contains(line, e.part) })
				if excuse >= 0 {
					excuses[excuse].used = true
				} else {
					faults = append(faults, fmt.Sprintf("%s:%d: %q has no run; say how to repeat it in the paragraph, or why not in internal/lint/testdata/figures.txt", name, p.first+j, strings.TrimSpace(found)))
				}
			}
		}
	}
	for _, e := range excuses {
		if !e.used || e.reason == "" {
			faults = append(faults, fmt.Sprintf("testdata/figures.txt: %q of %s excuses nothing, or has no reason", e.part, e.page))
		}
	}
	return faults
}

// paragraph is some lines of a page, the first of which has that number.
type paragraph struct {
	first int
	lines []string
}

// paragraphs cuts a page at empty lines, and leaves code and generated sections out.
func paragraphs(text string) (all []paragraph) {
	fenced, made := false, false
	var now paragraph
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case strings.HasPrefix(line, "<!-- "):
			made = !strings.HasSuffix(line, " end -->")
		case fence:
			fenced = !fenced
		}
		if fenced || fence || made || strings.HasPrefix(line, "    ") || strings.TrimSpace(line) == "" {
			if now.lines != nil {
				all = append(all, now)
			}
			now = paragraph{}
			continue
		}
		if now.lines == nil {
			now.first = i + 1
		}
		now.lines = append(now.lines, line)
	}
	if now.lines != nil {
		all = append(all, now)
	}
	return all
}

// TestLoneFigures has each kind of figure with and without a run.
func TestLoneFigures(t *testing.T) {
	texts := map[string][]byte{
		"docs/a.md": []byte("# A\n\nIt takes 3.8 µs, and\nit was 1.3 × as fast.\n\nNothing.\n\nIt takes 5 ms (`go test -bench X`).\n\n```\n7 ms\n```\n\nNothing.\n\n<!-- made -->\n9 %\n<!-- made end -->\n\n" +
			"Nothing.\n\nThat is 2 × `limit`, `--for 3ms`, 2 × (a + b).\n\nA client waits for 250 ms.\n\nNothing.\n\n119 bytes for each connection, 12 % and 40,000/s\n"),
		"articles/b.md": []byte("3 ms\n"),
	}
	const list = "# why\ndocs/a.md: waits for 250 ms # a limit\ndocs/a.md: gone # a limit\n"
	want := []string{
		`docs/a.md:3: "3.8 µs" has no run`, `docs/a.md:4: "1.3 ×`, `docs/a.md:28: "119 bytes for each connection"`, `testdata/figures.txt: "gone" of docs/a.md excuses nothing`,
	}
	got := loneFigures(texts, list)
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s, want %s …", got[i], want[i])
		}
	}
}
