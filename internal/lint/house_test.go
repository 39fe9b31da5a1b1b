package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A rule checks the whole tree and reports what it finds wrong.
type rule struct {
	name     string
	check    func(*tree) []finding
	examples []example
}

// An example is a small tree and the findings that the rule must report.
type example struct {
	name  string
	files string   // "-- path --" lines, each followed by that file's text
	want  []string // how each finding begins, in order; none: the tree is accepted
}

// A finding is one violation of a rule at one place.
type finding struct {
	path string
	line int
	text string // what is wrong; and what to do
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text)
}

// house is the list of all rules.
var house = slices.Concat(
	importRules,
	stateRules,
	nameRules,
	commentRules,
	errorRules,
	testRules,
	sizeRules,
	makeRules,
	textRules,
	moduleRules,
)

// TestHouse checks the repository against all rules.
func TestHouse(t *testing.T) {
	tree := repository(t)
	for _, f := range tree.broken {
		t.Errorf("%v", f)
	}
	for _, r := range house {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(tree) {
				t.Errorf("%v", f)
			}
		})
	}
}

// TestRules checks that each rule can fail and can pass.
func TestRules(t *testing.T) {
	for _, r := range house {
		t.Run(r.name, func(t *testing.T) {
			bad, good := 0, 0
			for _, e := range r.examples {
				if len(e.want) > 0 {
					bad++
				} else {
					good++
				}
				t.Run(e.name, func(t *testing.T) { r.try(t, e) })
			}
			if bad == 0 || good == 0 {
				t.Errorf("%d bad and %d good examples; a rule needs one of each", bad, good)
			}
		})
	}
}

// try compares the rule's findings for an example with the expected ones.
func (r rule) try(t *testing.T, e example) {
	t.Helper()
	tree := parseTree(unpack(e.files))
	for _, f := range tree.broken {
		t.Fatalf("the example does not parse: %v", f)
	}
	var got []string
	for _, f := range r.check(tree) {
		if !strings.Contains(f.text, "; ") {
			t.Errorf("%v: does not say what to do", f)
		}
		got = append(got, f.String())
	}
	if !slices.EqualFunc(got, e.want, strings.HasPrefix) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(e.want, "\n\t"))
	}
}

// unpack splits an example's text into its files.
func unpack(archive string) map[string][]byte {
	files := make(map[string][]byte)
	path := ""
	for line := range strings.Lines(strings.TrimPrefix(archive, "\n")) {
		if inner, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			path = strings.TrimSuffix(inner, " --")
			files[path] = []byte{}
			continue
		}
		files[path] = append(files[path], line...)
	}
	return files
}
