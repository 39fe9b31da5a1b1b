package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
)

// recorded is everything that a report's page receives at once.
type recorded struct {
	Hello  hello   `json:"hello"`
	Points []point `json:"points"`
	Marks  []mark  `json:"marks"`
	State  state   `json:"state"`
}

// Judged is the comparison of a report's two runs.
type Judged struct {
	Comparison *compare.Comparison // nil: there is only one run
	Notes      []string
}

// changeLine is the comparison of one figure.
type changeLine struct {
	Key    string `json:"key"` // the page's key of it
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Before number `json:"before"`
	Now    number `json:"now"`
	// Texts are Before and Now for a unit that the page has no format for.
	Texts   [2]string       `json:"texts"`
	Ratio   number          `json:"ratio"`
	Verdict compare.Verdict `json:"verdict"`
	Words   string          `json:"words"`
}

// hotLines are the functions with the most CPU time.
type hotLines struct {
	Per     string    `json:"per"`
	Samples *int64    `json:"samples"` // in the profile
	Doubts  []string  `json:"doubts"`  // why its load was not valid
	Few     string    `json:"few"`     // why lines may be chance; empty: they are not
	Least   number    `json:"least"`   // two of few samples: less is not shown
	Lines   []hotLine `json:"lines"`
}

type hotLine struct {
	Function string `json:"function"`
	Flat     number `json:"flat"`
	Cum      number `json:"cum"`
	Before   number `json:"before"` // flat
}

const (
	mostHot = 20
	between = time.Second // gap on the axis between samples

	leastPoints = 4 // of a sample, for charts over time
)

