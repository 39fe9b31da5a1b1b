package compare_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/compare"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// runOf has one sample per value; a negative one is invalid, and NaN is a figure that the
// sample lacks.
func runOf(id, with string, values ...float64) *record.Run {
	r := &record.Run{ID: id, PairedWith: with, Environment: record.Environment{Strict: map[string]string{"cpu": "X"}, Soft: map[string]string{"thp": "always", "revision": id}}}
	for i, v := range values {
		s := record.Sample{Pair: i + 1, Valid: !(v < 0)}
		if !math.IsNaN(v) {
			s.Metrics = []record.Metric{{Name: "p999", Unit: "µs", Better: record.Lower, Value: max(v, -v)}}
		}
		r.Samples = append(r.Samples, s)
	}
	return r
}

func figureOf(t *testing.T, a, b *record.Run) compare.Figure {
	t.Helper()
	ra, rb, paired := compare.Stored(a, b)
	figures, err := compare.Match(ra, rb, paired)
	if err != nil || len(figures) != 1 || figures[0].Name != "p999" || figures[0].Better != record.Lower {
		t.Fatalf("figures %+v, %v", figures, err)
	}
	return figures[0]
}

// A run that lacks a figure must not shift the others into another pair: B is 1.5 times A
// in each pair, and the machine slows down from pair to pair.
func TestMissingFiguresKeepPairsTogether(t *testing.T) {
	var a, b []float64
	for pair := range 9 {
		a = append(a, 100*math.Pow(3, float64(pair)))
		b = append(b, 150*math.Pow(3, float64(pair)))
	}
	a[0], b[8] = math.NaN(), math.NaN()
	f := figureOf(t, runOf("a", "b", a...), runOf("b", "a", b...))
	c := compare.Rules{}.Compare([]compare.Figure{f}).Changes[0]
	if c.Verdict != compare.Worse || math.Abs(*c.Ratio-1.5) > 1e-9 || !slices.Equal(c.PairIDs, []int{2, 3, 4, 5, 6, 7, 8}) || c.MissingA != 1 || c.MissingB != 1 {
		t.Errorf("%+v: %s", c.PairIDs, c.Words(0.03))
	}
}

func TestStored(t *testing.T) {
	a, b := runOf("a", "b", 1, -2, 3, 4), runOf("b", "a", 11, 12, -13, 14)
	slices.Reverse(b.Samples) // the stored order does not matter
	if f := figureOf(t, a, b); !slices.Equal(f.Pairs, []compare.Pair{{ID: 1, A: 1, B: 11}, {ID: 4, A: 4, B: 14}}) {
		t.Errorf("pairs: %+v", f)
	}
	for _, with := range [][2]string{{"b", "c"}, {"c", "a"}, {"c", "c"}} { // of three that alternated
		a.PairedWith, b.PairedWith = with[0], with[1]
		if f := figureOf(t, a, b); len(f.Pairs) != 2 {
			t.Errorf("of three, %v: %+v", with, f)
		}
	}
	a.PairedWith, b.PairedWith = "d", "c"
	if f := figureOf(t, a, b); f.Pairs != nil || !slices.Equal(f.A, []float64{1, 3, 4}) || !slices.Equal(f.B, []float64{14, 12, 11}) {
		t.Errorf("no pairs: %+v", f)
	}
	for i, s := range a.Samples {
		a.Samples[i].Reasons, a.Samples[i].Valid = []string{"other programs used 90 % of the CPUs"}, s.Valid && i > 3
	}
	a.PairedWith, b.PairedWith = "b", "a"
	if f := figureOf(t, a, b); f.Unfit != record.Disturbed || len(f.Pairs) != 4 || f.Pairs[1].A != 2 {
		t.Errorf("too few pairs of which both are valid: %+v", f)
	}
}

// Where the generator was late, both sides are in the table, memory has its verdict, and the figures that
// lateness spoils have none, with what helps.
func TestLateRunsAreShown(t *testing.T) {
	side := func(id, with, reason string, unfit record.Unfit, times float64) *record.Run {
		r := runOf(id, with, 1, 2, 3, 4, 5, 6)
		for i := range r.Samples {
			s := &r.Samples[i]
			s.Valid, s.Unfit, s.Reasons = false, unfit, []string{reason}
			s.Metrics = []record.Metric{
				{Name: "rate", Unit: "req/s", Better: record.Higher, Value: 1000 * times},
				{Name: "server CPU", Unit: "µs/req", Better: record.Lower, Value: (10 + float64(i)/100) * times},
				{Name: "server memory", Unit: "B", Better: record.Lower, Value: (1 << 20) * (1 + float64(i)/1000) * times},
			}
		}
		return r
	}
	const late, disturbed = "the generator itself read 1 % of the answers 3ms or more after they had come", "steal time was 9 % of the CPUs"
	for _, c := range []struct {
		reason, a string
		of        record.Unfit // side A's
		memory    compare.Verdict
		words     string
	}{
		{late, late, record.Late, compare.Worse, "not usable: the generator was late; give it CPUs of its own, or a larger --max-lag"},
		{late, disturbed, record.Disturbed, compare.Unclear, "not usable: the samples are not valid"},
	} {
		report, err := compare.Judge{Tolerance: 0.03, Look: 1}.Stored(nil, side("a", "b", c.a, c.of, 1), side("b", "a", c.reason, record.Late, 2))
		if err != nil {
			t.Fatal(err)
		}
		for i, change := range report.Changes {
			if change.MedianA == nil || change.MedianB == nil || *change.MedianB < 1.9**change.MedianA {
				t.Errorf("%s: A %v, B %v", change.Name, change.MedianA, change.MedianB)
			}
			words := report.Changes[i].Words(0.03)
			if change.Name == "server memory" && change.Verdict != c.memory || change.Name != "server memory" && (change.Verdict != compare.Unclear || change.Ratio != nil || !strings.Contains(words, c.words)) {
				t.Errorf("%s: %s %s", change.Name, change.Verdict, words)
			}
		}
		if report.Failure("compare") == nil {
			t.Error("the exit code is 0")
		}
	}
}

