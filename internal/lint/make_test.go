package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Patterns for the Makefile and for what names its targets: code spans and indented lines.
const (
	makeTarget  = `(?m)^([a-z][a-z.-]*):.* ## `
	makeUse     = `\$[({](\w+)[)}]`
	makeWord    = "([\\w.-]+)(?:(=)(?:'([^'\n]*)'|([^`\\s']*)))?"
	makeCommand = "(?m)(?:`|^(?:    |//\t))make((?: " + makeWord + ")+)"
)

var makeRules = []rule{
	{"doc-make", checkMake, []example{
		{
			name: "targets, variables and measurements that do not exist",
			files: strings.ReplaceAll(`
-- Makefile --
test: ## test $(PACKAGES)
bench: $(if $(WHAT),bench.$(WHAT)) ## measure
bench.peers: ## race
-- README.md --
'make tests' and 'make test race', or 'make test SIZE=2 PACKAGES=./wire':

    make bench WHAT=flies
-- pool/pool.go --
// Package pool is measured by
//
//	make pools     all of it
package pool
`, "'", "`"),
			want: []string{
				"README.md:1: make tests: ",
				"README.md:1: make race: ",
				"README.md:1: make … SIZE=: ",
				"README.md:3: make bench.flies: ",
				"pool/pool.go:3: make pools: ",
			},
		},
		{
			name: "those that do",
			files: strings.ReplaceAll(`
-- Makefile --
test: ## test $(PACKAGES)
bench: $(if $(WHAT),bench.$(WHAT)) ## measure
bench.peers: ## race
-- README.md --
|make|, |make test PACKAGES=./wire|, make sure of |make([]int, 2)|:

    make bench WHAT=peers   race the others
    make test PACKAGES='./wire ./pool'
`, "|", "`"),
		},
	}},
}

// checkMake finds targets and variables of make that pages and comments name but that the Makefile
// lacks. The changelog is left out: it speaks of the past.
func checkMake(t *tree) []finding {
	makefile := string(t.texts["Makefile"])
	targets, variables := make(map[string]bool), make(map[string]bool)
	for _, m := range regexp.MustCompile(makeTarget).FindAllStringSubmatch(makefile, -1) {
		targets[m[1]] = true
	}
	for _, m := range regexp.MustCompile(makeUse).FindAllStringSubmatch(makefile, -1) {
		variables[m[1]] = true
	}
	command, words := regexp.MustCompile(makeCommand), regexp.MustCompile(makeWord)
	var found []finding
	for _, p := range slices.Sorted(maps.Keys(t.texts)) {
		text := string(t.texts[p])
		if p == "CHANGELOG.md" || strings.HasPrefix(p, "internal/lint/") || !strings.Contains(text, "make ") {
			continue
		}
		for _, at := range command.FindAllStringSubmatchIndex(text, -1) {
			line := 1 + strings.Count(text[:at[2]], "\n")
			for _, word := range words.FindAllStringSubmatch(text[at[2]:at[3]], -1) {
				name, isVariable, value := word[1], word[2] != "", word[3]+word[4]
				switch {
				case isVariable && name == "WHAT" && !targets["bench."+value]:
					found = append(found, finding{p, line, "make bench." + value + ": the Makefile has no such target; correct the command"})
				case isVariable && !variables[name]:
					found = append(found, finding{p, line, "make … " + name + "=: the Makefile has no such variable; correct the command"})
				case !isVariable && !targets[name]:
					found = append(found, finding{p, line, "make " + name + ": the Makefile has no such target; correct the command"})
				}
			}
		}
	}
	return found
}
