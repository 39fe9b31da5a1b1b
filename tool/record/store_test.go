package record

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWhatIsAddedComesBack(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	s := opened(t, path)
	empty := &Run{}
	broken := &Run{Name: "bro\xffken", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("away", -7200)), Samples: []Sample{{
		Metrics: []Metric{{Name: "endless", Value: math.Inf(1)}, {Name: "zero", Value: math.Copysign(0, -1)}},
	}}}
	for _, r := range []*Run{sampleRun("präzise, 精确, \x00, '; DROP TABLE run"), empty, broken} {
		add(t, s, r)
		if len(r.ID) != 12 || !isHex(r.ID) {
			t.Errorf("ID %q", r.ID)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path)
	all := sampleRun("präzise, 精确, \x00, '; DROP TABLE run")
	back := get(t, s, "latest")
	all.ID = back.ID
	checkSame(t, all, back)
	checkSame(t, empty, get(t, s, empty.ID))
	broken.Name = "bro\uFFFDken"
	broken.Samples[0].Metrics[0].Value = math.NaN()
	checkSame(t, broken, get(t, s, broken.ID))
}

func TestAnyRunComesBack(t *testing.T) {
	s := opened(t, newPath(t))
	rapid.Check(t, func(rt *rapid.T) {
		r := runs().Draw(rt, "run")
		add(t, s, r)
		checkSame(rt, r, get(t, s, r.ID))
	})
	checkWhole(t, s)
}

// An ID depends on the whole content, and on nothing else.
func TestIDs(t *testing.T) {
	id := func(change func(*Run)) string {
		r := sampleRun("x")
		change(r)
		c, err := seal(r)
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	plain := id(func(*Run) {})
	if plain != "dd218c013ed9" {
		t.Errorf("the ID of the same run is now %s: give documentSchema another number", plain)
	}
	for what, change := range map[string]func(*Run){
		"ID":            func(r *Run) { r.ID = "0123456789ab" },
		"PairedWith":    func(r *Run) { r.PairedWith = "0123456789ab" },
		"another place": func(r *Run) { r.At = r.At.In(time.FixedZone("away", 3600)) },
		"nil":           func(r *Run) { r.Samples[0].Reasons = nil },
	} {
		if id(change) != plain {
			t.Errorf("%s changes the ID", what)
		}
	}
	seen := map[string]string{plain: "nothing"}
	for what, change := range map[string]func(*Run){
		"Name":        func(r *Run) { r.Name = "y" },
		"Made":        func(r *Run) { r.Made = "load" },
		"At":          func(r *Run) { r.At = r.At.Add(1) },
		"Scenario":    func(r *Run) { r.Scenario.Text += "x" },
		"Strict":      func(r *Run) { r.Environment.Strict["cpu"] = "x" },
		"Soft":        func(r *Run) { r.Environment.Soft["x"] = "" },
		"a sample":    func(r *Run) { r.Samples = r.Samples[:1] },
		"a reason":    func(r *Run) { r.Samples[1].Reasons[0] = "x" },
		"a value":     func(r *Run) { r.Samples[0].Metrics[0].Value++ },
		"no figure":   func(r *Run) { r.Samples[0].Metrics[2].Value = 0 },
		"a histogram": func(r *Run) { r.Samples[0].Histograms[0].Data[0]++ },
		"a series":    func(r *Run) { r.Samples[0].Series[0].Values[1] = 0 },
		"an artefact": func(r *Run) { r.Samples[0].Artefacts[0].Data[0]++ },
	} {
		now := id(change)
		if before, taken := seen[now]; taken {
			t.Errorf("%s and %s have the same ID", what, before)
		}
		seen[now] = what
	}
}

func TestAddingAgainChangesNothing(t *testing.T) {
	s := opened(t, newPath(t))
	a, b := sampleRun("a"), sampleRun("b")
	add(t, s, a, b)
	add(t, s, sampleRun("a"), get(t, s, b.ID))
	if ids := checkWhole(t, s); len(ids) != 2 {
		t.Errorf("%d runs", len(ids))
	}
	var blobs int
	if err := s.db.QueryRow("SELECT count(*) FROM blob").Scan(&blobs); err != nil || blobs != 4 {
		t.Errorf("%d blobs, %v: what is the same is stored once", blobs, err)
	}
}

func TestPairs(t *testing.T) {
	s := opened(t, newPath(t))
	a, b, c := sampleRun("a"), sampleRun("b"), sampleRun("c")
	add(t, s, a)
	for range 2 {
		if err := s.AddPair(t.Context(), a, b); err != nil {
			t.Fatal(err)
		}
	}
	if a.PairedWith != b.ID || b.PairedWith != a.ID || a.ID == b.ID {
		t.Errorf("%s with %s, %s with %s", a.ID, a.PairedWith, b.ID, b.PairedWith)
	}
	checkSame(t, a, get(t, s, a.ID))
	checkSame(t, b, get(t, s, b.ID))
	if err := s.AddPair(t.Context(), c, b); err == nil || c.ID != "" {
		t.Errorf("a second partner: %v, %q", err, c.ID)
	}
	if err := s.AddPair(t.Context(), c, sampleRun("c")); err == nil {
		t.Error("a run is a pair with itself")
	}
	if ids := checkWhole(t, s); len(ids) != 2 {
		t.Errorf("%d runs: one of a pair came alone", len(ids))
	}
}

func TestReferences(t *testing.T) {
	s := opened(t, newPath(t))
	at := func(name string, hours int) *Run {
		r := sampleRun(name)
		r.At = r.At.Add(time.Duration(hours) * time.Hour)
		return r
	}
	old, young, beef := at("main", 1), at("main", 2), at("", 0)
	add(t, s, young, old, beef)
	tagged, revision := at("v1", -4), at("dev 2b1d8c6ad7", -5) // a run called as a revision, and one of a revision
	add(t, s, at("v1 0a1b2c3d4e", -2), at("v1 2b1d8c6ad7", -3), tagged, revision)
	named := at(young.ID[:5], -1) // its name is a prefix of another run's ID
	add(t, s, named)
	if err := s.SetBaseline(t.Context(), "v1:α", "latest~1"); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]*Run{
		"latest": young, "latest~0": young, "latest~1": old, "latest~3": named,
		"main": young, old.ID: old, strings.ToUpper(old.ID): old, beef.ID[:6]: beef, "dev": revision, "v1": tagged, "baseline:v1:α": old,
	} {
		if got := get(t, s, ref); got.ID != want.ID {
			t.Errorf("%s is %s, want %s", ref, got.ID, want.ID)
		}
	}
	for ref, want := range map[string]error{
		"": ErrNotFound, "latest~8": ErrNotFound, "latest~-1": ErrNotFound, "latest~x": ErrNotFound, "mai": ErrNotFound, "latests": ErrNotFound, "de": ErrNotFound, "dev 2": ErrNotFound,
		beef.ID[:3]: ErrNotFound, beef.ID + "0": ErrNotFound, "baseline:v1": ErrNotFound, "%": ErrNotFound, "____": ErrNotFound,
		young.ID[:5]: ErrAmbiguous,
	} {
		if _, err := s.Get(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", ref, err, want)
		}
	}
}