// The figure that decides is the runs' own: whoever compares them later has the same verdict. Another one
// is said to be chosen afterwards.
func TestPrimaryIsStored(t *testing.T) {
	of := func(id, with, primary string, times float64) *record.Run {
		r := runOf(id, with, 1, 1, 1, 1, 1, 1)
		r.Scenario = record.Scenario{Primary: primary}
		for i := range r.Samples {
			noise := 1 + float64(i%3)/100
			r.Samples[i].Metrics = []record.Metric{
				{Name: "rate", Unit: "req/s", Better: record.Higher, Value: 1000 * math.Pow(3, float64(i%4)*times)},
				{Name: "server CPU", Unit: "µs/req", Better: record.Lower, Value: 10 * noise / times},
			}
		}
		return r
	}
	for _, c := range []struct{ stored, given, first, note string }{
		{"", "", "rate", ""},
		{"server CPU", "", "server CPU", ""},
		{"server CPU", "server CPU", "server CPU", ""},
		{"server CPU", "rate", "rate", "rate was chosen to decide after the runs, which were measured for server CPU"},
		{"", "server CPU", "server CPU", "measured for the first figure"},
	} {
		report, err := compare.Judge{Look: 1, Primary: c.given}.Stored(nil, of("a", "b", c.stored, 1), of("b", "a", c.stored, 2))
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(report.Notes, "\n")
		if first := report.Changes[0]; first.Name != c.first || !first.Primary || !strings.Contains(notes, c.note) || strings.Contains(notes, "chosen") != (c.note != "") {
			t.Errorf("%+v: %s decides; %s", c, first.Name, notes)
		}
		if decides := strings.HasPrefix(report.Summary(), "VALID"); decides != (c.first == "server CPU") {
			t.Errorf("%+v: %s", c, report.Summary())
		}
	}
	one := map[string]string{"conns": "1"}
	plain, deciding := record.Scenario{Settings: one}, record.Scenario{Settings: one, Primary: "p99"}
	if plain.Hash() != deciding.Hash() || (record.Scenario{Settings: map[string]string{"conns": "2"}}).Hash() == plain.Hash() {
		t.Error("the figure that decides makes the load another one")
	}
}

// A figure that one side never has counts, without values.
func TestFigureOfOneSide(t *testing.T) {
	a, b := runOf("a", "b", 1, 2), runOf("b", "a", 1, 2)
	for i := range b.Samples {
		b.Samples[i].Metrics = append(b.Samples[i].Metrics, record.Metric{Name: "rate", Unit: "req/s", Better: record.Higher, Value: 5})
	}
	ra, rb, paired := compare.Stored(a, b)
	figures, err := compare.Match(ra, rb, paired)
	if err != nil || len(figures) != 2 || figures[1].Name != "rate" || len(figures[1].Pairs) != 2 || !math.IsNaN(figures[1].Pairs[0].A) || figures[1].Pairs[0].B != 5 {
		t.Errorf("%+v, %v", figures, err)
	}
}

// A run alone without a valid sample has nothing to compare, and the reason is the sample's.
func TestInvalidRunIsNamed(t *testing.T) {
	invalid, valid := runOf("bad", "", -1, -2), runOf("good", "", 1, -2)
	invalid.Samples[1].Reasons = []string{"3 of 1334 requests failed"}
	for _, pair := range [][2]*record.Run{{invalid, valid}, {valid, invalid}} {
		_, err := compare.Judge{Look: 1}.Stored(nil, pair[0], pair[1])
		if said := fmt.Sprint(err); said != "compare: bad has no valid sample: 3 of 1334 requests failed" {
			t.Error(said)
		}
	}
}

