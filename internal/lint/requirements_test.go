package lint

import (
	"fmt"
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"
)

// requirementsFile has a line for each requirement of a protocol, and the tests that cover it.
const requirementsFile = "internal/lint/requirements.txt"

// TestRequirements checks that every test that covers a requirement exists, and that docs/evidence.md
// says how many lines there are.
func TestRequirements(t *testing.T) {
	tree := repository(t)
	covered, faults := tree.requirements(string(tree.texts[requirementsFile]))
	for _, fault := range faults {
		t.Error(fault)
	}
	if says := fmt.Sprintf("covers it: %d lines", covered); !strings.Contains(string(tree.texts["docs/evidence.md"]), says) {
		t.Errorf("docs/evidence.md does not say %q", says)
	}
}

// TestRequirementFaults has one line of each kind that is refused.
func TestRequirementFaults(t *testing.T) {
	tree := parseTree(unpack("-- http1/a_test.go --\npackage http1\n\nfunc TestA() { const c = \"a case\" }\n"))
	for line, want := range map[string]string{
		"1 | a | http1 TestA":                     "",
		"1 | a | http1 TestA/a case, http1 TestA": "",
		"1 | a | gap: why":                        "",
		"1 | a | http1 TestB":                     "there is no TestB in http1",
		"1 | a | engine TestA":                    "there is no TestA in engine",
		"1 | a | http1 TestA/another case":        `no test of http1 has the case "another case"`,
		"1 | a | http1 TestA, http1 TestA/gone":   `no test of http1 has the case "gone"`,
		"1 | a":                                   "is not SECTION | REQUIREMENT | TESTS",
		"1 | a | ":                                "is not SECTION | REQUIREMENT | TESTS",
	} {
		_, faults := tree.requirements("= P\n" + line + "\n")
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)) {
			t.Errorf("%q: %q, want %q", line, faults, want)
		}
	}
}

// requirements counts the requirements that tests cover, and reports what is wrong with the list.
func (t *tree) requirements(source string) (covered int, faults []string) {
	tests, cases := t.testsAndCases()
	for number, line := range strings.Split(source, "\n") {
		parts := strings.Split(line, " | ")
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "= "):
			continue
		case len(parts) != 3 || strings.TrimSpace(parts[2]) == "":
			faults = append(faults, fmt.Sprintf("%s:%d: %q is not SECTION | REQUIREMENT | TESTS", requirementsFile, number+1, line))
			continue
		case strings.HasPrefix(parts[2], "gap: "):
			continue
		}
		covered++
		for _, test := range splitTests(parts[2]) {
			dir, name, _ := strings.Cut(test, " ")
			name, c, hasCase := strings.Cut(name, "/")
			if !tests[dir+" "+name] {
				faults = append(faults, fmt.Sprintf("%s:%d: there is no %s in %s", requirementsFile, number+1, name, dir))
			} else if hasCase && !cases[dir+" "+c] {
				faults = append(faults, fmt.Sprintf("%s:%d: no test of %s has the case %q", requirementsFile, number+1, dir, c))
			}
		}
	}
	return covered, faults
}

// splitTests splits at the commas before a folder, since a case may have commas, too.
func splitTests(text string) (all []string) {
	for _, part := range strings.Split(text, ", ") {
		if _, name, _ := strings.Cut(part, " "); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || len(all) == 0 {
			all = append(all, part)
		} else {
			all[len(all)-1] += ", " + part
		}
	}
	return all
}

// testsAndCases returns the tests of every folder, and the strings in their files, which name cases.
func (t *tree) testsAndCases() (tests, cases map[string]bool) {
	tests, cases = make(map[string]bool), make(map[string]bool)
	for _, f := range t.files {
		if !f.isTest() {
			continue
		}
		dir := path.Dir(f.path)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				tests[dir+" "+n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					cases[dir+" "+text] = true
				}
			}
			return true
		})
	}
	return tests, cases
}
