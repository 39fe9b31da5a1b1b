package lint

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// update writes generated content instead of comparing it.
var update = flag.Bool("update", false, "write generated content into the repository")

// remake says how to regenerate content that is out of date.
const remake = "run go test ./internal/lint -update, and look at what has changed"

// wantFile compares a file of the repository with what it should be, or writes it.
func wantFile(t *testing.T, name, want string) {
	t.Helper()
	full := filepath.Join("..", "..", filepath.FromSlash(name))
	got, err := os.ReadFile(full)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	switch {
	case err == nil && string(got) == want:
	case *update:
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not match the code: %s; %s", name, firstDifference(string(got), want), remake)
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	is, should := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(is), len(should)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return fmt.Sprintf("%q", lines[i])
			}
			return "nothing"
		}
		if line(is) != line(should) {
			return fmt.Sprintf("line %d is %s and should be %s", i+1, line(is), line(should))
		}
	}
	return "no line differs"
}

// A generated section of a page stands between two comments:
//
//	<!-- made: WHAT -->
//	<!-- made end -->
//
// WHAT is "file" and a path.
const (
	madeBegin = `<!-- made: ([^>]+) -->`
	madeEnd   = "<!-- made end -->"
)

// remade is a page with its generated sections up to date.
func (t *tree) remade(page string) (string, error) {
	begin := regexp.MustCompile(`^` + madeBegin + `\n$`)
	var out strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		m := begin.FindStringSubmatch(line)
		switch {
		case inside && strings.TrimSpace(line) == madeEnd:
			inside = false
		case inside && m != nil:
			return "", fmt.Errorf("%q begins before the section above it has ended", m[1])
		case inside:
			continue
		}
		out.WriteString(line)
		if m != nil {
			inside = true
			section, err := t.made(m[1])
			if err != nil {
				return "", err
			}
			out.WriteString("\n" + section + "\n")
		}
	}
	if inside {
		return "", fmt.Errorf("a generated section has no end; write %s", madeEnd)
	}
	return out.String(), nil
}

// made generates the content of a section.
func (t *tree) made(what string) (string, error) {
	which, isFile := strings.CutPrefix(what, "file ")
	if !isFile {
		return "", fmt.Errorf("there is no section %q; use file", what)
	}
	text, known := t.texts[which]
	if !known {
		return "", fmt.Errorf("there is no file %s", which)
	}
	language := strings.TrimPrefix(filepath.Ext(which), ".")
	if language == "txt" {
		language = "go" // other people's code, which must not be built here
	}
	return "```" + language + "\n" + string(text) + "```\n", nil
}

// TestMadeSections compares the pages' generated sections with the code.
func TestMadeSections(t *testing.T) {
	tree := repository(t)
	pages := 0
	for name, text := range tree.texts {
		if !strings.HasSuffix(name, ".md") || !strings.Contains(string(text), "<!-- made: ") {
			continue
		}
		pages++
		want, err := tree.remade(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantFile(t, name, want)
	}
	if pages == 0 {
		t.Error("no page has a generated section; docs/http1.md should")
	}
}

// TestRemade checks the generation of sections, and its errors.
func TestRemade(t *testing.T) {
	tree := parseTree(unpack("-- a/b.txt --\npackage b\n"))
	for _, test := range []struct{ name, page, want, err string }{
		{"nothing made", "# Page\n", "# Page\n", ""},
		{"old text", "<!-- made: file a/b.txt -->\nold\n<!-- made end -->\nrest\n",
			"<!-- made: file a/b.txt -->\n\n```go\npackage b\n```\n\n<!-- made end -->\nrest\n", ""},
		{"no end", "<!-- made: file a/b.txt -->\n", "", "has no end"},
		{"no file", "<!-- made: file a/c.txt -->\n<!-- made end -->\n", "", "there is no file a/c.txt"},
		{"no such section", "<!-- made: poem -->\n<!-- made end -->\n", "", "no section"},
		{"two at once", "<!-- made: file a/b.txt -->\n<!-- made: file a/b.txt -->\n", "", "has ended"},
	} {
		got, err := tree.remade(test.page)
		said := fmt.Sprint(err)
		if got != test.want || (err == nil) != (test.err == "") || !strings.Contains(said, test.err) {
			t.Errorf("%s: %q, %v; want %q, %q", test.name, got, err, test.want, test.err)
		}
		if again, _ := tree.remade(got); err == nil && again != got {
			t.Errorf("%s: generated again it is %q", test.name, again)
		}
	}
}

// TestFirstDifference compares pairs of texts.
func TestFirstDifference(t *testing.T) {
	for want, texts := range map[string][]string{
		`line 2 is "b" and should be "c"`:     {"a\nb", "a\nc"},
		`line 2 is nothing and should be "c"`: {"a", "a\nc"},
		`line 1 is "" and should be "a"`:      {"", "a"},
		`line 3 is "" and should be nothing`:  {"a\nb\n", "a\nb"},
		`no line differs`:                     slices.Repeat([]string{"a\n"}, 2),
	} {
		if got := firstDifference(texts[0], texts[1]); got != want {
			t.Errorf("%q: %s, want %s", texts, got, want)
		}
	}
}
