package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// TestMain runs the tests, or acts as another program that uses the same store.
func TestMain(m *testing.M) {
	role := os.Getenv("HONE_TEST_ROLE")
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	play, known := roles()[role]
	err := errors.New("there is no role " + role)
	if known {
		err = play(os.Getenv("HONE_TEST_STORE"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func roles() map[string]func(string) error {
	all := map[string]func(string) error{"add": addMany}
	maps.Copy(all, platformRoles())
	return all
}

// addMany adds runs that no other process adds, and prints the ID of each once it is
// stored.
func addMany(path string) error {
	count, err := strconv.Atoi(os.Getenv("HONE_TEST_COUNT"))
	if err != nil {
		return err
	}
	s, err := Open(path)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for range count {
		r := sampleRun("many")
		for i := range r.Samples {
			r.Samples[i].Artefacts = append(r.Samples[i].Artefacts, Artefact{"log", "random", noise(random, 100<<10)})
		}
		if err := s.Add(r); err != nil {
			return err
		}
		fmt.Println(r.ID)
	}
	return nil
}

// another starts this program in a role, with the store at path. It is killed when the
// test's patience ends.
func another(t *testing.T, role, path string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), "HONE_TEST_ROLE="+role, "HONE_TEST_STORE="+path), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// countLeaks compares goroutines and descriptors at the end of the test with now. Call it
// first, so that it checks after all other clean-ups.
func countLeaks(t *testing.T) {
	t.Helper()
	goroutines, files := goleak.IgnoreCurrent(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return // a failed test may leave them behind
		}
		if err := goleak.Find(goroutines); err != nil {
			t.Errorf("goroutines outlive the test: %v", err)
		}
		if now := openFiles(); now > files {
			t.Errorf("%d descriptors are open, and %d were", now, files)
		}
	})
}

func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

func newPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "a folder", "that? is#new%20", storeName)
}

