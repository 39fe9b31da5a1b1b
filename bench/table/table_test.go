package table

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small has two servers and hone in eight rounds, in which hone uses half of net's CPU, and a peer's that is better.
func small() *Row {
	r := &Row{Name: "frames/A", Title: "a load", Rounds: 8, WindowMS: 1000, Seed: 7, Retaken: 3, Client: "hone bench"}
	r.Head = Head{
		Schema: Schema, InvalidReasons: []string{"a test"}, Machine: Machine{CPU: "Abacus", CPUs: 2, Kernel: "6.1", System: "linux/amd64", Go: "go1.26", Commit: "abc", Changed: true, Date: "2026-01-02"},
		Servers: []Server{{Name: "net", Program: "netbufio", Version: "go1.26"}, {Name: "gnet", Program: "gnet", Module: "example.com/gnet", Version: "v2.9.0"}, {Name: "hone-events", Program: "hone"}, {Name: "absent", Program: "hone"}},
	}
	for round := range 8 {
		for i, server := range []string{"net", "gnet", "hone-events"} {
			cpu := []float64{8, 3, 4}[i] * (1 + 0.01*float64((round*7+i*3)%5))
			r.Samples = append(r.Samples, Sample{Server: server, Round: round, Figures: map[string]float64{"cpu_us": cpu, "rate": 1000 * cpu, "others": 0.25}})
		}
	}
	r.Samples = append(r.Samples, Sample{Server: "net", Round: 8, Error: "it died"})
	return r
}

// stored is small, and a row with cases.
func stored() *Stored {
	idle := small()
	idle.Name, idle.Samples = "frames/idle", []Sample{
		{Server: "net", Case: "1k", Figures: map[string]float64{"per_conn_bytes": 14_000}}, {Server: "net", Case: "5k", Figures: map[string]float64{"per_conn_bytes": 14_291}},
		{Server: "hone-events", Case: "1k", Figures: map[string]float64{"per_conn_bytes": 119}},
	}
	return &Stored{rows: map[string]*Row{"frames/A": small(), "frames/idle": idle}, tortures: map[string]*Torture{}, days: releases{}, used: map[string]string{}}
}

func TestTables(t *testing.T) {
	s := stored()
	s.tortures["torture"] = &Torture{
		Head: Head{Valid: true, Servers: []Server{{Name: "frames/net", Version: "go1.26"}, {Name: "frames/hone", Program: "hone"}, {Name: "frames/failed"}}}, Wait: 75, Seed: 1,
		Outcomes: []Outcome{{"frames/net", "churn", "fell", "dies"}, {"frames/net", "silent", "not found out", ""}, {"frames/hone", "churn", "survived", ""}},
	}
	for spec, want := range map[string]string{
		"cpu_us of frames/A": "| server | A |\n|---|---|\n| net go1.26 | 8.16 (8.00–8.32) 1×failed |\n| gnet v2.9.0 | 3.06 (3.00–3.12) |\n| **hone-events** | 4.06 (4.00–4.16) |\n",
		"cpu_us rate of frames/A": "| server | CPU µs | thousand/s |\n|---|---|---|\n| net go1.26 | 8.16 (8.00–8.32) 1×failed | 8.16 (8.00–8.32) 1×failed |\n" +
			"| gnet v2.9.0 | 3.06 (3.00–3.12) | 3.06 (3.00–3.12) |\n| **hone-events** | 4.06 (4.00–4.16) | 4.06 (4.00–4.16) |\n",
		"per_conn_bytes of frames/idle":         "| server | 1k | 5k |\n|---|---|---|\n| net go1.26 | 14000 | 14291 |\n| **hone-events** | 119 | – |\n",
		"per_conn_bytes of frames/idle by case": "|  | net go1.26 | gnet v2.9.0 | **hone-events** | **absent** |\n|---|---|---|---|---|\n| 1k | 14000 | – | 119 | – |\n| 5k | 14291 | – | – | – |\n",
		"cpu_us of nothing":                     "*No run is stored. `go run ./bench/cmd/peers run nothing` stores one.*\n",
		"scoreboard of torture": "| server | survived | slower | fell | not found out | fell in |\n|---|---|---|---|---|---|\n| frames/net go1.26 | 0 | 0 | 1 | 1 | churn |\n| **frames/hone** | 1 | 0 | 0 | 0 |  |\n\n" +
			", 0 CPUs, Linux ,  , commit , . Each server started by hone (`--cmd`), `--wait 75s --seed 1`.\n",
	} {
		if got, err := s.Table(spec); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", spec, err, got, want)
		}
	}
	for spec, wants := range map[string][]string{
		"cpu_us of frames/A to net": {"| net go1.26 | 1 1×failed |\n", "| **hone-events** | 0.49", "–0.5"},
		"losses":                    {"| frames/A | CPU µs | 4.06 | gnet 1.3"},
		"facts of frames/A":         {"**INVALID**: a test.\n\n- frames/A: a load. Abacus, 2 CPUs, Linux 6.1, go1.26 linux/amd64, commit abc with changes, 2026-01-02; 8 rounds of 1.0 s (seed 7), 3 samples thrown away. Measured by hone bench.\n"},
	} {
		got, err := s.Table(spec)
		for _, want := range wants {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v\n%s\nwant %s", spec, err, got, want)
			}
		}
	}
	for _, bad := range []string{"", "nonsense of frames/A", "scoreboard of nothing"} {
		if got, err := s.Table(bad); err == nil {
			t.Errorf("%q makes %q", bad, got)
		}
	}
	if losses, _ := s.Table("losses"); strings.Contains(losses, "net go") {
		t.Errorf("a peer that is worse is better:\n%s", losses)
	}
}

