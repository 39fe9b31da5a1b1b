package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/bench/report"
)

// sectionNames say what a section of the suite tests.
var sectionNames = map[int]string{
	1: "framing", 2: "pings and pongs", 3: "reserved bits", 4: "opcodes", 5: "fragmentation", 6: "UTF-8",
	7: "closing", 9: "limits and speed", 10: "miscellaneous", 12: "compression, many sizes", 13: "compression, parameters",
}

// tally counts how cases went. Each is one of the first five; unclean are those of them
// whose connection did not close as the suite expects.
type tally struct {
	ok, informational, nonStrict, failed, missing, unclean int
}

// tallyOf counts outcomes.
func tallyOf(of outcomes) (t tally) {
	for _, o := range of {
		t.add(o)
	}
	return t
}

func (t *tally) add(o outcome) {
	switch o.Behavior {
	case "OK":
		t.ok++
	case "INFORMATIONAL":
		t.informational++
	case "NON-STRICT":
		t.nonStrict++
	case "UNIMPLEMENTED": // the peer did not agree to compression as the case needs it
		t.missing++
	default:
		t.failed++
	}
	if o.Behavior != "UNIMPLEMENTED" && o.Close != "OK" && o.Close != "INFORMATIONAL" {
		t.unclean++
	}
}

// String is the tally in words, without what is zero.
func (t tally) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{t.ok, "OK"}, {t.informational, "informational"}, {t.nonStrict, "non-strict"}, {t.failed, "failed"},
		{t.missing, "not negotiated"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", p.what))
		}
	}
	if t.unclean > 0 {
		parts = append(parts, fmt.Sprint("of these unclean: ", t.unclean))
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// clean reports whether package websocket may have this tally.
func (t tally) clean() bool {
	return t.nonStrict == 0 && t.failed == 0 && t.unclean == 0
}

// results are of one run of this command.
type results struct {
	suite, peers string
	machine      report.Machine
	runs         []agentRun
}

type agentRun struct {
	agent
	outcomes
}

func (r *results) add(a agent, of outcomes) {
	r.runs = append(r.runs, agentRun{a, of})
}

// ours says what package websocket has not passed, or "".
func (r *results) ours() string {
	var bad []string
	for _, run := range r.runs {
		if t := tallyOf(run.outcomes); run.ours && (!t.clean() || len(run.outcomes) == 0) {
			bad = append(bad, fmt.Sprintf("%s: %v", run.name, t))
		}
	}
	return strings.Join(bad, "; ")
}

// section is the first number of a case.
func section(id string) int {
	first, _, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(first)
	return n
}

// byNumber orders cases as the suite does: 1.10 comes after 1.9.
func byNumber(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
}

// markdown is the page.
func (r *results) markdown() string {
	commit := r.machine.Commit
	if r.machine.Changed {
		commit += " with changes"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The Autobahn test suite against websocket\n\n"+
		"How package websocket, and two other libraries as controls, do in the [Autobahn](https://github.com/crossbario/autobahn-testsuite) test suite for WebSocket. "+
		"Written by `make autobahn`: %s; hone at %s; %s.\n\n"+
		"Informational cases have no right answer. Non-strict is a pass that leaves a recommendation out. Unclean is a connection that did not close as expected, whatever came before. "+
		"Not negotiated are compression parameters that the agent declines, so that the case does not run. "+
		"The controls check UTF-8 in their handlers, since gorilla and coder leave it to their users.\n\n", r.suite, commit, r.peers)
	fmt.Fprint(&b, "| agent | cases | OK | informational | non-strict | failed | not negotiated | unclean |\n|---|---|---|---|---|---|---|---|\n")
	for _, run := range r.runs {
		t := tallyOf(run.outcomes)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", run.name, len(run.outcomes), t.ok, t.informational, t.nonStrict, t.failed, t.missing, t.unclean)
	}
	r.sections(&b)
	r.exceptions(&b)
	return b.String()
}

// sections is the table of sections.
func (r *results) sections(b *strings.Builder) {
	counts := make(map[int]map[string]*tally)
	for _, run := range r.runs {
		for id, o := range run.outcomes {
			n := section(id)
			if counts[n] == nil {
				counts[n] = make(map[string]*tally)
			}
			if counts[n][run.name] == nil {
				counts[n][run.name] = new(tally)
			}
			counts[n][run.name].add(o)
		}
	}
	fmt.Fprint(b, "\n## Sections\n\n| section |")
	for _, run := range r.runs {
		fmt.Fprintf(b, " %s |", run.name)
	}
	fmt.Fprint(b, "\n|---|", strings.Repeat("---|", len(r.runs)), "\n")
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "| %d %s |", n, sectionNames[n])
		for _, run := range r.runs {
			var t tally
			if counted := counts[n][run.name]; counted != nil {
				t = *counted
			}
			fmt.Fprintf(b, " %v |", t)
		}
		fmt.Fprintln(b)
	}
}

// exceptions lists each case that is not OK.
func (r *results) exceptions(b *strings.Builder) {
	fmt.Fprint(b, "\n## Cases that are not OK\n\n")
	for _, run := range r.runs {
		kinds := make(map[string][]string)
		for id, o := range run.outcomes {
			kind := strings.ToLower(o.Behavior)
			if kind == "unimplemented" {
				kind = "not negotiated"
			} else if o.Close != "OK" && o.Close != "INFORMATIONAL" {
				kind += ", close " + strings.ToLower(o.Close)
			}
			if kind != "ok" {
				kinds[kind] = append(kinds[kind], id)
			}
		}
		fmt.Fprintf(b, "- **%s**: ", run.name)
		var parts []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			parts = append(parts, kind+": "+ranges(kinds[kind]))
		}
		if len(parts) == 0 {
			parts = []string{"none"}
		}
		fmt.Fprintln(b, strings.Join(parts, "; "))
	}
}

// ranges names cases in short: 1.1.1 to 1.1.3 are "1.1.1–3".
func ranges(ids []string) string {
	slices.SortFunc(ids, byNumber)
	var parts []string
	for i := 0; i < len(ids); {
		head, last := splitLast(ids[i])
		j := i + 1
		for ; j < len(ids); j++ {
			if h, l := splitLast(ids[j]); h != head || l != last+j-i {
				break
			}
		}
		part := ids[i]
		if j-i > 1 {
			part += fmt.Sprint("–", last+j-i-1)
		}
		parts = append(parts, part)
		i = j
	}
	return strings.Join(parts, ", ")
}

// splitLast parts the last number of a case from what is before it.
func splitLast(id string) (head string, last int) {
	at := strings.LastIndexByte(id, '.')
	last, _ = strconv.Atoi(id[at+1:])
	return id[:at+1], last
}
