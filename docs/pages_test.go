// Package docs runs the commands of the pages, and compares the code that they quote, names and links with
// what is there.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

// Code that a page quotes is what the file has: the page says where it is from before the block.
func TestQuotedCode(t *testing.T) {
	from := regexp.MustCompile("(?s)<!-- code: (\\S+) (func [^>]+?) -->\\s*```go\n(.*?)```")
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(names, filepath.Join(root, "examples", "rooms", "README.md")) {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range from.FindAllStringSubmatch(string(page), -1) {
			found++
			file, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil {
				t.Fatal(err)
			}
			_, rest, has := strings.Cut(string(file), "\n"+m[2]+"(")
			body, _, _ := strings.Cut(rest, "\n}\n")
			if !has || m[2]+"("+body+"\n}\n" != m[3] {
				t.Errorf("%s quotes another %q than %s has", filepath.Base(name), m[2], m[1])
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d quotes were found", found)
	}
}

// Every page is in the manual's list of pages, and in one place of it.
func TestEveryPageIsListed(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = filepath.Base(name)
		usual := 1
		if name == "README.md" {
			usual = 0
		} else if name == "start.md" {
			usual = 2 // once more at the top
		}
		if n := strings.Count(string(list), "]("+name+")"); n != usual {
			t.Errorf("docs/README.md links to %s %d times, not %d", name, n, usual)
		}
	}
}

// Every page is at most two clicks away from the README of its language.
func TestTwoClicks(t *testing.T) {
	pages, all := []string{"README.md", "README.zh.md"}, []string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || name != root && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(name) == ".md" {
			all = append(all, strings.TrimPrefix(name, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	notText, link := regexp.MustCompile("(?s)```.*?```|`[^`]*`"), regexp.MustCompile(`\]\(([^)\s#:]+)(?:#[^)\s]*)?\)`)
	next := pages
	for range 2 {
		var found []string
		for _, page := range next {
			text, err := os.ReadFile(filepath.Join(root, page))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(notText.ReplaceAllString(string(text), ""), -1) {
				to := filepath.Join(filepath.Dir(page), m[1])
				if filepath.Ext(to) == "" {
					to = filepath.Join(to, "README.md") // a folder shows its own
				}
				if slices.Contains(all, to) && !slices.Contains(pages, to) {
					pages, found = append(pages, to), append(found, to)
				}
			}
		}
		next = found
	}
	for _, page := range all {
		if !slices.Contains(pages, page) {
			t.Errorf("%s is more than two clicks away from README.md and README.zh.md", page)
		}
	}
}

// Links to a heading lead to one: internal/lint checks only that the files exist.
func TestAnchors(t *testing.T) {
	spans, link := regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`\]\(([^)\s#]*)#([^)\s]+)\)`)
	unlinked := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	headings := make(map[string]map[string]bool)
	read := func(name string) (lines []string) { // outside blocks of code
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			} else if !fenced {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	has := func(name, anchor string) bool {
		if headings[name] == nil {
			headings[name] = make(map[string]bool)
			for _, line := range read(name) {
				if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
					title = strings.ToLower(notInAnchors.ReplaceAllString(unlinked.ReplaceAllString(strings.TrimSpace(title), "$1"), ""))
					headings[name][strings.ReplaceAll(title, " ", "-")] = true
				}
			}
		}
		return headings[name][anchor]
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for _, page := range append(pages, root+"/README.md", root+"/README.zh.md", root+"/bench/README.md", root+"/deploy/README.md", root+"/observe/README.md",
		root+"/articles/README.md", root+"/articles/README.zh.md", root+"/articles/1-server/README.md", root+"/articles/1-server/README.zh.md",
		root+"/articles/2-pools/README.md", root+"/articles/3-contexts/README.md", root+"/articles/4-connections/README.md", root+"/articles/5-avatar/README.md", root+"/internal/servetest/results.md") {
		for _, line := range read(page) {
			for _, m := range link.FindAllStringSubmatch(spans.ReplaceAllString(line, ""), -1) {
				to := filepath.Join(filepath.Dir(page), m[1])
				if m[1] == "" {
					to = page
				}
				if strings.Contains(m[1], "://") || filepath.Ext(to) != ".md" {
					continue
				}
				if followed++; !has(to, m[2]) {
					t.Errorf("%s links to %s#%s, which has no such heading", strings.TrimPrefix(page, root+"/"), m[1], m[2])
				}
			}
		}
	}
	if followed < 50 {
		t.Errorf("only %d anchors were followed", followed)
	}
}

// Names with a capital letter inside, such as drainLinger, are names of the code. The pages on its inside
// name what is there now.
func TestNamesAreInTheCode(t *testing.T) {
	word := regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	known := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, w := range word.FindAll(text, -1) {
			known[string(w)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	span, mixed := regexp.MustCompile("`([A-Za-z.]+)`"), regexp.MustCompile(`[a-z][A-Z]`)
	checked := 0
	for _, name := range []string{"architecture.md", "design.md"} {
		page, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range span.FindAllStringSubmatch(string(page), -1) {
			for _, w := range strings.Split(m[1], ".") {
				if !mixed.MatchString(w) {
					continue
				}
				if checked++; !known[w] {
					t.Errorf("%s names `%s`, which no Go file has", name, m[1])
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d names were checked", checked)
	}
}

// A command that runs benchmarks names a folder that has them: go test succeeds without any.
func TestBenchmarksAreInTheirFolder(t *testing.T) {
	command := regexp.MustCompile("go test ([^`\n]*)")
	pattern, folder := regexp.MustCompile(`-bench '?([^' ]+)'?`), regexp.MustCompile(`(?:^|\s)\./([\w/-]+)`)
	function := regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, root+"/README.md", root+"/bench/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range command.FindAllStringSubmatch(string(text), -1) {
			asked, in := pattern.FindStringSubmatch(c[1]), folder.FindStringSubmatch(c[1])
			if asked == nil || in == nil {
				continue
			}
			var names []string
			for _, from := range []string{root, root + "/bench"} {
				files, _ := filepath.Glob(filepath.Join(from, in[1], "*_test.go"))
				for _, file := range files {
					source, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range function.FindAllStringSubmatch(string(source), -1) {
						names = append(names, "Benchmark"+m[1])
					}
				}
			}
			checked++
			for wanted := range strings.SplitSeq(asked[1], "|") {
				first, _, _ := strings.Cut(wanted, "/")
				match, err := regexp.Compile(first)
				if err != nil {
					t.Errorf("%s: %q: %v", page, asked[1], err)
				} else if !slices.ContainsFunc(names, match.MatchString) {
					t.Errorf("%s: go test %s: ./%s has no benchmark that matches %s", filepath.Base(page), c[1], in[1], wanted)
				}
			}
		}
	}
	if checked < 3 {
		t.Errorf("only %d commands were checked", checked)
	}
}
