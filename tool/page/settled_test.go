package page_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/page"
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
		run.Samples[1].Artefacts = append(run.Samples[1].Artefacts, page.Knee{Valid: valid, Said: said, Trials: []page.KneeTrial{}}.Artefact())
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
func TestSettledLaneHasWhatCounts(t *testing.T) {
	p := &page.Page{Title: "race"}
	s := second(0)
	s.Lane = page.Lane{Group: "100 × 1", Name: "events"}
	p.Load(s)
	rate, p50 := 1234.0, 56.0
	p.Settle(&rate, &p50, nil)
	p.End(page.Verdict{Status: page.Valid})
	if got := lanesOf(t, p); !strings.Contains(got, `"rate":1234,"p50":56,"p99":null`) {
		t.Errorf("%s", got)
	}
}

// lanesOf returns the lanes that a browser is sent first.
func lanesOf(t *testing.T, p *page.Page) string {
	t.Helper()
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var all strings.Builder
	for part := make([]byte, 4096); !strings.Contains(all.String(), `"lanes"`) || !strings.Contains(all.String(), "\n\n"); {
		n, err := answer.Body.Read(part)
		all.Write(part[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, all.String())
		}
	}
	_, lanes, _ := strings.Cut(all.String(), `"lanes"`)
	return lanes
}
