package record

import (
	"bytes"
	"errors"
	"fmt"
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

	"github.com/hone-go/hone/tool/figure"
)

func TestWhatIsAddedComesBack(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	s := opened(t, path)
	empty := &Run{}
	broken := &Run{Name: "bro\xffken", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("away", -7200)), Samples: []Sample{{
		Metrics: []Metric{{Name: "endless", Value: math.Inf(1)}, {Name: "zero", Value: math.Copysign(0, -1)}},
	}}}
	for _, r := range []*Run{sampleRun("präzise, 精确, \x00, ../../x"), empty, broken} {
		add(t, s, r)
		if len(r.ID) != 12 || !isHex(r.ID) {
			t.Errorf("ID %q", r.ID)
		}
	}
	s = opened(t, path)
	all := sampleRun("präzise, 精确, \x00, ../../x")
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
	if plain != "ea6495c51e3d" {
		t.Errorf("the ID of the same run is now %s: give figure.SchemaStored another number", plain)
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
		"Scenario":    func(r *Run) { r.Scenario.Settings["x"] = "x" },
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
}

func TestPairs(t *testing.T) {
	s := opened(t, newPath(t))
	a, b, c := sampleRun("a"), sampleRun("b"), sampleRun("c")
	for range 2 {
		if err := s.AddTogether(a, b); err != nil {
			t.Fatal(err)
		}
	}
	if a.PairedWith != b.ID || b.PairedWith != a.ID || a.ID == b.ID {
		t.Errorf("%s with %s, %s with %s", a.ID, a.PairedWith, b.ID, b.PairedWith)
	}
	checkSame(t, a, get(t, s, a.ID))
	checkSame(t, b, get(t, s, b.ID))
	if err := s.AddTogether(c, b); err == nil || c.ID != "" {
		t.Errorf("a second partner: %v, %q", err, c.ID)
	}
	if err := s.AddTogether(c, sampleRun("c")); err == nil {
		t.Error("a run is a pair with itself")
	}
	if ids := checkWhole(t, s); len(ids) != 2 {
		t.Errorf("%d runs: one of a pair came alone", len(ids))
	}
	if folder, err := s.Folder(b.ID); err != nil || filepath.Base(folder) != a.ID+"+"+b.ID {
		t.Errorf("a pair is in %s, %v", folder, err)
	}
	if _, err := s.Remove(a.ID, b.ID); err != nil || len(checkWhole(t, s)) > 0 {
		t.Errorf("both sides: %v", err)
	}
	d := sampleRun("d") // of three, all name the first, which names the second
	if err := s.AddTogether(a, b, d); err != nil || a.PairedWith != b.ID || b.PairedWith != a.ID || d.PairedWith != a.ID {
		t.Errorf("three: %v, %s, %s, %s", err, a.PairedWith, b.PairedWith, d.PairedWith)
	}
	checkSame(t, d, get(t, s, "d"))
	if _, err := s.Remove(b.ID); err != nil || len(checkWhole(t, s)) > 0 {
		t.Errorf("one of three: %v", err)
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
	for ref, want := range map[string]*Run{
		"latest": young, "latest~0": young, "latest~1": old, "latest~3": named,
		"main": young, old.ID: old, strings.ToUpper(old.ID): old, beef.ID[:6]: beef, "dev": revision, "v1": tagged,
	} {
		if got := get(t, s, ref); got.ID != want.ID {
			t.Errorf("%s is %s, want %s", ref, got.ID, want.ID)
		}
	}
	for ref, want := range map[string]error{
		"": ErrNotFound, "latest~8": ErrNotFound, "latest~-1": ErrNotFound, "latest~x": ErrNotFound, "mai": ErrNotFound, "latests": ErrNotFound, "de": ErrNotFound, "dev 2": ErrNotFound,
		beef.ID[:3]: ErrNotFound, beef.ID + "0": ErrNotFound, "%": ErrNotFound, "____": ErrNotFound,
		young.ID[:5]: ErrAmbiguous,
	} {
		if _, err := s.Get(ref); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", ref, err, want)
		}
	}
}

