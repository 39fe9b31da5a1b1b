// Package articles_test checks the pages of the five articles.
package articles_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is a page without its code, and the code.
type page struct {
	name, prose string
	headings    []int // their levels
	blocks      []string
	numbers     []string // in the prose, sorted
}

func read(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{name: name}
	var prose, block strings.Builder
	fenced := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```") && fenced:
			p.blocks = append(p.blocks, block.String())
			block.Reset()
			fenced = false
		case strings.HasPrefix(line, "```"):
			block.WriteString(line)
			fenced = true
		case fenced:
			block.WriteString(line)
		default:
			if level := strings.Index(line, "# "); level >= 0 && strings.Trim(line[:level], "#") == "" {
				p.headings = append(p.headings, level+1)
			}
			prose.WriteString(line)
		}
	}
	p.prose = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(prose.String(), "]")
	p.numbers = regexp.MustCompile(`\d[\d,.]*\d|\d`).FindAllString(p.prose, -1)
	slices.Sort(p.numbers)
	return p
}

func folders(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("[1-5]-*")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all
}

// TestPages compares the two languages of each page, and holds their lengths.
func TestPages(t *testing.T) {
	for _, dir := range append(folders(t), ".") {
		en, zh := read(t, filepath.Join(dir, "README.md")), read(t, filepath.Join(dir, "README.zh.md"))
		if !slices.Equal(en.headings, zh.headings) {
			t.Errorf("%s: other headings in %s: %v and %v", en.name, zh.name, en.headings, zh.headings)
		}
		for i, block := range en.blocks {
			if i >= len(zh.blocks) || zh.blocks[i] != block {
				t.Errorf("%s: its block %d is not in %s:\n%s", en.name, i, zh.name, block)
			}
		}
		if len(zh.blocks) != len(en.blocks) {
			t.Errorf("%s: %d blocks, and %d in %s", en.name, len(en.blocks), len(zh.blocks), zh.name)
		}
		if !slices.Equal(en.numbers, zh.numbers) {
			t.Errorf("%s: other figures in %s:\n%v\n%v", en.name, zh.name, en.numbers, zh.numbers)
		}
		words, han := 700, 1400
		switch dir {
		case ".":
			words, han = 250, 500
		case "5-avatar":
			words, han = 900, 1800
		}
		if n := len(strings.Fields(en.prose)); n > words {
			t.Errorf("%s has %d words, of %d", en.name, n, words)
		}
		n := 0
		for _, r := range zh.prose {
			if unicode.Is(unicode.Han, r) {
				n++
			}
		}
		if n > han {
			t.Errorf("%s has %d Han characters, of %d", zh.name, n, han)
		}
	}
}

// TestStagesAreShort holds the length of the stages.
func TestStagesAreShort(t *testing.T) {
	mains, err := filepath.Glob("[1-5]-*/*/main*.go")
	if err != nil || len(mains) < 4 {
		t.Fatal(mains, err)
	}
	for _, name := range mains {
		if n := len(lines(t, name)); n > 120 {
			t.Errorf("%s has %d lines, of 120", name, n)
		}
	}
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestDifferences checks that a page shows all that differs between two stages, apart from comments and
// imports: every line that it marks is in the one and not in the other, and no line is missing.
func TestDifferences(t *testing.T) {
	shown := 0
	for _, dir := range folders(t) {
		for _, block := range read(t, filepath.Join(dir, "README.md")).blocks {
			if !strings.HasPrefix(block, "```diff") {
				continue
			}
			shown++
			marked := map[byte][]string{}
			var from, to string
			for _, line := range strings.Split(block, "\n")[1:] {
				switch {
				case strings.HasPrefix(line, "--- "):
					from = line[4:]
				case strings.HasPrefix(line, "+++ "):
					to = line[4:]
				case line != "":
					marked[line[0]] = append(marked[line[0]], strings.TrimSpace(line[1:]))
				}
			}
			before, after := code(lines(t, filepath.Join(dir, from))), code(lines(t, filepath.Join(dir, to)))
			for _, c := range []struct {
				mark       byte
				this, that []string
			}{{'-', before, after}, {'+', after, before}} {
				for _, line := range c.this {
					if !slices.Contains(c.that, line) && !slices.Contains(marked[c.mark], line) {
						t.Errorf("%s: %s → %s does not show %c%s", dir, from, to, c.mark, line)
					}
				}
				for _, line := range marked[c.mark] {
					if !slices.Contains(c.this, line) {
						t.Errorf("%s: %s → %s shows %c%s, which is not there", dir, from, to, c.mark, line)
					}
				}
			}
		}
	}
	if shown < 2 {
		t.Errorf("%d differences are shown", shown)
	}
}

// code returns the lines of a program without imports, comments, blanks and indentation.
func code(all []string) (rest []string) {
	imports := false
	for _, line := range all {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "import"):
			imports = strings.HasSuffix(line, "(")
		case imports:
			imports = line != ")"
		case line != "" && !strings.HasPrefix(line, "//"):
			rest = append(rest, line)
		}
	}
	return rest
}
