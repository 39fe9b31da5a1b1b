package report

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
		text   string
	}{
		{nil, Spread{}, "–"},
		{[]float64{5}, Spread{1, 5, 5, 5}, "5.00"},
		{[]float64{3, 1, 2}, Spread{3, 2, 1, 3}, "2.00 (1.00–3.00)"},
		{[]float64{4, 1, 3, 2}, Spread{4, 2.5, 1, 4}, "2.50 (1.00–4.00)"},
		{[]float64{14291, 0.0777, 52.25}, Spread{3, 52.25, 0.0777, 14291}, "52.2 (0.078–14291)"},
		{[]float64{0, 0}, Spread{2, 0, 0, 0}, "0 (0–0)"},
	} {
		before := fmt.Sprint(c.values)
		got := SpreadOf(c.values)
		if got != c.want || got.String() != c.text {
			t.Errorf("%v: %+v %q, want %+v %q", c.values, got, got, c.want, c.text)
		}
		if after := fmt.Sprint(c.values); after != before {
			t.Errorf("%s became %s: the values are the caller's", before, after)
		}
	}
}

func TestRatiosPairRounds(t *testing.T) {
	of := map[int]float64{0: 4, 1: 10, 2: 6, 3: 1}
	to := map[int]float64{0: 8, 1: 20, 2: 0, 4: 1} // round 1 was slow for both; 2 has no base, 3 is missing
	if got, want := Ratios(of, to), (Spread{2, 0.5, 0.5, 0.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// small is a run with everything in it that a table treats in a way of its own.
func small() *Peers {
	f := func(v float64) *float64 { return &v }
	p := &Peers{Settings: Settings{Rounds: 2, WindowMS: 1000, Seed: 7, Retaken: 3}}
	p.Head = Head{
		Schema: PeersSchema, Valid: false, InvalidReasons: []string{"a test"},
		Machine: Machine{CPU: "Abacus", CPUs: 2, Kernel: "6.1", System: "linux/amd64", Go: "go1.26", Commit: "abc", Changed: true, Date: "2026-01-02"},
		Servers: []fleet.Entry{
			{Name: "net", Program: "netbufio", Version: "go1.26"},
			{Name: "gnet", Program: "gnet", Version: "v2.9.0"},
			{Name: "hone-events", Program: "hone"},
			{Name: "absent", Program: "hone"},
		},
	}
	p.Scenarios = []Scenario{{"A", "many"}, {"S", "slow"}, {"idle", "memory"}}
	cpu := func(scenario, server string, round int, v float64) {
		p.Samples = append(p.Samples, Sample{Scenario: scenario, Server: server, Round: round,
			Figure: drive.Figure{CPU: f(v), Rate: f(1000 * v), P50: f(v), P99: f(10 * v), Others: f(0.25), Doubts: []string{}}})
	}
	cpu("A", "net", 0, 8)
	cpu("A", "net", 1, 6)
	cpu("A", "gnet", 0, 5)
	cpu("A", "gnet", 1, 4)
	cpu("A", "hone-events", 0, 4)
	cpu("A", "hone-events", 1, 3)
	cpu("S", "gnet", 0, 50)
	p.Samples = append(p.Samples,
		Sample{Scenario: "A", Server: "net", Round: 2, Error: "it died"},
		Sample{Scenario: "idle-1k", Server: "hone-events", PerConn: f(160)})
	return p
}

func TestTables(t *testing.T) {
	p := small()
	for name, want := range map[string]string{
		"cpu": `
| server | A |
|---|---|
| net go1.26 | 7.00 (6.00–8.00) 1×failed |
| gnet v2.9.0 | 4.50 (4.00–5.00) |
| **hone-events** | 3.50 (3.00–4.00) |
`,
		"ratios": `
| server | A |
|---|---|
| net go1.26 | 1.55 (1.50–1.60) |
| gnet v2.9.0 | 0.646 (0.625–0.667) |
| **hone-events** | 0.775 (0.750–0.800) |
`,
		"memory": `
| server | idle-1k |
|---|---|
| **hone-events** | 160 |
`,
		"slow": `
| server | p50 µs | p99 µs | CPU µs/request |
|---|---|---|---|
| gnet v2.9.0 | 50.0 | 500 | 50.0 |
`,
		"run": `
**INVALID**: a test.

Abacus, 2 CPUs, Linux 6.1, go1.26 linux/amd64, commit abc with changes, 2026-01-02. Medians of 2 rounds of 1.0 s, with minimum and maximum in parentheses, in random order (seed 7); 3 samples were repeated because the rest of the machine was busy.
In half of the samples, other processes used at most 25 % of a CPU.
`,
	} {
		got, err := find(p.Tables(), name)
		if err != nil || got != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	if _, err := find(p.Tables(), "nonsense"); err == nil {
		t.Error("a table of no name is made")
	}
}

// TestHTTPTables has a scenario of each kind.
func TestHTTPTables(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	p := &Peers{Head: Head{Schema: HTTPSchema}}
	p.Servers = []fleet.Entry{
		{Name: "net/http", Program: "nethttp", Version: "go1.26"}, {Name: "gnet", Program: "gnethttp", Version: "v2", ParsesNothing: true},
		{Name: "http1-events", Program: "http1"},
	}
	for i, server := range []string{"net/http", "gnet", "http1-events"} {
		for round := range 2 {
			cpu := Sample{Scenario: "hello", Server: server, Round: round, Figure: drive.Figure{CPU: f(float64(8 / (i + 1))), Rate: f(1000)}}
			calls, idle, wrk := cpu, cpu, cpu
			calls.Scenario, calls.Calls, calls.CPU = "calls", f(2), nil
			idle.Scenario, idle.PerConn, idle.CPU = "idle-15k", f(190), nil
			wrk.Scenario = "wrk"
			p.Samples = append(p.Samples, cpu, calls, idle, wrk)
		}
	}
	for name, want := range map[string]string{
		"cpu":      "| server | hello |\n|---|---|\n| net/http go1.26 | 8.00 (8.00–8.00) |\n| gnet v2 (parses nothing) | 4.00 (4.00–4.00) |\n| **http1-events** | 2.00 (2.00–2.00) |\n",
		"nethttp":  "| server | hello | wrk |\n|---|---|---|\n| net/http go1.26 | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) |\n| gnet v2 (parses nothing) | 0.500 (0.500–0.500) | 0.500 (0.500–0.500) |\n| **http1-events** | 0.250 (0.250–0.250) | 0.250 (0.250–0.250) |\n",
		"fasthttp": "",
		"other":    "| server | calls | wrk | idle-15k |\n|---|---|---|---|\n| net/http go1.26 | 2.00 (2.00–2.00) | 8.00 (8.00–8.00) | 190 (190–190) |\n| gnet v2 (parses nothing) | 2.00 (2.00–2.00) | 4.00 (4.00–4.00) | 190 (190–190) |\n| **http1-events** | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) | 190 (190–190) |\n",
	} {
		if got, err := find(p.Tables(), name); err != nil || got != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// TestLimits says who was the limit of a run whose client is known.
func TestLimits(t *testing.T) {
	p := small()
	p.Settings.Client = "bench/client"
	share := func(v float64) *float64 { return &v }
	for i, of := range []struct{ server, client float64 }{{0.99, 0.8}, {0.97, 0.9}, {0.98, 0.86}} {
		p.Samples[i].ServerBusy, p.Samples[i].Busy = share(of.server), share(of.client)
	}
	text, err := find(p.Tables(), "run")
	want := "\nThe client was bench/client. Percent of a CPU that the server and the client used, medians of all samples: A 98 and 86.\n"
	if err != nil || !strings.Contains(text, want) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestScoreboard(t *testing.T) {
	run := &Torture{
		Head: Head{Servers: []fleet.Entry{{Name: "frames/net", Version: "go1.26"}, {Name: "frames/hone", Program: "hone"}, {Name: "frames/failed"}}}, Wait: 75, Seed: 1,
		Outcomes: []Outcome{
			{"frames/net", "churn", "fell", "dies"}, {"frames/net", "silent", "not found out", ""}, {"frames/net", "trickle", "fell", "dies"},
			{"frames/hone", "churn", "survived", ""}, {"frames/hone", "trickle", "slower", ""},
		},
	}
	want := "| server | survived | slower | fell | not found out | fell in |\n|---|---|---|---|---|---|\n" +
		"| frames/net go1.26 | 0 | 0 | 2 | 1 | churn, trickle |\n| **frames/hone** | 1 | 1 | 0 | 0 |  |\n"
	if got, err := find(run.Tables(), "scoreboard"); err != nil || !strings.HasPrefix(got, want+"\n") || !strings.Contains(got, "`--wait 75s --seed 1`") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestStoredRunsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), PeersFile)
	want := small()
	text, err := Encode(want)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read[Peers](path, PeersSchema)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	if n := strings.Count(string(text), "\n{\"scenario\":"); n != len(want.Samples) {
		t.Errorf("%d lines begin with a sample, not %d:\n%s", n, len(want.Samples), text)
	}
	if !strings.HasPrefix(string(text), "{\n\"schema\": ") {
		t.Errorf("the schema does not come first:\n%.80s", text)
	}
	if _, err := Read[Torture](path, TortureSchema); err == nil {
		t.Error("a run of another schema is read")
	}
}

func TestFill(t *testing.T) {
	table := func(file, name string) (string, error) {
		if name == "" {
			return "", errors.New("which?")
		}
		return "| " + file + " " + name + " |\n", nil
	}
	page := "before\n<!-- bench: a.json cpu -->\nold\n\nolder\n<!-- bench end -->\nafter\n"
	want := "before\n<!-- bench: a.json cpu -->\n\n| a.json cpu |\n\n<!-- bench end -->\nafter\n"
	for range 2 { // filling a filled page changes nothing
		got, err := fill(page, table)
		if err != nil || got != want {
			t.Fatalf("%v\n%s", err, got)
		}
		page = got
	}
	for _, bad := range []string{"<!-- bench: a.json cpu -->\n", "<!-- bench: a.json -->\n<!-- bench end -->\n"} {
		if got, err := fill(bad, table); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
	if _, err := Fill("<!-- bench: elsewhere.json cpu -->\n<!-- bench end -->\n<!-- bench: versions.json -->\n<!-- bench end -->\n", t.TempDir()); err == nil {
		t.Error("a marker may name any file")
	}
}

// repository makes the files that tell what was measured, and what is in use now.
func repository(t *testing.T, run *Peers, days string) (results string) {
	t.Helper()
	root := t.TempDir()
	results = filepath.Join(root, "bench", "results")
	text, err := Encode(run)
	if err = errors.Join(err, os.MkdirAll(results, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Makefile": "bench:\n\tGOWORK=off go install go.k6.io/k6@v1.8.1\n", "go.work": "go 1.26.0\n\ntoolchain go1.26.1\n",
		"bench/go.mod":                "require (\n\tgithub.com/panjf2000/gnet/v2 v2.9.7\n\tgithub.com/tidwall/evio v1.0.8 // indirect\n)\n",
		"bench/results/" + PeersFile:  string(text),
		"bench/results/versions.json": days,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return results
}

// TestVersions has a library with a newer version in use, one without, Go, a client without a
// version, and this repository's own servers.
func TestVersions(t *testing.T) {
	run := small()
	run.Servers = append(run.Servers, fleet.Entry{Name: "gnet-pool", Program: "gnet", Module: "github.com/panjf2000/gnet/v2", Version: "v2.9.0"},
		fleet.Entry{Name: "evio", Program: "evio", Module: "github.com/tidwall/evio", Version: "v1.0.8"},
		fleet.Entry{Name: "article", Program: "article", Module: "github.com/hone-go/hone/bench"})
	run.Servers[1].Module = "github.com/panjf2000/gnet/v2"
	run.Scenarios = append(run.Scenarios, Scenario{Name: "wrk"})
	results := repository(t, run, `{"Go": {"go1.26": "2026-02-10"}, "gone": {"v1": "2020-01-01"},
		"github.com/panjf2000/gnet/v2": {"v2.9.0": "2025-06-11", "v2.9.7": "2025-12-27"}, "github.com/tidwall/evio": {"v1.0.8": "2020-11-04"}}`)
	page := "<!-- bench: " + PeersFile + " run -->\n<!-- bench end -->\n"
	if _, err := Fill(page, results); err == nil {
		t.Error("a page need not say of which versions its tables are")
	}
	const want = `
| measured | version | released | newer version in use |
|---|---|---|---|
| Go | go1.26 | 2026-02-10 |  |
| github.com/panjf2000/gnet/v2 | v2.9.0 | 2025-06-11 | v2.9.7 of 2025-12-27 |
| github.com/tidwall/evio | v1.0.8 | 2020-11-04 |  |
| wrk | not recorded | not recorded |  |

`
	got, err := Fill(page+"<!-- bench: versions.json -->\n<!-- bench end -->\n", results)
	if err != nil || !strings.Contains(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
	none, err := Fill("<!-- bench: "+HTTPFile+" cpu -->\n<!-- bench end -->\n<!-- bench: versions.json -->\n<!-- bench end -->\n", results)
	if err != nil || !strings.Contains(none, "*No run is stored. `make bench WHAT=http` stores one.*") {
		t.Errorf("%v %q", err, none)
	}
}

// TestRefresh looks evio's version up, which is in the module cache, as the servers are built with it.
func TestRefresh(t *testing.T) {
	run := small()
	run.Servers = []fleet.Entry{{Name: "evio", Program: "evio", Module: "github.com/tidwall/evio", Version: "v1.0.8"}, {Name: "nginx", Program: "nginx", Version: "1.22.1"}, {Name: "haproxy", Program: "haproxy", Version: "3"}}
	results := repository(t, run, `{"gone": {"v1": "2020-01-01"}, "nginx": {"1.0": "2020-01-01", "1.22.1": "2022-10-19"}}`)
	if err := Refresh(t.Context(), results); err != nil {
		t.Fatal(err)
	}
	days, err := readReleases(results)
	if want := (releases{"github.com/tidwall/evio": {"v1.0.8": "2020-11-04"}, "nginx": {"1.22.1": "2022-10-19"}}); err != nil || !reflect.DeepEqual(days, want) {
		t.Errorf("%v, %v; want %v", days, err, want)
	}
}

// TestVersionsHaveDates holds versions.json to go.mod, the Makefile and what is stored.
func TestVersionsHaveDates(t *testing.T) {
	all, err := named("../results")
	days, errDays := readReleases("../results")
	if err := errors.Join(err, errDays); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if days[r.name][r.version] == "" && r.name != "wrk" { // a client that says of itself what Debian calls it
			t.Errorf("bench/results/versions.json does not say when %s %s was released; run go run ./bench/cmd/peers versions, or look into a program's change log", r.name, r.version)
		}
		delete(days[r.name], r.version)
	}
	for name, left := range days {
		for version := range left {
			t.Errorf("bench/results/versions.json has %s %s, which is neither measured nor in use; run go run ./bench/cmd/peers versions", name, version)
		}
	}
}

// TestPagesAreFilled holds the manual to what is stored.
func TestPagesAreFilled(t *testing.T) {
	for _, path := range []string{"../figures.md", "../../docs/http1.md"} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		filled, err := Fill(string(page), "../results")
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if filled != string(page) {
			t.Errorf("%s does not show what is in bench/results; run go run ./bench/cmd/peers tables %s", path, strings.TrimPrefix(path, "../"))
		}
	}
}

// TestPictureIsDrawn holds the README's picture to what is stored.
func TestPictureIsDrawn(t *testing.T) {
	stored, err := os.ReadFile("../../docs/img/beside-others.svg")
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := Picture("../results")
	if err != nil || drawn != string(stored) {
		t.Errorf("%v: docs/img/beside-others.svg does not show what is in bench/results; run go run ./bench/cmd/peers picture", err)
	}
	if _, err := Picture(t.TempDir()); err == nil {
		t.Error("a picture of nothing")
	}
}

func TestCPUModel(t *testing.T) {
	text := "processor\t: 0\nmodel\t\t: 6\nmodel name\t: Some  Chip @ 2 GHz\nprocessor\t: 1\nmodel name\t: Other\n"
	if got := cpuModel(text); got != "Some Chip @ 2 GHz" {
		t.Errorf("%q", got)
	}
	if got := cpuModel("nothing"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestGenerators(t *testing.T) {
	stalls := Stalls{PeriodMS: 500, StallMS: 300}
	for part, want := range map[float64]float64{0.3: 0, 0.5: 50_000, 0.99: 295_000, 0.999: 299_500} {
		if got := stalls.Quantile(part); math.Abs(got-want) > 1e-6 {
			t.Errorf("quantile %v is %v, want %v", part, got, want)
		}
	}
	g := &Generators{Head: Head{Valid: true, Servers: []fleet.Entry{{Name: "hone", Program: "hone"}, {Name: "k6", Version: "v1"}}}, Rate: 1000, Rounds: 2, Schedules: []Stalls{stalls}}
	for round := 1; round <= 2; round++ {
		for i, tool := range g.Servers {
			cpu := 25.0 * float64(round) * float64(1+3*i)
			g.Samples = append(g.Samples, Generated{
				Generator: tool.Name, Schedule: stalls.Name(), Round: round, Rate: 1000,
				P50: new(50_000.0), P99: new(295_000 * (1 + 0.1*float64(i))), CPU: &cpu,
			})
		}
	}
	for name, want := range map[string]string{
		"truth": "| 300 ms in 500 | p99 | 295.0 | 295.0 (+0.0 %) | 324.5 (+10.0 %) |\n| 300 ms in 500 | p99.9 | 299.5 | – | – |",
		"cpu":   "| 300 ms in 500 | 37.5 (25.0–50.0) | 150 (100–200) | 0.250 (0.250–0.250) |",
	} {
		if got, err := find(g.Tables(), name); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
	if g.Judge(); !g.Valid {
		t.Errorf("not valid: %q", g.InvalidReasons)
	}
	g.Samples[0].Rate, g.Samples[1].Doubt, g.Samples[2].Error = 900, "dropped", "died"
	if g.Judge(); g.Valid || len(g.InvalidReasons) != 3 {
		t.Errorf("valid %v: %q", g.Valid, g.InvalidReasons)
	}
}