func TestList(t *testing.T) {
	s := opened(t, newPath(t))
	none, err := s.List(Filter{})
	if err != nil || none == nil || len(none) != 0 {
		t.Errorf("an empty store: %v, %v", none, err)
	}
	a, b, c := sampleRun("a"), sampleRun("b"), sampleRun("c")
	b.Scenario.Settings, c.Scenario = map[string]string{"conns": "1", "target": "http /"}, Scenario{Name: "other"}
	b.At, c.At = b.At.Add(1), c.At.Add(-1)
	add(t, s, a, b, c)
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
		all, err := s.List(asked.filter)
		var names []string
		for _, m := range all {
			names = append(names, m.Name)
		}
		if err != nil || !slices.Equal(names, asked.want) {
			t.Errorf("%+v: %v, %v; want %v", asked.filter, names, err, asked.want)
		}
	}
	all, _ := s.List(Filter{Limit: 1})
	want := Summary{
		ID: b.ID, Name: "b", Made: "bench", At: b.At, Scenario: b.Scenario.Name, ScenarioHash: b.Scenario.Hash(), Target: "http /",
		Fingerprint: b.Environment.Fingerprint(), Samples: 2, Valid: 1,
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
	if _, err := s.Remove(a.ID, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
	if ids := checkWhole(t, s); len(ids) != 3 {
		t.Fatalf("%d runs: some went before the refusal", len(ids))
	}
	freed, err := s.Remove(a.ID)
	if err != nil || freed < 1<<20 {
		t.Errorf("%d bytes are free of a log of a MiB, %v", freed, err)
	}
	checkSame(t, b, get(t, s, "b"))
	if _, err := s.Remove("latest"); err != nil {
		t.Error(err)
	}
	if ids := checkWhole(t, s); len(ids) != 1 {
		t.Errorf("%d runs", len(ids))
	}
}

func scenarioOf(conns string) Scenario { return Scenario{Settings: map[string]string{"conns": conns}} }

// Sessions of a program against itself are found by scenario, and latest skips them.
func TestRepeats(t *testing.T) {
	s := opened(t, newPath(t))
	kept := sampleRun("kept")
	add(t, s, kept)
	session := func(day int, scenario string) [2]*Run {
		var both [2]*Run
		for side := range both {
			r := sampleRun([]string{"A", "B"}[side])
			r.Made, r.Scenario, r.At = Repeat, scenarioOf(scenario), r.At.AddDate(0, 0, day)
			both[side] = r
		}
		if err := s.AddTogether(both[0], both[1]); err != nil {
			t.Fatal(err)
		}
		return both
	}
	second, first, half := session(2, "x"), session(1, "x"), session(3, "x")
	session(4, "y")
	add(t, s, func() *Run { r := sampleRun("bench"); r.Scenario, r.At = scenarioOf("x"), r.At.Add(1); return r }())
	if _, err := s.Remove(half[0].ID); err != nil {
		t.Fatal(err)
	}
	found, err := s.Repeats(scenarioOf("x").Hash())
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
	folder, _ := s.Folder(first[0].ID)
	damage(t, filepath.Join(folder, first[0].ID+".json"), []byte("292000"), []byte("292001"))
	if _, err := s.Repeats(scenarioOf("x").Hash()); !errors.Is(err, ErrDamaged) {
		t.Errorf("changed by hand: %v", err)
	}
}

// damage changes a file as no program of hone does.
func damage(t *testing.T, path string, old, now []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, old) {
		t.Fatalf("%s has no %s: %v", path, old, err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, old, now, 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is damaged is found, by name, and hides nothing else.
func TestDamaged(t *testing.T) {
	profile := digest([]byte("a profile"))
	for what, change := range map[string]func(folder, id string){
		"a figure": func(folder, id string) {
			damage(t, filepath.Join(folder, id+".json"), []byte("292000"), []byte("292001"))
		},
		"a cut document": func(folder, id string) { os.Truncate(filepath.Join(folder, id+".json"), 100) },
		"no document":    func(folder, id string) { os.Remove(filepath.Join(folder, id+".json")) },
		"an artefact": func(folder, _ string) {
			damage(t, filepath.Join(folder, profile), []byte("profile"), []byte("prof1le"))
		},
		"no artefact":     func(folder, _ string) { os.Remove(filepath.Join(folder, profile)) },
		"head: a name":    func(folder, _ string) { damage(t, filepath.Join(folder, headName), []byte("torn"), []byte("born")) },
		"head: cut":       func(folder, _ string) { os.Truncate(filepath.Join(folder, headName), 100) },
		"head: empty":     func(folder, _ string) { os.Truncate(filepath.Join(folder, headName), 0) },
		"head: too large": func(folder, _ string) { os.WriteFile(filepath.Join(folder, headName), make([]byte, 8<<10), 0o600) },
		"head: gone":      func(folder, _ string) { os.Remove(filepath.Join(folder, headName)) },
		"head: other version": func(folder, _ string) {
			damage(t, filepath.Join(folder, headName), []byte(figure.SchemaStore), []byte("hone.store/9"))
		},
	} {
		s := opened(t, newPath(t))
		torn, other := sampleRun("torn"), sampleRun("other")
		add(t, s, torn, other)
		folder, err := s.Folder(torn.ID)
		if err != nil {
			t.Fatal(err)
		}
		change(folder, torn.ID)
		_, err = s.Get(torn.ID)
		if said := fmt.Sprint(err); !errors.Is(err, ErrDamaged) || !strings.Contains(said, torn.ID) {
			t.Errorf("%s: %v", what, err)
		}
		skipped, err := s.Skipped()
		said := fmt.Sprint(skipped)
		if want := strings.HasPrefix(what, "head"); err != nil || want != (len(skipped) == 1 && strings.Contains(said, torn.ID)) {
			t.Errorf("%s: skipped %v, %v", what, skipped, err)
		}
		checkSame(t, other, get(t, s, "other"))
	}
}

// Other programs' files and folders are refused, and not touched.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	file, others := filepath.Join(dir, "file"), filepath.Join(dir, "others", "x")
	if err := errors.Join(os.WriteFile(file, []byte("SQLite format 3"), 0o600), os.MkdirAll(others, 0o700)); err != nil {
		t.Fatal(err)
	}
	before := files(t, dir)
	for _, path := range []string{file, filepath.Dir(others)} {
		for _, open := range []func(string) (*Store, error){Open, OpenRead} {
			if _, err := open(path); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := Open(filepath.Join(file, "runs")); err == nil {
		t.Error("a file is no folder")
	}
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("there is %v", after)
	}
	s := opened(t, newPath(t))
	add(t, s, sampleRun("x"))
	for _, name := range []string{"notes", ".hidden"} {
		if err := os.WriteFile(filepath.Join(s.path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	skipped, err := s.Skipped()
	if said := fmt.Sprint(skipped); err != nil || len(skipped) != 1 || !strings.Contains(said, "notes") {
		t.Errorf("skipped %v, %v", skipped, err)
	}
	get(t, opened(t, s.path), "x")
}

// Nobody else reads a store, whatever the umask is, and what a killed program has left goes a day later.
func TestStoreIsPrivateAndTidy(t *testing.T) {
	s := opened(t, newPath(t))
	a := sampleRun("a")
	if err := s.AddTogether(a, sampleRun("b")); err != nil {
		t.Fatal(err)
	}
	for _, path := range files(t, s.path) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	folder, _ := s.Folder(a.ID)
	old, young := filepath.Join(folder, newPrefix+"1"), filepath.Join(s.path, newPrefix+"2")
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.Mkdir(young, 0o700), os.Chtimes(old, time.Now(), time.Now().Add(-staleAfter-time.Minute))); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, opened(t, s.path))
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of yesterday: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("being written: %v", err)
	}
}

// run.json is small, whatever a run is called and however many samples it has.
func TestHeadIsSmall(t *testing.T) {
	s := opened(t, newPath(t))
	long := func(c string) *Run {
		r := sampleRun(strings.Repeat(c, 10_000))
		r.Made, r.Scenario.Name, r.Scenario.Settings = r.Name, r.Name, map[string]string{"target": r.Name}
		r.Samples = slices.Repeat(r.Samples, 500)
		return r
	}
	for _, c := range []string{"x", `"`, "\\", "\x00", "é", "\u2028"} {
		if err := s.AddTogether(long(c), long(c+"y")); err != nil {
			t.Fatal(err)
		}
		get(t, s, long(c).Name)
	}
	heads, _ := filepath.Glob(filepath.Join(s.path, "*+*", headName)) // the pattern is a good one
	for _, path := range heads {
		if info, err := os.Stat(path); err != nil || info.Size() > 8<<10 {
			t.Errorf("%s has %d bytes, %v", path, info.Size(), err)
		}
	}
	if ids := checkWhole(t, s); len(ids) != 12 {
		t.Errorf("%d runs", len(ids))
	}
}

func TestTooLarge(t *testing.T) {
	r := sampleRun("x")
	r.Samples[0].Artefacts = append(r.Samples[0].Artefacts, Artefact{"log", "again", []byte("a profile")}) // stored once
	size := 2*(len("all")+len("\x00\x01\x02")) + len("a profile")
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
	near := filepath.Join(top, "a", ".hone", "runs")
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
	if _, err := OpenRead(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
	r := sampleRun("x")
	add(t, opened(t, path), r)
	before := files(t, filepath.Dir(path))
	s, err := OpenRead(path)
	if err != nil {
		t.Fatal(err)
	}
	get(t, s, "x")
	_, removed := s.Remove("x")
	for what, err := range map[string]error{"Add": s.Add(sampleRun("y")), "Remove": removed} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := files(t, filepath.Dir(path)); !slices.Equal(before, after) {
		t.Errorf("%v are left, %v were there", after, before)
	}
}

// A store without runs says how to come by one.
func TestEmptyStoreSaysHowToFillIt(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("latest")
	if said := fmt.Sprint(err); !errors.Is(err, ErrNotFound) || !strings.HasSuffix(said, "none is stored yet; store one with hone bench, or with hone load --save NAME") {
		t.Error(said)
	}
}
