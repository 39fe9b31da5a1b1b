package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestResults stores what is known of three agents, and makes the page of it.
func TestResults(t *testing.T) {
	index := func(cases string) outcomes {
		of, err := parseOutcomes([]byte(`{"agent": {` + cases + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	const fine = `"1.1.1": {"behavior": "OK", "behaviorClose": "OK"}, "7.1.6": {"behavior": "INFORMATIONAL", "behaviorClose": "INFORMATIONAL"}`
	file := filepath.Join(t.TempDir(), "results.json")
	for _, run := range []agentRun{
		{"coder server", "v2", "Autobahn", index(`"1.1.1": {"behavior": "FAILED", "behaviorClose": "UNCLEAN"}, "13.1.1": {"behavior": "UNIMPLEMENTED", "behaviorClose": "UNIMPLEMENTED"}, "1.1.2": {"behavior": "OK", "behaviorClose": "WRONG CODE"}`)},
		{"gorilla server", "v1", "Autobahn", index(fine + `, "6.4.1": {"behavior": "NON-STRICT", "behaviorClose": "OK"}, "6.4.2": {"behavior": "NON-STRICT", "behaviorClose": "OK"}`)},
		{"hone client", "abc", "Autobahn", index(`"1.1.2": {"behavior": "OK", "behaviorClose": "OK"}`)},
		{"hone client", "abd", "Autobahn", index(`"1.1.1": {"behavior": "FAILED", "behaviorClose": "OK"}`)},
		{"hone client", "abd", "Autobahn", index(fine)},
	} {
		r, err := load(file)
		if err != nil {
			t.Fatal(err)
		}
		r.set(run)
		if err := r.save(file); err != nil {
			t.Fatal(err)
		}
	}
	r, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	page := r.markdown()
	for _, want := range []string{
		"| hone client | abd | 2 of 517 | 1 | 1 | 0 | 0 | 0 | 0 |\n| gorilla server | v1 | 4 of 517 | 1 | 1 | 2 | 0 | 0 | 0 |\n| coder server | v2 | 3 of 517 | 1 | 0 | 0 | 1 | 1 | 2 |\n\nAutobahn.\n",
		"| section | hone client | gorilla server | coder server |\n|---|---|---|---|\n| 1 framing | 1 OK | 1 OK | 1 OK, 1 failed, of these unclean: 2 |\n| 6 UTF-8 | – | 2 non-strict | – |\n| 7 closing | 1 informational | 1 informational | – |\n| 13 compression, parameters | – | – | 1 not negotiated |\n",
		"- **gorilla server**: informational: 7.1.6; non-strict: 6.4.1–2\n",
		"- **coder server**: failed, close unclean: 1.1.1; not negotiated: 13.1.1; ok, close wrong code: 1.1.2\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if err := r.judge(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		`"6.4.1": {"behavior": "NON-STRICT", "behaviorClose": "OK"}`, `"6.4.1": {"behavior": "FAILED", "behaviorClose": "OK"}`,
		`"6.4.1": {"behavior": "OK", "behaviorClose": "UNCLEAN"}`, "",
	} {
		r.set(agentRun{Agent: "hone client", Version: bad, Outcomes: index(bad)})
		if r.judge() == nil {
			t.Errorf("{%s} passes", bad)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, ids := range map[string]string{
		"1.1.1":                       "1.1.1",
		"1.1.9–11, 1.2.1":             "1.1.11 1.2.1 1.1.9 1.1.10",
		"2.1, 2.3, 12.1.1–2, 12.1.4":  "12.1.4 12.1.2 2.3 12.1.1 2.1",
		"5.19–20, 6.4.1, 6.4.3, 10.1": "10.1 5.20 6.4.3 5.19 6.4.1",
	} {
		if got := ranges(strings.Fields(ids)); got != want {
			t.Errorf("%s: %s, want %s", ids, got, want)
		}
	}
}

// TestNoPython has the command say what it needs.
func TestNoPython(t *testing.T) {
	_, err := install(t.Context(), filepath.Join(t.TempDir(), "python"), "")
	if said := fmt.Sprint(err); err == nil || !strings.HasPrefix(said, needsPython) {
		t.Errorf("without Python: %s, want %q", said, needsPython)
	}
}

// TestNoResult reads something that is not an index of one agent.
func TestNoResult(t *testing.T) {
	for _, text := range []string{"", "{}", `{"a": {}, "b": {}}`, "[1]"} {
		if of, err := parseOutcomes([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, of)
		}
	}
}