// Report writes the page of run, drawn over against, which may be nil, as one file that
// opens from disk and loads nothing. The same runs give the same bytes.
func Report(w io.Writer, run, against *record.Run, judged Judged) error {
	data, err := json.Marshal(reportOf(run, against, judged)) // Marshal escapes HTML
	if err != nil {
		return fmt.Errorf("page: the run cannot be written as JSON: %w; look at it with hone run show", err)
	}
	text, err := oneFile(data)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func reportOf(run, against *record.Run, judged Judged) *recorded {
	r := &recorded{Points: []point{}, Marks: []mark{}}
	r.Hello = hello{
		Schema: figure.SchemaPage, Title: title(run, against), About: facts(run), Groups: []string{Client},
		Began: run.At.UTC().Format(time.RFC3339), Earlier: earlierOf(against), Measured: true,
	}
	if slices.ContainsFunc(run.Samples, func(s record.Sample) bool { return len(s.Histograms)+len(s.Series) > 0 }) {
		r.addSamples(run)
		r.Hello.Short = len(r.Points) < leastPoints*len(run.Samples)
	} else { // Go benchmarks have no perSecond
		r.Hello.Groups = []string{}
		if judged.Comparison == nil {
			r.State.Spreads = spreadsOf(run)
		}
	}
	r.judge(run)
	r.addChanges(judged)
	r.addHot(run, against)
	if k := knee.Of(run); k != nil { // medians over all loads would mean nothing
		r.State.Knee, r.State.Figures, r.State.Curve = k, numbers(nil), nil
		r.State.Status, r.State.Reasons, r.State.Notes = Valid, []string{}, append([]string{k.Summary}, r.State.Notes...)
		if !k.Valid {
			r.State.Status, r.State.Reasons, r.State.Notes = Invalid, r.State.Notes, nil
		}
	}
	return r
}

func title(run, against *record.Run) string {
	if against == nil {
		return run.Title()
	}
	return run.Title() + " against " + against.Title()
}

// spreadsOf returns the table of a run's figures: name, median, range.
func spreadsOf(run *record.Run) (rows [][3]string) {
	for _, f := range run.Spreads() {
		median, around := f.Text()
		rows = append(rows, [3]string{figure.Of(f.Name, f.Unit), median, around})
	}
	return rows
}

// facts lists the settings that the figures depend on.
func facts(run *record.Run) []Fact {
	all := []Fact{
		{"scenario", run.Scenario.Name}, {"plan", strings.Join(run.Scenario.Words(), ", ")},
		{"made by", "hone " + run.Made}, {"began", run.At.UTC().Format(time.RFC3339)},
	}
	for _, part := range []map[string]string{run.Environment.Strict, run.Environment.Soft} {
		for _, key := range slices.Sorted(maps.Keys(part)) {
			all = append(all, Fact{key, part[key]})
		}
	}
	return all
}

// addSamples puts the samples one after the other on the time axis.
func (r *recorded) addSamples(run *record.Run) {
	at := time.Duration(0)
	for i := range run.Samples {
		s := &run.Samples[i]
		c := perSecondOf(s)
		name := fmt.Sprintf("sample %d", i+1)
		r.State.Segments = append(r.State.Segments, sampleLine(s, name))
		r.Marks = append(r.Marks, mark{number(at.Seconds()), "segment", name, !s.Valid}, mark{number(at.Seconds()), load.Measuring, load.Measuring, false})
		for _, second := range c.seconds {
			p := point{T: number((at + second.end).Round(time.Millisecond).Seconds()), Values: numbers(second.values)}
			if second.latency != nil {
				p.Latency = second.latency.wide()
			}
			if second.service != nil {
				p.Service = second.service.wide()
			}
			r.Points = append(r.Points, p)
		}
		at += c.lasts + between
	}
}

// sampleLine is a sample's row in the table.
func sampleLine(s *record.Sample, name string) segmentLine {
	figures := figuresOf(s)
	get := func(key string) number {
		if v, ok := figures[key]; ok {
			return number(v)
		}
		return number(math.NaN())
	}
	return segmentLine{Group: "samples", Name: name, Rate: get("rate"), P50: get("p50"), P99: get("p99"), CPU: get("cpu"), Done: true, Doubtful: !s.Valid}
}

// Sampled replaces the rows of samples, as far as the page has counted them, by what is stored of them.
func (p *Page) Sampled(runs []*record.Run) {
	defer p.change()()
	p.state.Segments = nil
	for i, run := range runs {
		for j := range run.Samples {
			name := fmt.Sprintf("sample %d", j+1)
			if len(runs) > 1 {
				name += fmt.Sprintf(" of %c", 'A'+i)
			}
			p.state.Segments = append(p.state.Segments, sampleLine(&run.Samples[j], name))
		}
	}
	p.state.Segments = p.state.Segments[max(0, len(p.state.Segments)-keptSegments):]
}

// judge sets the outcome and the figures of the samples that count.
func (r *recorded) judge(run *record.Run) {
	valid := 0
	var all perSecond
	var reasons []string
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Valid {
			valid++
			all.merge(perSecondOf(s))
			continue
		}
		reasons = append(reasons, fmt.Sprintf("sample %d does not count: %s", i+1, s.Why()))
	}
	r.State.Figures, r.State.Curve, r.State.Reasons = numbers(medians(run)), all.curves(), []string{}
	if valid > 0 {
		r.State.Status, r.State.Notes = Valid, reasons
		return
	}
	r.State.Status, r.State.Reasons = Invalid, append(r.State.Reasons, reasons...)
	if len(run.Samples) > 0 { // they are shown under the banner
		r.State.Figures = numbers(figuresOf(&run.Samples[0]))
	}
}

// addChanges adds the comparison. It is the only difference that a report shows for a
// figure.
func (r *recorded) addChanges(judged Judged) {
	r.State.Notes = append(r.State.Notes, judged.Notes...)
	r.State.Changes = judged.lines()
	for _, c := range r.State.Changes {
		if _, shown := r.State.Figures[c.Key]; shown {
			r.State.Figures[c.Key] = c.Now
		}
	}
}

