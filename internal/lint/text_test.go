package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// notInText is what no file may contain. The patterns are concatenated so that this file does not
// contain them either.
var notInText = []struct{ what, instead, pattern string }{
	{
		what:    "a package registry's host",
		instead: "leave the choice of registry to the reader's own settings",
		pattern: `\b(?:proxy\.` + `golang\.org|sum\.` + `golang\.org|goproxy\.` + `(?:io|cn)|registry\.` + `npmjs\.org|pypi\.` + `org|deb\.` + `debian\.org)\b`,
	},
	{
		what:    "one machine's own path",
		instead: "write it relative to the repository",
		pattern: `(?:^|[^\w./~-])/` + `(?:work|root|home/\w+|Users/\w+)/`,
	},
}

// notInWords are phrases that read as if translated, and what to write instead. They are
// concatenated for the same reason.
var notInWords = []struct{ instead, pattern string }{
	{`say what the page is for, in one sentence`, `(?i)\bfor ` + `(?:somebody (?:who|that)|whoever)\b`},
	{`write "the result", or what happened`, `(?i)\b(?:what ` + `came of|came ` + `of it)\b`},
	{`write the number`, `(?i)\bso and ` + `so many\b`},
	{`write "see X"`, `(?i), which ` + `see\b`},
	{`say how much`, `(?i)\bthat much ` + `of it\b`},
	{`write "anything other than", or "is not a"`, `(?i)\b(?:what|that|which) (?:is|are|was|were) no (?:[a-z]+)\b`},
	{`write "retransmits"`, `(?i)\bsegments sent ` + `again\b`},
	{`write "steal"`, `(?i)\btaken by the ` + `host\b`},
	{`write "self-contained"`, `(?i)\bneeds? ` + `nobody\b`},
	{`write "headroom"`, `(?i)\bone ` + `dares\b`},
	{`write "repository layout"`, `(?i)\brooms of the ` + `house\b`},
	{`write "results vary from trial to trial"`, `(?i)\bnow so, ` + `now so\b`},
	{`write "sources of noise"`, `(?i)\bstands? in the way of a ` + `good\b`},
}

var textRules = []rule{
	{"words", checkWords, []example{
		{
			name:  "phrases to replace",
			files: "-- docs/a.md --\nFor " + "somebody who\nreads what " + "is no file, which " + "see.",
			want: []string{
				"docs/a.md:1: the phrase \"For " + "somebody who\"; ",
				"docs/a.md:2: the phrase \", which " + "see\"; ",
				"docs/a.md:2: the phrase \"what " + "is no file\"; ",
			},
		},
		{
			name:  "plain words",
			files: "-- docs/a.md --\nwhat is no longer used, and that is no more than recommended",
		},
	}},
	{"doc-links", checkDocLinks, []example{
		{
			name: "broken links",
			files: `
-- README.md --
See [the design](docs/plan.md#rooms) and ![a picture](docs/race.svg "the race").

[above]: ../elsewhere.md

    $ go run -race ./examples/nothing -demo
-- docs/protocol.md --
Back to [start](README.md).`,
			want: []string{
				"README.md:1: docs/plan.md does not exist; ",
				"README.md:1: docs/race.svg does not exist; ",
				"README.md:3: ../elsewhere.md does not exist; ",
				"README.md:5: go run ./examples/nothing: no such folder; ",
				"docs/protocol.md:1: docs/README.md does not exist; ",
			},
		},
		{
			name: "working links",
			files: strings.ReplaceAll(`
-- README.md --
See [the codes](docs/protocol.md#codes), [below](#test), [Go](https://go.dev/doc), [me](/README.md)
and the 'map[string](int)' of the type.

[wire]: wire/

'''go
f := table[key](argument)
'''

    $ go run ./examples/upper -addr :0 and 'go run ./examples/upper', go run ./...
-- docs/protocol.md --
Back to [start](../README.md) and [to a name](with%20blank.md).
-- docs/with blank.md --
-- wire/wire.go --
package wire
-- examples/upper/main.go --
package main
`, "'", "`"),
		},
	}},
	{"doc-tests", checkDocTests, []example{
		{
			name: "tests that do not exist",
			files: strings.ReplaceAll(`
-- docs/limits.md --
It is so ('TestLimit', 'BenchmarkOf/Size' in [pool](../pool)), and so ('TestGone').

    go test -run TestLost ./pool ./pond
-- pool/pool_test.go --
package pool

func TestLimit() {}
`, "'", "`"),
			want: []string{
				"docs/limits.md:1: there is no BenchmarkOf in any _test.go; ",
				"docs/limits.md:1: there is no TestGone in any _test.go; ",
				"docs/limits.md:3: go test ./pond: no such folder; ",
			},
		},
		{
			name: "tests that exist, and words that are not tests",
			files: strings.ReplaceAll(`
-- docs/limits.md --
'TestLimit', 'BenchmarkOf/Size', 'TestMain', a Testing, 'go test -bench Of/ ./pool', TestGone
and go test ./... in words.
-- pool/pool_test.go --
package pool

func TestMain() {}

func TestLimit() {}

func BenchmarkOf() {}
`, "'", "`"),
		},
	}},
	{"hygiene", checkHygiene, []example{
		{
			name: "what only one machine has",
			files: "-- Makefile --\ndeps:\n\tGOPROXY=https://proxy." + "golang.org go mod download\n\tcp /" + "root/x .\n" +
				"-- pool/pool.go --\npackage pool // see /" + "work/notes",
			want: []string{
				"Makefile:2: names a package registry's host; ",
				"Makefile:3: names one machine's own path; ",
				"pool/pool.go:1: names one machine's own path; ",
			},
		},
		{
			name:  "what every machine has",
			files: "-- Makefile --\ndeps:\n\tgo mod download # frame/" + "work/root, https://go.dev/" + "root/\n-- logo.png --\n\x00/" + "root/",
		},
	}},
}