func TestFill(t *testing.T) {
	s, page := stored(), "before\n<!-- table: rate of frames/A -->\nold\n\nolder\n<!-- table end -->\nafter\n"
	for range 2 { // filling a filled page changes nothing
		got, err := s.Fill(page)
		if err != nil || !strings.HasPrefix(got, "before\n<!-- table: rate of frames/A -->\n\n| server | A |\n") || !strings.HasSuffix(got, " |\n\n<!-- table end -->\nafter\n") {
			t.Fatalf("%v\n%s", err, got)
		}
		page = got
	}
	for _, bad := range []string{"<!-- table: rate of frames/A -->\n", "<!-- table: nonsense of frames/A -->\n<!-- table end -->\n"} {
		if got, err := s.Fill(bad); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// TestStoredRunsComeBack writes a row and reads it among what the repository has.
func TestStoredRunsComeBack(t *testing.T) {
	root := t.TempDir()
	results := filepath.Join(root, "bench", "results")
	if err := small().Write(results); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Makefile": "bench:\n\tGOWORK=off go install go.k6.io/k6@v1.8.1\n", "go.work": "go 1.26.0\n\ntoolchain go1.26.1\n",
		"bench/go.mod":                "require (\n\texample.com/gnet v2.9.7\n\tgithub.com/other v1.0.8 // indirect\n)\n",
		"bench/results/versions.json": `{"Go": {"go1.26": "2026-02-10"}, "gone": {"v1": "2020-01-01"}, "example.com/gnet": {"v2.9.0": "2025-06-11", "v2.9.7": "2025-12-27"}}`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(results)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Encode(s.rows["frames/A"])
	want, errWant := Encode(small())
	if err := errors.Join(err, errWant); err != nil || string(text) != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if n := strings.Count(string(text), "\n{\"server\":"); n != len(small().Samples) {
		t.Errorf("%d lines begin with a sample, not %d:\n%s", n, len(small().Samples), text)
	}
	const table = "| measured | version | released | in use since |\n|---|---|---|---|\n| Go | go1.26 | 2026-02-10 | go1.26.1 of  |\n| example.com/gnet | v2.9.0 | 2025-06-11 | v2.9.7 of 2025-12-27 |\n"
	if got := s.versions(); got != table {
		t.Errorf("%s\nwant\n%s", got, table)
	}
	behind := s.Behind()
	if got := slices.Sorted(maps.Keys(behind)); !slices.Equal(got, []string{"Go go1.26, not go1.26.1", "example.com/gnet v2.9.0, not v2.9.7"}) || !slices.Equal(behind[got[1]], []string{"frames/A"}) {
		t.Errorf("%v", behind)
	}
	if err := os.WriteFile(filepath.Join(results, "x.json"), []byte(`{"schema": "other"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(results); err == nil {
		t.Error("a run of another schema is read")
	}
}

// TestCurrent has a row measured again when a package of its servers changes, and not when a test or another package does.
func TestCurrent(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
	}
	git("init", "-q")
	write("engine/a.go", "package engine\n")
	git("commit", "-qm", "first")
	s := stored()
	r := s.rows["frames/A"]
	r.Valid, r.Packages, r.Machine.Commit = true, []string{"engine"}, git("rev-parse", "HEAD")
	for _, step := range []struct {
		name, text string
		current    bool
	}{{"engine/a_test.go", "package engine\n", true}, {"route/a.go", "package route\n", true}, {"engine/in/a.go", "package in\n", true}, {"engine/b.go", "package engine\n", false}} {
		write(step.name, step.text)
		if got := s.Current(t.Context(), "frames/A", root); got != step.current {
			t.Errorf("after %s the row is current: %v", step.name, got)
		}
	}
	git("commit", "-qm", "second")
	if r.Machine.Commit = git("rev-parse", "HEAD"); !s.Current(t.Context(), "frames/A", root) {
		t.Error("measured again, the row is not current")
	}
	for name, spoil := range map[string]func(){"invalid": func() { r.Valid = false }, "of an older peer": func() { s.used["example.com/gnet"] = "v2.9.7" }, "without packages": func() { r.Packages = nil }} {
		before, used := *r, s.used
		s.used = map[string]string{}
		if spoil(); s.Current(t.Context(), "frames/A", root) {
			t.Errorf("a row %s is current", name)
		}
		*r, s.used = before, used
	}
	want := "| rows | packages |\n|---|---|\n| frames/A | engine |\n"
	if got, err := s.Table("packages"); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestRefresh looks days up at a proxy in a folder, whose times are in other zones.
func TestRefresh(t *testing.T) {
	proxy := t.TempDir()
	at := filepath.Join(proxy, "example.com", "peer", "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"v1.0.0.info": `{"Version": "v1.0.0", "Time": "2020-11-03T23:30:00-05:00"}`, "v1.0.0.mod": "module example.com/peer\n", "list": "v1.0.0\n"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"GOPROXY": "file://" + proxy, "GOMODCACHE": t.TempDir(), "GONOSUMDB": "*", "GONOPROXY": "none", "GOFLAGS": "-modcacherw"} {
		t.Setenv(name, value)
	}
	s := stored()
	s.rows["frames/A"].Servers = []Server{{Name: "peer", Program: "peer", Module: "example.com/peer", Version: "v1.0.0"}, {Name: "nginx", Program: "nginx", Version: "1.22.1"}, {Name: "haproxy", Program: "haproxy", Version: "3"}}
	s.rows["frames/idle"].Servers, s.days = nil, releases{"gone": {"v1": "2020-01-01"}, "nginx": {"1.0": "2020-01-01", "1.22.1": "2022-10-19"}}
	results := t.TempDir()
	if err := s.Refresh(t.Context(), results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(results, versionsFile))
	if want := "{\n\t\"example.com/peer\": {\n\t\t\"v1.0.0\": \"2020-11-04\"\n\t},\n\t\"nginx\": {\n\t\t\"1.22.1\": \"2022-10-19\"\n\t}\n}\n"; err != nil || string(text) != want {
		t.Errorf("%v %s; want %s", err, text, want)
	}
}

// repository is what is stored here.
func repository(t *testing.T) *Stored {
	t.Helper()
	s, err := Load("../results")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestVersionsHaveDates holds versions.json to go.mod, the Makefile and what is stored.
func TestVersionsHaveDates(t *testing.T) {
	s := repository(t)
	for r := range s.named() {
		if s.days[r.name][r.version] == "" {
			t.Errorf("bench/results/versions.json does not say when %s %s was released; run go run ./bench/cmd/peers versions, or look into a program's change log", r.name, r.version)
		}
		delete(s.days[r.name], r.version)
	}
	for name, left := range s.days {
		for version := range left {
			t.Errorf("bench/results/versions.json has %s %s, which is neither measured nor in use; run go run ./bench/cmd/peers versions", name, version)
		}
	}
}

// stale are the rows that are stored of older versions than those in use, until they are measured again: none may be
// added.
var stale = []string{
	"torture", "torture-http2",
}

// TestStoredVersionsAreInUse fails when a row was measured with another version of a peer than go.mod's, or with another
// Go than go.work's.
func TestStoredVersionsAreInUse(t *testing.T) {
	behind := make(map[string]bool)
	for what, rows := range repository(t).Behind() {
		for _, row := range rows {
			if behind[row] = true; !slices.Contains(stale, row) {
				t.Errorf("%s has %s; run go run ./bench/cmd/peers run %s", row, what, row)
			}
		}
	}
	for _, row := range stale {
		if !behind[row] && !strings.HasPrefix(row, "torture") { // which is measured piece by piece
			t.Errorf("%s is not stale any more; remove it from the list", row)
		}
	}
}

// TestPagesAreFilled holds the pages to what is stored.
func TestPagesAreFilled(t *testing.T) {
	s := repository(t)
	for _, path := range Pages("..") {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filled, err := s.Fill(string(page)); err != nil || filled != string(page) {
			t.Errorf("%s does not show what is in bench/results; run go run ./bench/cmd/peers tables: %v", path, err)
		}
	}
}

// TestPictureIsDrawn holds the README's picture to what is stored.
func TestPictureIsDrawn(t *testing.T) {
	on, err := os.ReadFile("../../docs/img/beside-others.svg")
	if err != nil {
		t.Fatal(err)
	}
	if drawn, err := repository(t).Picture(); err != nil || drawn != string(on) {
		t.Errorf("docs/img/beside-others.svg does not show what is in bench/results; run go run ./bench/cmd/peers tables: %v", err)
	}
	if _, err := stored().Picture(); err == nil {
		t.Error("a picture of too little")
	}
}
