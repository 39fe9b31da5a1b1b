package page_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/record"
)

// recordedState returns the state that a report carries.
func recordedState(t *testing.T, text []byte) (state struct {
	Status  string             `json:"status"`
	Reasons []string           `json:"reasons"`
	Notes   []string           `json:"notes"`
	Figures map[string]float64 `json:"figures"`
}) {
	t.Helper()
	_, rest, _ := strings.Cut(string(text), `id="recorded">`)
	data, _, _ := strings.Cut(rest, "</script>")
	if err := json.Unmarshal([]byte(data), &struct{ State any }{&state}); err != nil {
		t.Fatal(err)
	}
	return state
}

// A report of a search has its verdict, whatever its trials were, and no medians over all loads.
func TestReportHasTheVerdictOfAKnee(t *testing.T) {
	const said = "it is only known that p99<10ms is met at 878/s (in 1 trial)"
	for _, valid := range []bool{true, false} {
		run := runOf(t, "knee", 300, 2)
		run.Samples[1].Artefacts = append(run.Samples[1].Artefacts, (&knee.Report{Valid: valid, Summary: said, Trials: []knee.Point{}}).Artefact())
		var text bytes.Buffer
		if err := page.Report(&text, run, nil, page.Judged{}); err != nil {
			t.Fatal(err)
		}
		state := recordedState(t, text.Bytes())
		notes, reasons := strings.Join(state.Notes, "\n"), strings.Join(state.Reasons, "\n")
		if (state.Status == string(page.Valid)) != valid || strings.Contains(notes, said) != valid || strings.Contains(reasons, said) == valid || len(state.Figures) > 0 {
			t.Errorf("valid %v: status %s, notes %q, reasons %q, figures %v", valid, state.Status, notes, reasons, state.Figures)
		}
	}
}

// What the command leaves out of its table, the page leaves out, too.
func TestSettledSegmentHasWhatCounts(t *testing.T) {
	p := &page.Page{Title: "race"}
	s := second(0)
	s.Segment = page.Segment{Group: "100 × 1", Name: "events"}
	p.Load(s)
	p.Settle(s.Segment, new(1234.0), new(56.0), nil, new(7.5))
	p.End(page.Verdict{Status: page.Valid})
	if got := stateOf(t, p); !strings.Contains(got, `"rate":1234,"p50":56,"p99":null,"cpu":7.5,"done":true}`) || !strings.Contains(got, `"figures":{}`) || strings.Contains(got, `"curve"`) {
		t.Errorf("%s", got)
	}
}

// A load's tiles are those of its result: one that the result withholds is not the page's own.
func TestEndedLoadHasItsResultsFigures(t *testing.T) {
	p := &page.Page{Title: "load"}
	p.Load(second(0))
	p.End(page.Verdict{Status: page.Valid, Figures: map[string]float64{"rate": 1234, "errors": 0}})
	if got := stateOf(t, p); !strings.Contains(got, `"figures":{"errors":0,"rate":1234}`) {
		t.Errorf("%s", got)
	}
}

// What the page has counted of samples makes room for what is stored of them.
func TestEndedSamplesAreTheStoredOnes(t *testing.T) {
	p := &page.Page{Title: "bench"}
	s := second(0)
	s.Segment = page.Segment{Group: "samples", Name: "sample 1 of 3"}
	p.Load(s)
	a, b := runOf(t, "a", 300, 1), runOf(t, "b", 200, 1)
	b.Samples[0].Valid = false
	p.Sampled([]*record.Run{a, b})
	p.End(page.Verdict{Status: page.Valid})
	got, p50 := stateOf(t, p), func(r *record.Run) float64 {
		return r.Samples[0].Metrics[slices.IndexFunc(r.Samples[0].Metrics, func(m record.Metric) bool { return m.Name == "p50" })].Value
	}
	for _, want := range []string{fmt.Sprintf(`"name":"sample 1 of A","rate":[0-9.]+,"p50":%.5g,`, p50(a)), fmt.Sprintf(`"name":"sample 1 of B","rate":[0-9.]+,"p50":%.5g,.*"doubtful":true}`, p50(b))} {
		if !regexp.MustCompile(want).MatchString(got) || strings.Contains(got, "1 of 3") {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// stateOf returns the state that a browser is sent first.
func stateOf(t *testing.T, p *page.Page) string {
	t.Helper()
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `data: {"status":`) {
			return lines.Text()
		}
	}
	t.Fatal(lines.Err())
	return ""
}