// Patterns for a line of Markdown.
const (
	codeSpan    = "`[^`]*`"
	inlineLink  = `\]\(\s*<?([^)\s>]+)`
	definedLink = `^\s*\[[^\]]+\]:\s+<?([^\s>]+)`
	testName    = "[`\\s(]((?:Test|Benchmark|Fuzz)[A-Z]\\w*)[`\\s/),.]"
	goTest      = "\\bgo test [^`#]*"
	testFolder  = "\\s(\\./[\\w./-]+)"
	goRun       = "\\bgo run (?:-\\S+ )*(\\./[^\\s`'\"),;]+)"
)

// checkDocLinks finds broken links and commands in Markdown files.
func checkDocLinks(t *tree) []finding {
	spans, inline := regexp.MustCompile(codeSpan), regexp.MustCompile(inlineLink)
	defined, run := regexp.MustCompile(definedLink), regexp.MustCompile(goRun)
	var found []finding
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		if path.Ext(p) != ".md" {
			continue
		}
		fenced, number := false, 0
		for line := range strings.Lines(string(t.texts[p])) {
			number++
			for _, m := range run.FindAllStringSubmatch(line, -1) {
				if dir := path.Clean(m[1]); !strings.Contains(dir, "...") && !t.paths[dir] {
					found = append(found, finding{p, number, "go run " + m[1] + ": no such folder; correct the command"})
				}
			}
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			line = spans.ReplaceAllString(line, "")
			for _, m := range slices.Concat(inline.FindAllStringSubmatch(line, -1), defined.FindAllStringSubmatch(line, -1)) {
				if target := linkTarget(p, m[1]); target != "" && !t.paths[target] {
					found = append(found, finding{p, number, target + " does not exist; correct the link"})
				}
			}
		}
	}
	return found
}

// checkDocTests finds tests, benchmarks and test folders that Markdown files name but that do not
// exist.
func checkDocTests(t *tree) []finding {
	known := make(map[string]bool)
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() {
				known[fn.Name.Name] = true
			}
		}
	}
	spans, named := regexp.MustCompile(codeSpan), regexp.MustCompile(testName)
	command, folder := regexp.MustCompile(goTest), regexp.MustCompile(testFolder)
	var found []finding
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		if path.Ext(p) != ".md" {
			continue
		}
		number := 0
		for line := range strings.Lines(string(t.texts[p])) {
			number++
			for _, span := range spans.FindAllString(line, -1) {
				for _, m := range named.FindAllStringSubmatch(span, -1) {
					if !known[m[1]] {
						found = append(found, finding{p, number, "there is no " + m[1] + " in any _test.go; name one that shows it"})
					}
				}
			}
			for _, c := range command.FindAllString(line, -1) {
				for _, m := range folder.FindAllStringSubmatch(c, -1) {
					if dir := path.Clean(m[1]); !strings.Contains(dir, "...") && !t.paths[dir] && !t.paths[path.Join("bench", dir)] {
						found = append(found, finding{p, number, "go test " + m[1] + ": no such folder; correct the command"})
					}
				}
			}
		}
	}
	return found
}