// opened opens a store.
func opened(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *Store, runs ...*Run) {
	t.Helper()
	for _, r := range runs {
		if err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t testing.TB, s *Store, ref string) *Run {
	t.Helper()
	r, err := s.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkWhole checks that every run of the store is complete, and that nothing else is there.
func checkWhole(t testing.TB, s *Store) (ids []string) {
	t.Helper()
	skipped, err := s.Skipped()
	if err != nil || len(skipped) > 0 {
		t.Errorf("skipped: %v, %v", skipped, err)
	}
	all, err := s.List(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		get(t, s, m.ID)
		ids = append(ids, m.ID)
	}
	return ids
}

func noise(random *rand.Rand, size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// moment is when all runs of these tests began.
func moment() time.Time { return time.Date(2026, 11, 21, 22, 56, 3, 123456789, time.UTC) }

// sampleRun returns a run that uses every feature.
func sampleRun(name string) *Run {
	r := &Run{
		Name: name, Made: "bench", At: moment(),
		Scenario:    Scenario{Name: "echo 100 × 16", Settings: map[string]string{"target": "tcp", "conns": "100", "depth": "16"}},
		Environment: Environment{Strict: map[string]string{"cpu": "Xeon <8>", "goos": "linux"}, Soft: map[string]string{"governor": "schedutil"}},
	}
	for i := range 2 {
		r.Samples = append(r.Samples, Sample{
			Pair: i + 1, Order: 2*i + 1, At: r.At.Add(time.Duration(i) * time.Second), Valid: i == 0, Reasons: []string{},
			Metrics:    []Metric{{"rate", "req/s", Higher, 292e3 + float64(i)}, {"p99", "µs", Lower, 0.1 + float64(i)}, {"none", "B", Lower, math.NaN()}},
			Histograms: []Histogram{{"latency", 0, 0, []byte("all")}, {"latency", time.Second, 2 * time.Second, []byte{0, 1, 2}}},
			Series:     []Series{{"rate", "req/s", time.Second, time.Second, []float64{1, math.NaN(), 1e300, -0.25}}},
			Artefacts:  []Artefact{{"cpu", "cpu.pprof", []byte("a profile")}, {"log", "", []byte{}}},
		})
	}
	r.Samples[1].Reasons = append(r.Samples[1].Reasons, "the generator was the bottleneck: 97 % of its CPU")
	return r
}

// same reports whether two values are equal, with these exceptions: nil equals empty, NaN
// equals NaN, and times are equal if they are the same moment and UTC in b.
func same(a, b reflect.Value) bool {
	if at, ok := a.Interface().(time.Time); ok {
		bt := b.Interface().(time.Time)
		return at.Equal(bt) && bt.Location() == time.UTC
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Float64:
		return a.Float() == b.Float() || math.IsNaN(a.Float()) && math.IsNaN(b.Float())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() || b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() || b.IsNil() {
			return false
		}
		for _, key := range a.MapKeys() {
			if !b.MapIndex(key).IsValid() || !same(a.MapIndex(key), b.MapIndex(key)) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// checkSame compares a run with its stored copy.
func checkSame(t interface{ Errorf(string, ...any) }, given, back *Run) {
	if !same(reflect.ValueOf(given), reflect.ValueOf(back)) {
		t.Errorf("given\n%+v\ncame back as\n%+v", given, back)
	}
}

// runs generates arbitrary runs.
func runs() *rapid.Generator[*Run] {
	text := rapid.String()
	texts := rapid.MapOf(text, text)
	value := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Float64Range(0, 1e6))
	value = rapid.Map(value, func(v float64) float64 {
		if math.IsInf(v, 0) {
			return math.NaN()
		}
		return v
	})
	span := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
	data := rapid.SliceOf(rapid.Byte())
	at := rapid.Map(rapid.Int64(), func(n int64) time.Time { return time.Unix(0, n).In(time.FixedZone("away", 3600)) })
	sample := rapid.Custom(func(t *rapid.T) Sample {
		return Sample{
			Pair: rapid.IntRange(0, 1<<30).Draw(t, "pair"), Order: 1, At: at.Draw(t, "at"), Valid: rapid.Bool().Draw(t, "valid"),
			Unfit: Unfit(text.Draw(t, "unfit")), Reasons: rapid.SliceOf(text).Draw(t, "reasons"),
			Rate: rapid.Ptr(rapid.Float64Range(0, 1e9), true).Draw(t, "rate"), Errors: rapid.Ptr(rapid.Int64(), true).Draw(t, "errors"),
			Metrics: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Metric {
				return Metric{text.Draw(t, "name"), text.Draw(t, "unit"), rapid.SampledFrom([]string{Lower, Higher, ""}).Draw(t, "better"), value.Draw(t, "value")}
			})).Draw(t, "metrics"),
			Histograms: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Histogram {
				return Histogram{text.Draw(t, "name"), span.Draw(t, "start"), span.Draw(t, "end"), data.Draw(t, "data")}
			})).Draw(t, "histograms"),
			Series: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Series {
				return Series{text.Draw(t, "name"), text.Draw(t, "unit"), span.Draw(t, "start"), span.Draw(t, "step"), rapid.SliceOf(value).Draw(t, "values")}
			})).Draw(t, "series"),
			Artefacts: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Artefact {
				return Artefact{text.Draw(t, "kind"), text.Draw(t, "name"), data.Draw(t, "data")}
			})).Draw(t, "artefacts"),
		}
	})
	return rapid.Custom(func(t *rapid.T) *Run {
		return &Run{
			Name: text.Draw(t, "name"), Made: text.Draw(t, "made"), At: at.Draw(t, "at"),
			Scenario:    Scenario{text.Draw(t, "scenario"), texts.Draw(t, "settings"), texts.Draw(t, "load"), text.Draw(t, "primary")},
			Environment: Environment{texts.Draw(t, "strict"), texts.Draw(t, "soft")},
			Samples:     rapid.SliceOfN(sample, 0, 4).Draw(t, "samples"),
		}
	})
}

// files lists a folder.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// need skips a test for which this user lacks a permission, which no package can install.
func need(t *testing.T, what string) {
	t.Helper()
	t.Skip(what + "; this is " + runtime.GOOS)
}