func TestReadRuns(t *testing.T) {
	read := func(text string) *compare.Runs {
		r, err := compare.ReadRuns("file", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const load = `{"schema":"hone.load/1","valid":true,"rate":5,"latency_us":{"p99":900}}` + "\n"
	const lacks = `{"schema":"hone.load/1","valid":true,"rate":6,"latency_us":{"p99":null}}` + "\n"
	figures, err := compare.Match(read(load+lacks+load), read(lacks+load+load), true)
	if err != nil || len(figures) != 2 {
		t.Fatalf("%+v, %v", figures, err)
	}
	p99 := figures[1].Pairs
	if len(p99) != 3 || !math.IsNaN(p99[0].B) || !math.IsNaN(p99[1].A) || p99[2] != (compare.Pair{ID: 3, A: 900, B: 900}) {
		t.Errorf("%+v", p99)
	}
	if _, err := compare.Match(read(load+load), read(load), true); !errors.Is(err, compare.ErrNoPairs) {
		t.Errorf("two and one: %v", err)
	}
	if figures, err := compare.Match(read(load+lacks), read(load), false); err != nil || !slices.Equal(figures[0].A, []float64{5, 6}) {
		t.Errorf("%+v, %v", figures, err)
	}
	other := &compare.Runs{Series: []compare.Series{{Name: "X", Unit: "B/op", Values: []float64{5}}}}
	if figures, err := compare.Match(other, read(load), false); err != nil || figures != nil {
		t.Errorf("nothing in common: %+v, %v", figures, err)
	}
}

func TestSettingsOfStored(t *testing.T) {
	a, b := runOf("a", "", 1), runOf("b", "", 1)
	differences := func(across ...string) (texts []string) {
		for _, d := range compare.Differences(compare.SettingsOf(a), compare.SettingsOf(b), across) {
			texts = append(texts, d.String())
		}
		return texts
	}
	if d := differences(); len(d) != 0 {
		t.Errorf("differences %v", d)
	}
	a.Scenario.Settings = map[string]string{"target": "tcp", "depth": "8"}
	b.Environment.Strict = map[string]string{"cpu": "Y", "go": "go1.26"}
	b.Scenario.Settings = map[string]string{"target": "tcp", "rate": "5"}
	b.Scenario.Load = map[string]string{"depth": "256", "rate": "5"}
	if d := differences(); !slices.Equal(d, []string{`cpu differs: "X" and "Y"`, `depth differs: "8" and "256"`, `rate differs: the default and "5"`}) {
		t.Errorf("differences %q", d)
	}
	if d := differences("cpu", "depth"); !slices.Equal(d, []string{`rate differs: the default and "5"`}) {
		t.Errorf("across cpu and depth: %q", d)
	}
	if d := differences("cpu", "scenario"); d != nil {
		t.Errorf("across the scenario: %q", d)
	}
	a.Environment.Soft["modified"] = "true"
	b.Environment.Soft = map[string]string{"thp": "never", "swap": "on", "modified": "false"}
	if d := compare.Doubts(compare.SettingsOf(a), compare.SettingsOf(b)); !slices.Equal(d, []string{"only one of the two programs was built with uncommitted changes", `thp differs: "always" and "never"`}) {
		t.Errorf("doubts %+v", d)
	}
}

// Results of hone load record the load, and different loads are refused.
func TestSettingsOfLoads(t *testing.T) {
	of := func(conns, schedule string) string {
		return `{"schema":"hone.load/1","valid":true,"version":"v1","settings":{"conns":"` + conns + `","schedule":"` + schedule + `"},"rate":5,"latency_us":{"p99":900}}` + "\n"
	}
	read := func(text string) *compare.Runs {
		r, err := compare.ReadRuns("file", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	judge := compare.Judge{Look: 1}
	one, eight := read(of("1", "")+of("1", "")), read(of("8", "ramp:1..2")+of("8", "ramp:1..2"))
	_, err := judge.Compare(one, eight, true, nil)
	end, said := new(exit.Error), fmt.Sprint(err)
	if !errors.As(err, &end) || end.Code != exit.Invalid || said != `compare: conns differs: "1" and "8", schedule differs: the default and "ramp:1..2"; if you mean to compare that, add --across conns,schedule` {
		t.Errorf("%v", err)
	}
	judge.Across = []string{"conns", "schedule"}
	if _, err := judge.Compare(one, eight, true, nil); err != nil {
		t.Errorf("across: %v", err)
	}
	_, err = compare.ReadRuns("file", strings.NewReader(of("1", "")+of("8", "")))
	if said := fmt.Sprint(err); !errors.Is(err, compare.ErrMixed) || !strings.HasSuffix(said, `file, result 2: conns differs: "1" and "8"; give results of one load`) {
		t.Errorf("mixed: %v", err)
	}
	stored := runOf("a", "", 1)
	stored.Scenario.Load = map[string]string{"conns": "8", "schedule": ""}
	if d := compare.Differences(one.Settings, compare.SettingsOf(stored), nil); len(d) != 1 || d[0].Key != "conns" {
		t.Errorf("a file and a stored run: %+v", d)
	}
	open := read(strings.Replace(of("1", ""), `"rate"`, `"offered":5,"rate"`, 1))
	if len(open.Series) != 1 || open.Series[0].Name != "p99" {
		t.Errorf("the rate of an open loop is the plan's: %+v", open.Series)
	}
}