// linkTarget returns the path in the tree that a link on a page points to, or "" if it points outside
// the tree or to the page itself.
func linkTarget(page, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return link
	}
	if u.Scheme != "" || u.Host != "" || u.Path == "" {
		return ""
	}
	if inner, fromRoot := strings.CutPrefix(u.Path, "/"); fromRoot {
		return path.Clean(inner)
	}
	return path.Join(path.Dir(page), u.Path)
}

// checkHygiene finds text that is specific to one machine.
func checkHygiene(t *tree) []finding {
	var patterns []phrase
	for _, no := range notInText {
		patterns = append(patterns, newPhrase(no.pattern))
	}
	var found []finding
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		eachPhrase(t.texts[p], patterns, func(line, i int, _ string) {
			found = append(found, finding{p, line, "names " + notInText[i].what + "; " + notInText[i].instead})
		})
	}
	return found
}

// checkWords finds phrases that docs, messages and comments must not contain.
func checkWords(t *tree) []finding {
	fine := regexp.MustCompile(`(?i) no (?:longer|more|less|fewer|later|earlier|different|one)\b`)
	var patterns []phrase
	for _, no := range notInWords {
		patterns = append(patterns, newPhrase(no.pattern))
	}
	var found []finding
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		eachPhrase(t.texts[p], patterns, func(line, i int, said string) {
			if !fine.MatchString(said) {
				found = append(found, finding{p, line, fmt.Sprintf("the phrase %q; %s", said, notInWords[i].instead)})
			}
		})
	}
	return found
}

// eachPhrase calls found for each line and pattern that match.
func eachPhrase(text []byte, patterns []phrase, found func(line, pattern int, said string)) {
	lower := bytes.ToLower(text)
	var may []int
	for i, p := range patterns {
		if p.mayBeIn(lower) {
			may = append(may, i)
		}
	}
	if len(may) == 0 {
		return
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		lower := bytes.ToLower(line)
		for _, i := range may {
			if patterns[i].mayBeIn(lower) {
				if said := patterns[i].Find(line); said != nil {
					found(number, i, string(said))
				}
			}
		}
	}
}

// A phrase is a pattern that is compared only with texts that have one of its literals: finding
// those is much faster.
type phrase struct {
	*regexp.Regexp
	literals [][]byte // in lower case; every match has one of them
}

func newPhrase(pattern string) phrase {
	p := phrase{Regexp: regexp.MustCompile(pattern)}
	parsed, _ := syntax.Parse(pattern, syntax.Perl) // cannot fail: it has been compiled
	for _, l := range literals(parsed) {
		p.literals = append(p.literals, []byte(strings.ToLower(l)))
	}
	return p
}

// mayBeIn reports whether a text in lower case has one of the literals.
func (p phrase) mayBeIn(lower []byte) bool {
	has := func(l []byte) bool { return bytes.Contains(lower, l) }
	return len(p.literals) == 0 || slices.ContainsFunc(p.literals, has)
}

// literals returns strings of which every match has one, the longest that there are, or none.
func literals(r *syntax.Regexp) (all []string) {
	switch r.Op {
	case syntax.OpLiteral:
		return []string{string(r.Rune)}
	case syntax.OpCapture, syntax.OpPlus:
		return literals(r.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range r.Sub {
			some := literals(sub)
			if len(some) == 0 {
				return nil
			}
			all = append(all, some...)
		}
	case syntax.OpConcat:
		shortest := func(list []string) int {
			n := 0
			for i, s := range list {
				if i == 0 || len(s) < n {
					n = len(s)
				}
			}
			return n
		}
		for _, sub := range r.Sub {
			if some := literals(sub); shortest(some) > shortest(all) {
				all = some
			}
		}
	}
	return all
}

// TestLiterals checks what is looked for before a pattern is.
func TestLiterals(t *testing.T) {
	for pattern, want := range map[string][]string{
		`(?i)\bAb (?:c|de)\b`:           {"AB "},
		`(?:^|[^w])/(?:one|other/\w+)/`: {"ne", "ther/"}, // a common start is taken out
		`a(?:bc|b*)d`:                   {"a"},
		`\w+`:                           nil,
		`x|\w`:                          nil,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := literals(parsed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
