package torture

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// Marks are put where the server gives them back, and nowhere else.
func TestMarks(t *testing.T) {
	t.Parallel()
	at := serveNetHTTP(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/quiet":
			io.WriteString(w, "hello")
		case r.URL.Path == "/strict" && r.URL.RawQuery != "":
			http.Error(w, r.URL.RawQuery, http.StatusBadRequest)
		case r.Method == http.MethodPost:
			io.Copy(w, r.Body)
		case r.URL.RawQuery != "":
			fmt.Fprint(w, r.URL.RawQuery)
		default:
			web(w, r)
		}
	})})
	for _, c := range []struct{ path, body, where string }{
		{"/page", "", "GET /page?*"},
		{"", "", "GET /?*"},
		{"/?a=b", "", "GET /?a=b&*"},
		{"/quiet", "", ""},
		{"/strict", "", ""}, // what refuses is no echo
		{"/echo", "hello", "hello *"},
		{"/echo", "a body of 20 letters", "a bo*"},
		{"/echo", `{"id":"` + unmarked + `"}`, `{"id":"*"}`},
	} {
		target, err := newTarget(load.Plan{Target: codec.HTTP{URL: at + c.path, Body: []byte(c.body)}}, false)
		if err != nil {
			t.Fatal(err)
		}
		target.learnMarks(t.Context(), 10*time.Second)
		if c.where == "" {
			if target.marks {
				t.Errorf("%s: marked", c.path)
			}
			continue
		}
		target.conn(false)
		marked := target.conn(false)
		request := string(marked.Request(nil))
		if marked.mark == "" || !strings.Contains(strings.Replace(request, marked.mark, "*", 1), c.where) || marked.size != len(request) {
			t.Errorf("%s: no %s in %q", c.path, c.where, request)
		}
	}
}

// What matters most is said first, and what scenarios share once.
func TestWordsOfFalls(t *testing.T) {
	r := &run{report: &Report{Baseline: Bystanders{Worst: 0.001}}}
	for _, c := range []struct {
		made  Result
		rests time.Duration
		then  aftermath
		want  Verdict
		words string
	}{
		{Result{Verdict: Fell, Words: "its own"}, 0, aftermath{}, Fell, "does not serve again after the attack; its own"},
		{Result{Verdict: Survived, Bystanders: Bystanders{Wrong: 2, First: "why"}}, 0, aftermath{settled: true, after: 7e6}, Fell, "bystanders: 2 wrong answers (why); serves again after 7 ms"},
		{Result{Verdict: Fell, Words: "its own"}, 0, aftermath{settled: true}, Fell, "its own"},
		{Result{Verdict: Survived, Words: "all", Bystanders: Bystanders{Worst: 0.9}}, 0, aftermath{settled: true, together: 7}, Slower, "bystanders waited up to 900 ms beside 7 scenarios at once (before: 1.00 ms); all"},
		{Result{Verdict: Survived, Words: "all", Bystanders: Bystanders{Worst: 0.9}}, 0, aftermath{settled: true, together: 7, told: true}, Survived, "all"},
		{Result{Verdict: Survived, Words: "all", Bystanders: Bystanders{Worst: 1.1}}, 1200 * time.Millisecond, aftermath{settled: true}, Survived, "all"},
	} {
		r.judge(&c.made, Scenario{Rests: c.rests}, c.then)
		if c.made.Verdict != c.want || c.made.Words != c.words {
			t.Errorf("%v, %q; want %v, %q", c.made.Verdict, c.made.Words, c.want, c.words)
		}
	}
	if a, b := symptom("bystanders: 3 wrong answers; a"), symptom("bystanders: 44 wrong answers; b"); a != b || a == symptom("bystanders: 3 answers lost") {
		t.Errorf("symptoms: %q, %q", a, b)
	}
}