func TestList(t *testing.T) {
	s := opened(t, newPath(t))
	none, err := s.List(t.Context(), Filter{})
	if err != nil || none == nil || len(none) != 0 {
		t.Errorf("an empty store: %v, %v", none, err)
	}
	a, b, c := sampleRun("a"), sampleRun("b"), sampleRun("c")
	b.Scenario.Text, c.Scenario = "conns=1\ntarget=http /\n", Scenario{"other", "other"}
	c.At = c.At.Add(-time.Nanosecond)
	add(t, s, a, b, c)
	if err := s.SetBaseline(t.Context(), "main", b.ID); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, []string{"b", "a", "c"}},
		{Filter{Limit: 2}, []string{"b", "a"}},
		{Filter{Name: "a"}, []string{"a"}},
		{Filter{Scenario: "other"}, []string{"c"}},
		{Filter{Scenario: b.Scenario.Hash(), Limit: 1}, []string{"b"}},
		{Filter{Scenario: "other", Name: "a"}, nil},
	} {
		all, err := s.List(t.Context(), asked.filter)
		var names []string
		for _, m := range all {
			names = append(names, m.Name)
		}
		if err != nil || !slices.Equal(names, asked.want) {
			t.Errorf("%+v: %v, %v; want %v", asked.filter, names, err, asked.want)
		}
	}
	all, _ := s.List(t.Context(), Filter{Limit: 1})
	want := Summary{
		ID: b.ID, Name: "b", Made: "bench", At: b.At, Scenario: b.Scenario.Name, ScenarioHash: b.Scenario.Hash(), Target: "http /",
		Fingerprint: b.Environment.Fingerprint(), Samples: 2, Valid: 1, Baselines: []string{"main"},
	}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("%+v, want %+v", all[0], want)
	}
}