func (j Judged) lines() (lines []changeLine) {
	if j.Comparison == nil {
		return nil
	}
	for _, c := range j.Comparison.Changes {
		now := orNone(c.MedianB)
		if c.MedianA != nil && c.Ratio != nil { // what the verdict is about; medians may contradict it
			now = number(*c.MedianA * *c.Ratio)
		}
		in := func(v number) string { return figure.In(float64(v), c.Unit) }
		lines = append(lines, changeLine{
			Texts: [2]string{in(orNone(c.MedianA)), in(now)},
			Key:   keyOf(c.Name), Name: figure.Of(c.Name, c.Unit), Unit: c.Unit, Before: orNone(c.MedianA), Now: now, Ratio: orNone(c.Ratio),
			Verdict: c.Verdict, Words: c.Words(j.Comparison.Tolerance),
		})
	}
	return lines
}

// Judge shows the comparison with another run.
func (p *Page) Judge(judged Judged) {
	defer p.change()()
	p.state.Notes, p.state.Changes = judged.Notes, judged.lines()
}

func orNone(v *float64) number {
	if v == nil {
		return number(math.NaN())
	}
	return number(*v)
}

// addHot lists functions if the run has a CPU profile.
func (r *recorded) addHot(run, against *record.Run) {
	if now := cpuOf(run); now != nil {
		r.State.Hot, _ = hotOf(now, cpuOf(against)) // two that cannot be compared are left out
	}
}

// cpuOf returns a run's CPU profile; nil: there is none, or no run.
func cpuOf(run *record.Run) *probe.Profile {
	if run == nil {
		return nil
	}
	profile, err := probe.OfRun(run, probe.CPU)
	if err != nil {
		return nil
	}
	return profile
}

// hotOf lists the functions of a profile, against those of an earlier one if it is not nil.
func hotOf(now, before *probe.Profile) (*hotLines, error) {
	view, err := probe.NewView(now, before)
	if err != nil {
		return nil, err
	}
	few, least := view.Few()
	hot := &hotLines{Per: fmt.Sprint(view.Per), Samples: view.Samples, Doubts: view.Doubts, Few: few, Least: number(least), Lines: []hotLine{}}
	for _, l := range view.Top() {
		if len(hot.Lines) == mostHot {
			break
		}
		if l.Flat == 0 && l.FlatGrowth() == 0 {
			continue // has no cost itself
		}
		if max(l.Flat, l.Flat-l.FlatGrowth()) < 0.99*least {
			continue // a single sample of few
		}
		hot.Lines = append(hot.Lines, hotLine{l.Function, number(l.Flat), number(l.Cum), orNone(l.FlatBefore)})
	}
	return hot, nil
}

// modules returns the scripts, each after its imports.
func modules() []string {
	return []string{"words.js", "store.js", "axis.js", "tables.js", "chart.js", "knee.js", "main.js"}
}

// oneFile inlines styles, scripts and data into the page. Its policy allows scripts and
// styles by hash only.
func oneFile(data []byte) ([]byte, error) {
	html, err := web.ReadFile("web/index.html")
	if err != nil {
		return nil, err
	}
	style, err := web.ReadFile("web/style.css")
	if err != nil {
		return nil, err
	}
	var script bytes.Buffer
	imports := regexp.MustCompile(`(?m)^import .*\n`)
	for _, name := range modules() {
		text, err := web.ReadFile(path.Join("web", name))
		if err != nil {
			return nil, err
		}
		text = imports.ReplaceAll(text, nil)
		script.Write(bytes.ReplaceAll(text, []byte("\nexport "), []byte("\n")))
	}
	head := fmt.Sprintf(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'">`,
		hashed(script.Bytes()), hashed(style)) + "\n<link rel=\"icon\" href=\"data:,\">\n<style>" + string(style) + "</style>"
	body := `<script type="application/json" id="recorded">` + string(data) + "</script>\n<script type=\"module\">" + script.String() + "</script>"
	text := inPlaceOf(string(html), "<!-- head -->", "<!-- /head -->", head)
	return []byte(inPlaceOf(text, "<!-- scripts -->", "<!-- /scripts -->", body)), nil
}

// inPlaceOf replaces the text between two markers.
func inPlaceOf(in, begin, end, text string) string {
	before, rest, _ := strings.Cut(in, begin)
	_, after, _ := strings.Cut(rest, end)
	return before + text + after
}

// hashed returns the policy source that allows exactly these bytes.
func hashed(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
