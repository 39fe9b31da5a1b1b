package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sectionNames say what a section of the suite tests.
var sectionNames = map[int]string{
	1: "framing", 2: "pings and pongs", 3: "reserved bits", 4: "opcodes", 5: "fragmentation", 6: "UTF-8",
	7: "closing", 9: "limits and speed", 10: "miscellaneous", 12: "compression, many sizes", 13: "compression, parameters",
}

// allCases is how many cases these sections have.
const allCases = 517

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
	return t.ok > 0 && t.nonStrict == 0 && t.failed == 0 && t.unclean == 0
}

// results are what is known of each agent.
type results struct {
	runs []agentRun
}

// agentRun is what the suite says of an agent.
type agentRun struct {
	Agent    string   `json:"agent"`
	Version  string   `json:"version"` // of the agent
	Suite    string   `json:"suite"`
	Outcomes outcomes `json:"outcomes"`
}

// load reads results that were stored; without a file there are none.
func load(file string) (*results, error) {
	r := new(results)
	if file == "" {
		return r, nil
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err == nil:
		err = json.Unmarshal(text, &r.runs)
	}
	return r, err
}

// save stores them, if there is a file to.
func (r *results) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.runs, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o666)
}

// MarshalJSON is the outcomes in short: what was said of a case and of its close, and
// the cases.
func (of outcomes) MarshalJSON() ([]byte, error) {
	short := make(map[string]string)
	for _, id := range slices.SortedFunc(maps.Keys(of), byNumber) {
		o := of[id]
		kind := o.Behavior + "/" + o.Close
		short[kind] = strings.TrimSpace(short[kind] + " " + id)
	}
	return json.Marshal(short)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (of *outcomes) UnmarshalJSON(text []byte) error {
	var short map[string]string
	if err := json.Unmarshal(text, &short); err != nil {
		return err
	}
	*of = make(outcomes)
	for kind, ids := range short {
		behavior, close, _ := strings.Cut(kind, "/")
		for _, id := range strings.Fields(ids) {
			(*of)[id] = outcome{behavior, close}
		}
	}
	return nil
}

// set replaces what is known of an agent, or adds to it where both are of the same version.
// The order is that of agents.
func (r *results) set(run agentRun) {
	for _, old := range r.runs {
		if old.Agent == run.Agent && old.Version == run.Version && old.Suite == run.Suite {
			maps.Copy(old.Outcomes, run.Outcomes)
			run.Outcomes = old.Outcomes
		}
	}
	known := func(name string) int {
		return slices.IndexFunc(agents(), func(a agent) bool { return a.name == name })
	}
	r.runs = slices.DeleteFunc(r.runs, func(old agentRun) bool { return old.Agent == run.Agent || known(old.Agent) < 0 })
	r.runs = append(r.runs, run)
	slices.SortStableFunc(r.runs, func(a, b agentRun) int { return known(a.Agent) - known(b.Agent) })
}

// judge is an error where package websocket has not passed.
func (r *results) judge() error {
	var bad []string
	for _, run := range r.runs {
		control := slices.ContainsFunc(agents(), func(a agent) bool { return a.name == run.Agent && a.module != "" })
		if t := tallyOf(run.Outcomes); !control && !t.clean() {
			bad = append(bad, fmt.Sprintf("%s: %v", run.Agent, t))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("not passed: %s", strings.Join(bad, "; "))
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
	var b strings.Builder
	fmt.Fprint(&b, `# The Autobahn test suite against websocket

Conformance: results of package websocket, and of two other libraries as controls, in the
[Autobahn test suite](https://github.com/crossbario/autobahn-testsuite) for WebSocket.
`+"`make bench WHAT=autobahn`"+` writes this page; it needs Python 2.7 with pip.

An agent is a server or a client under test. Events is one of hone's [engines](../../docs/start.md#engines), and a version of hone is
a commit, "with changes" if some were not committed.

Cases: those with a result. The controls' other cases, all of compression, were not run, to save time:
each exchanges a thousand messages. Informational: the case has no right answer. Non-strict: it passed, but
ignored a recommendation. Unclean: the connection did not close as
expected, whatever the result. Not negotiated: the agent declined the compression parameters. The
controls validate UTF-8 in their handlers, because gorilla and coder leave that to their users.

| agent | version | cases | OK | informational | non-strict | failed | not negotiated | unclean |
|---|---|---|---|---|---|---|---|---|
`)
	var suites []string
	for _, run := range r.runs {
		t := tallyOf(run.Outcomes)
		fmt.Fprintf(&b, "| %s | %s | %d of %d | %d | %d | %d | %d | %d | %d |\n", run.Agent, run.Version, len(run.Outcomes), allCases, t.ok, t.informational, t.nonStrict, t.failed, t.missing, t.unclean)
		suites = append(suites, run.Suite)
	}
	slices.Sort(suites)
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(slices.Compact(suites), "; "))
	r.sections(&b)
	r.exceptions(&b)
	return b.String()
}

// sections is the table of sections.
func (r *results) sections(b *strings.Builder) {
	counts := make(map[int]map[string]*tally)
	for _, run := range r.runs {
		for id, o := range run.Outcomes {
			n := section(id)
			if counts[n] == nil {
				counts[n] = make(map[string]*tally)
			}
			if counts[n][run.Agent] == nil {
				counts[n][run.Agent] = new(tally)
			}
			counts[n][run.Agent].add(o)
		}
	}
	fmt.Fprint(b, "\n## Sections\n\nThe suite has no sections 8 and 11.\n\n| section |")
	for _, run := range r.runs {
		fmt.Fprintf(b, " %s |", run.Agent)
	}
	fmt.Fprint(b, "\n|---|", strings.Repeat("---|", len(r.runs)), "\n")
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "| %d %s |", n, sectionNames[n])
		for _, run := range r.runs {
			var t tally
			if counted := counts[n][run.Agent]; counted != nil {
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
		for id, o := range run.Outcomes {
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
		fmt.Fprintf(b, "- **%s**: ", run.Agent)
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
