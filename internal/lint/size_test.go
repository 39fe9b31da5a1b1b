package lint

import (
	"bytes"
	"cmp"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// Large sizes are smells. mostLines is the maximum for every file. Nine of ten non-test files and
// functions must keep to the others.
const (
	mostLines    = 900
	usualLines   = 450
	usualFunc    = 35
	usualPercent = 90
	worstShown   = 5
)

var sizeRules = []rule{
	{"longest-file", eachFile(checkLongestFile), []example{
		{
			name:  "a file over the limit, and a test",
			files: fileOf("pool/pool.go", mostLines+1) + fileOf("pool/pool_test.go", mostLines+1),
			want: []string{
				"pool/pool.go:1: the file has 901 lines (at most 900); ",
				"pool/pool_test.go:1: the file has 901 lines (at most 900); ",
			},
		},
		{
			name:  "exactly at the limit",
			files: fileOf("pool/pool.go", mostLines),
		},
	}},
	{"usual-file", checkUsualFile, []example{
		{
			name:  "two of eleven too long",
			files: manyFiles(9) + fileOf("pool/longer.go", 461) + fileOf("pool/longest.go", 471),
			want: []string{
				"pool/longest.go:1: the file has 471 lines and 90% of all files should keep to 450 (they keep to 461); ",
				"pool/longer.go:1: the file has 461 lines ",
			},
		},
		{
			name:  "one of eleven too long, tests not counted",
			files: manyFiles(10) + fileOf("pool/longest.go", 471) + fileOf("pool/pool_test.go", 480),
		},
	}},
	{"usual-function", checkUsualFunction, []example{
		{
			name: "two of eleven too long",
			files: "-- pool/pool.go --\npackage pool\n" +
				strings.Repeat("func short() {}\n", 9) +
				"func (p *pool) longer() {" + blankLines(36) + "}\nfunc longest() {" + blankLines(40) + "}",
			want: []string{
				"pool/pool.go:48: longest has 41 lines and 90% of all functions should keep to 35 (they keep to 37); ",
				"pool/pool.go:11: longer has 37 lines ",
			},
		},
		{
			name: "one of eleven too long, tests not counted",
			files: "-- pool/pool.go --\npackage pool\n" +
				strings.Repeat("func short() {}\n", 10) + "func longest() {" + blankLines(40) + "}" +
				"\n-- pool/pool_test.go --\npackage pool\nfunc TestLong() {" + blankLines(50) + "}",
		},
	}},
}

func blankLines(n int) string {
	return strings.Repeat("\n", n)
}

// fileOf makes a file of package pool with that many lines.
func fileOf(path string, lines int) string {
	return "-- " + path + " --\npackage pool" + blankLines(lines)
}

// manyFiles makes n short files.
func manyFiles(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(fileOf("pool/f"+strconv.Itoa(i)+".go", 10))
	}
	return all.String()
}

// checkLongestFile finds files over the limit.
func checkLongestFile(f *file) []finding {
	if n := f.length(); n > mostLines {
		return []finding{f.finding(f.ast.Package, "the file has %d lines (at most %d); split it by theme", n, mostLines)}
	}
	return nil
}

// length is the number of lines in the file.
func (f *file) length() int {
	return bytes.Count(bytes.TrimSuffix(f.src, []byte("\n")), []byte("\n")) + 1
}

// A sized thing is a file or function and its number of lines.
type sized struct {
	file  *file
	node  ast.Node
	name  string
	lines int
}

// checkUsualFile reports the longest files if more than one in ten is too long.
func checkUsualFile(t *tree) []finding {
	var all []sized
	for _, f := range t.files {
		if !f.isTest() {
			all = append(all, sized{f, f.ast, "the file", f.length()})
		}
	}
	return tooLong(all, "files", usualLines)
}

// checkUsualFunction does the same for functions and methods.
func checkUsualFunction(t *tree) []finding {
	var all []sized
	for _, f := range t.files {
		if f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				all = append(all, sized{f, fn, fn.Name.Name, f.lines(fn.Pos(), fn.End())})
			}
		}
	}
	return tooLong(all, "functions", usualFunc)
}

// tooLong lists the longest ones if the 90th percentile is above the limit.
func tooLong(all []sized, what string, limit int) []finding {
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b sized) int { return cmp.Compare(b.lines, a.lines) })
	usual := all[len(all)*(100-usualPercent)/100].lines
	if usual <= limit {
		return nil
	}
	var found []finding
	for _, s := range all[:min(worstShown, len(all))] {
		if s.lines > limit {
			found = append(found, s.file.finding(s.node.Pos(),
				"%s has %d lines and %d%% of all %s should keep to %d (they keep to %d); take a part out that has a name of its own",
				s.name, s.lines, usualPercent, what, limit, usual))
		}
	}
	return found
}