func TestRemove(t *testing.T) {
	path := newPath(t)
	s := opened(t, path)
	big := func(name string, fill byte) *Run {
		r := sampleRun(name)
		r.Samples[0].Artefacts = append(r.Samples[0].Artefacts, Artefact{"log", "big", slices.Repeat([]byte{fill}, 1<<20)})
		return r
	}
	a, b, c := big("a", 1), big("b", 1), big("c", 2)
	add(t, s, a, b, c)
	if err := s.SetBaseline(t.Context(), "main", c.ID); err != nil {
		t.Fatal(err)
	}
	var refused *BaselineError
	if _, err := s.Remove(t.Context(), a.ID, c.ID); !errors.As(err, &refused) || refused.ID != c.ID || !slices.Equal(refused.Names, []string{"main"}) {
		t.Errorf("removing a baseline: %v", err)
	}
	if _, err := s.Remove(t.Context(), a.ID, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
	if ids := checkWhole(t, s); len(ids) != 3 {
		t.Fatalf("%d runs: some went before the refusal", len(ids))
	}
	freed, err := s.Remove(t.Context(), a.ID)
	if err != nil || freed > 1<<19 {
		t.Errorf("%d bytes are free of a log that b has too, %v", freed, err)
	}
	checkSame(t, b, get(t, s, "b"))
	freed, err = s.Remove(t.Context(), "b")
	if err != nil || freed < 1<<20 {
		t.Errorf("%d bytes are free of a log of a MiB, %v", freed, err)
	}
	checkSame(t, c, get(t, s, "latest"))
	if ids := checkWhole(t, s); len(ids) != 1 {
		t.Errorf("%d runs", len(ids))
	}
	if err := s.RemoveBaseline(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if _, err := s.Remove(t.Context(), "latest"); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 1<<19 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
}

func TestBaselines(t *testing.T) {
	s := opened(t, newPath(t))
	a, b := sampleRun("a"), sampleRun("b")
	add(t, s, a, b)
	for _, set := range [][2]string{{"v1", a.ID}, {"main", a.ID}, {"main", "b"}} {
		if err := s.SetBaseline(t.Context(), set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Baselines(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "main" || all[0].ID != b.ID || all[1].ID != a.ID || all[0].At.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.SetBaseline(t.Context(), "x", "nothing"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.SetBaseline(t.Context(), "", a.ID); err == nil {
		t.Error("a baseline without a name")
	}
	if err := s.RemoveBaseline(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// Sessions of a program against itself are found by scenario, and latest skips them.
func TestRepeats(t *testing.T) {
	s := opened(t, newPath(t))
	kept := sampleRun("kept")
	add(t, s, kept)
	session := func(day int, scenario string) [2]*Run {
		var both [2]*Run
		for side := range both {
			r := sampleRun([]string{"A", "B"}[side])
			r.Made, r.Scenario.Text, r.At = Repeat, scenario, r.At.AddDate(0, 0, day)
			both[side] = r
		}
		if err := s.AddPair(t.Context(), both[0], both[1]); err != nil {
			t.Fatal(err)
		}
		return both
	}
	second, first, half := session(2, "x"), session(1, "x"), session(3, "x")
	session(4, "y")
	add(t, s, func() *Run { r := sampleRun("bench"); r.Scenario.Text = "x"; return r }())
	if _, err := s.Remove(t.Context(), half[0].ID); err != nil {
		t.Fatal(err)
	}
	found, err := s.Repeats(t.Context(), Scenario{Text: "x"}.Hash())
	if err != nil || len(found) != 2 {
		t.Fatalf("%d sessions, %v", len(found), err)
	}
	for i, want := range [][2]*Run{second, first} {
		for side := range want {
			checkSame(t, want[side], found[i][side])
		}
	}
	if got := get(t, s, "latest"); got.Made != "bench" || got.Name != "bench" {
		t.Errorf("latest is %s by %s", got.Name, got.Made)
	}
	if got := get(t, s, "latest~1"); got.ID != kept.ID {
		t.Errorf("latest~1 is %s by %s", got.Name, got.Made)
	}
	if _, err := s.db.Exec("UPDATE metric SET value = 7 WHERE run = (SELECT min(seq) FROM run WHERE scenario_text = 'x' AND made = 'noise')"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Repeats(t.Context(), Scenario{Text: "x"}.Hash()); !errors.Is(err, ErrDamaged) {
		t.Errorf("changed by hand: %v", err)
	}
}

// Changes to the file by other programs are detected.
func TestChangedByOthers(t *testing.T) {
	for _, change := range []string{
		"UPDATE metric SET value = value + 1 WHERE number = 0 AND sample = 0",
		"UPDATE blob SET data = x'00' WHERE sha256 = (SELECT min(sha256) FROM blob)",
		"DELETE FROM sample WHERE number = 0", // its figures are deleted with it
		"DELETE FROM series",
		"PRAGMA foreign_keys = 0; UPDATE metric SET sample = sample + 7; PRAGMA foreign_keys = 1",
	} {
		s := opened(t, newPath(t))
		r := sampleRun("x")
		add(t, s, r)
		if _, err := s.db.Exec(change); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), r.ID); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// Every figure can be queried in one view.
func TestFiguresAreForEverybodysSQL(t *testing.T) {
	s := opened(t, newPath(t))
	add(t, s, sampleRun("x"))
	var rate, second float64
	var figures, none int
	if err := s.db.QueryRow("SELECT value FROM figure WHERE name = 'x' AND metric = 'rate' AND valid").Scan(&rate); err != nil || rate != 292e3 {
		t.Errorf("%v, %v", rate, err)
	}
	if err := s.db.QueryRow("SELECT count(*), count(*) FILTER (WHERE value IS NULL) FROM figure").Scan(&figures, &none); err != nil || figures != 6 || none != 2 {
		t.Errorf("%d figures, %d of them none, %v", figures, none, err)
	}
	if err := s.db.QueryRow("SELECT e.value FROM series, json_each(figures) e WHERE sample = 0 AND e.key = 2").Scan(&second); err != nil || second != 1e300 {
		t.Errorf("%v, %v", second, err)
	}
}

func TestTooLarge(t *testing.T) {
	r := sampleRun("x")
	r.Samples[0].Artefacts = append(r.Samples[0].Artefacts, Artefact{"log", "again", []byte("a profile")}) // stored once
	size := len("all") + len("\x00\x01\x02") + len("a profile")
	if _, err := sealWithin(r, size); err != nil {
		t.Errorf("just small enough: %v", err)
	}
	if _, err := sealWithin(r, size-1); err == nil {
		t.Error("more than can be imported again")
	}
}

func TestFind(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b", "c")
	for _, dir := range []string{deep, filepath.Join(top, "a", ".hone")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "a", "b", ".hone"), nil, 0o644); err != nil { // not a folder
		t.Fatal(err)
	}
	before := files(t, top)
	near := filepath.Join(top, "a", ".hone", "runs.db")
	for _, dir := range []string{deep, filepath.Join(top, "a")} {
		if got, err := Find(dir); err != nil || got != near {
			t.Errorf("from %s: %s, %v", dir, got, err)
		}
	}
	t.Chdir(deep)
	if got, err := Find("."); err != nil || filepath.Base(filepath.Dir(got)) != ".hone" {
		t.Errorf("from here: %s, %v", got, err)
	}
	if after := files(t, top); !slices.Equal(before, after) {
		t.Errorf("it has made %v", after)
	}
}

func TestDataFolder(t *testing.T) {
	abs, err := filepath.Abs(string(filepath.Separator) + "data")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", map[string]string{"HOME": "h", "XDG_DATA_HOME": abs}, abs},
		{"linux", map[string]string{"HOME": "h", "XDG_DATA_HOME": "relative"}, filepath.Join("h", ".local", "share")},
		{"freebsd", map[string]string{"HOME": "h"}, filepath.Join("h", ".local", "share")},
		{"darwin", map[string]string{"HOME": "h", "XDG_DATA_HOME": abs}, filepath.Join("h", "Library", "Application Support")},
		{"windows", map[string]string{"LocalAppData": "l"}, "l"},
		{"windows", nil, ""},
		{"linux", nil, ""},
	} {
		got, err := dataFolder(c.goos, func(key string) string { return c.env[key] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s with %v: %q, %v; want %q", c.goos, c.env, got, err, c.want)
		}
	}
}

func TestOpenReadMakesNothing(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	if _, err := OpenRead(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	s := opened(t, path)
	add(t, s, sampleRun("x"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, filepath.Dir(path))
	s, err := OpenRead(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	get(t, s, "x")
	if err := s.Add(t.Context(), sampleRun("y")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("writing: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := files(t, filepath.Dir(path)); !slices.Equal(before, after) || len(after) != 2 {
		t.Errorf("%v are left, %v were there", after, before)
	}
}
