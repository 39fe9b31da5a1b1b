package record

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// execute runs SQL on a file as another program would.
func execute(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

// Other programs' files are refused and not touched.
func TestForeignFiles(t *testing.T) {
	countLeaks(t)
	dir := t.TempDir()
	text, others, taken := filepath.Join(dir, "text"), filepath.Join(dir, "others"), filepath.Join(dir, "taken")
	if err := os.WriteFile(text, bytes.Repeat([]byte("this is no database. "), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	execute(t, others, "CREATE TABLE run (id)")
	execute(t, taken, "PRAGMA application_id = 7")
	for _, path := range []string{text, others, taken} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := OpenRead(t.Context(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s, to read: %v", path, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed, %v", path, err)
		}
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a folder is no store")
	}
	if _, err := Open(t.Context(), filepath.Join(text, "runs.db")); err == nil {
		t.Error("a file is no folder")
	}
	if left := files(t, dir); len(left) != 4 {
		t.Errorf("there is %v", left)
	}
}

// A full disk or a killed process may leave an empty file instead of a new store.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRead(t.Context(), path); !errors.Is(err, ErrForeign) {
		t.Errorf("to read: %v", err)
	}
	s := opened(t, path)
	add(t, s, sampleRun("x"))
	if ids := checkWhole(t, s); len(ids) != 1 {
		t.Error(ids)
	}
}

func TestNewerStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	if err := opened(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, "PRAGMA user_version = 99")
	for _, open := range []func(context.Context, string) (*Store, error){Open, OpenRead} {
		var newer *NewerError
		if _, err := open(t.Context(), path); !errors.As(err, &newer) || newer.Has != 99 || newer.Latest != len(migrations) {
			t.Errorf("%v", err)
		}
	}
}

func golden() *Run {
	r := sampleRun("golden")
	r.PairedWith = "0123456789ab"
	return r
}

// Version 1 wrote the files in testdata; they never change: every later version must read
// them.
func TestVersion1(t *testing.T) {
	const db, archive = "testdata/v1.db", "testdata/v1.tar"
	if *update {
		_ = os.Remove(db)
		s := opened(t, db)
		r := golden()
		add(t, s, r)
		if err := errors.Join(s.SetBaseline(t.Context(), "main", r.ID), s.Close(), os.WriteFile(archive, exported(t, r), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s := opened(t, copied(t, db))
	back := get(t, s, "baseline:main")
	want := golden()
	want.ID = "cf1c3d96aaf6"
	checkSame(t, want, back)
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(exported(t, back), text) {
		t.Error("the same run is exported in other words: its ID would be another one")
	}
	imported, err := Import(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, want, imported)
}

func copied(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

// Each migration is applied completely or not at all, and existing data stays.
func TestMigrations(t *testing.T) {
	o := openingOf(copied(t, "testdata/v1.db"))
	two := "ALTER TABLE noise ADD COLUMN by TEXT NOT NULL DEFAULT ''; CREATE TABLE two (x) STRICT"
	two = strings.Replace(two, "(x)", "(x INTEGER)", 1)
	o.migrations = []string{schema1, two, "CREATE TABLE three (x INTEGER) STRICT; DELETE FROM nothing"}
	if _, err := o.open(t.Context()); err == nil {
		t.Fatal("the third step cannot work")
	}
	o.migrations = o.migrations[:2]
	s := openedAs(t, o)
	tables := func() (names []string) {
		err := s.look(t.Context(), func(tr *transaction) (err error) {
			names, err = tr.texts("SELECT name FROM sqlite_schema WHERE name IN ('two', 'three') UNION SELECT 'version' || user_version FROM pragma_user_version")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got := tables(); !slices.Equal(got, []string{"two", "version2"}) {
		t.Errorf("after the step that failed: %v", got)
	}
	if get(t, s, "golden").Name != "golden" {
		t.Error("the run is gone")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.migrations = append(o.migrations, "CREATE TABLE three (x INTEGER) STRICT")
	if _, err := o.openRead(t.Context()); err == nil {
		t.Error("readers must not bring a store up to date, nor read what they do not know")
	}
	s = openedAs(t, o)
	if got := tables(); !slices.Equal(got, []string{"three", "two", "version3"}) {
		t.Errorf("after all: %v", got)
	}
	checkWhole(t, s)
}

// Two programs create and fill one store concurrently, and a third reads it.
func TestManyPrograms(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	var programs []*exec.Cmd
	var printed [2]bytes.Buffer
	for i := range printed {
		cmd := another(t, "add", path, "HONE_TEST_COUNT=5")
		cmd.Stdout = &printed[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, cmd)
	}
	for _, cmd := range programs {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v", err)
		}
	}
	s, err := OpenRead(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids := checkWhole(t, s)
	for i := range printed {
		for id := range strings.FieldsSeq(printed[i].String()) {
			if !slices.Contains(ids, id) {
				t.Errorf("run %s is not there", id)
			}
		}
	}
	if len(ids) != 5*len(printed) {
		t.Errorf("%d runs of %d programs", len(ids), len(printed))
	}
}

// A writer that gives up waiting gets ErrBusy, and can still read.
func TestBusy(t *testing.T) {
	path := newPath(t)
	s := opened(t, path)
	add(t, s, sampleRun("x"))
	o := openingOf(path)
	o.patience = 20 * time.Millisecond
	impatient := openedAs(t, o)
	if err := s.change(t.Context(), func(*transaction) error {
		if err := impatient.Add(t.Context(), sampleRun("y")); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		get(t, impatient, "x")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	add(t, impatient, sampleRun("y"))
	checkWhole(t, s)
}

func TestCancelled(t *testing.T) {
	path := newPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("opening: %v", err)
	}
	s := opened(t, path)
	r := sampleRun("x")
	if err := s.Add(ctx, r); !errors.Is(err, context.Canceled) || r.ID != "" {
		t.Errorf("adding: %v, %q", err, r.ID)
	}
	if ids := checkWhole(t, s); len(ids) != 0 {
		t.Error(ids)
	}
}

// A process killed while adding runs leaves only complete runs, including all that it
// reported as stored.
func TestKilled(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	random := rand.New(rand.NewPCG(11, 21))
	var stored []string
	for range 6 {
		cmd := another(t, "add", path, "HONE_TEST_COUNT=1000")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 1 + random.IntN(4) {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, strings.TrimSpace(line))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(lines)
		complete := rest[:1+bytes.LastIndexByte(rest, '\n')]
		stored = append(stored, strings.Fields(string(complete))...)
		if err := cmd.Wait(); err == nil {
			t.Error("it was not killed")
		}
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		ids := checkWhole(t, s)
		for _, id := range stored {
			if !slices.Contains(ids, id) {
				t.Errorf("run %s was stored and is gone", id)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What does not fit changes nothing. A page limit simulates the full disk here;
// TestFullDisk uses a real one.
func TestFull(t *testing.T) {
	path := newPath(t)
	o := openingOf(path)
	o.pragmas = []string{"max_page_count(60)"}
	s := openedAs(t, o)
	small, large := sampleRun("small"), sampleRun("large")
	large.Samples[1].Artefacts = append(large.Samples[1].Artefacts, Artefact{"log", "", make([]byte, 1<<20)})
	add(t, s, small)
	if err := s.Add(t.Context(), large); !errors.Is(err, ErrFull) || large.ID != "" {
		t.Errorf("%v, %q", err, large.ID)
	}
	if err := s.AddPair(t.Context(), sampleRun("one"), large); !errors.Is(err, ErrFull) {
		t.Errorf("a pair of which one fits: %v", err)
	}
	if ids := checkWhole(t, s); len(ids) != 1 {
		t.Errorf("%d runs", len(ids))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path)
	add(t, s, large)
	checkSame(t, small, get(t, s, "small"))
	if ids := checkWhole(t, s); len(ids) != 2 {
		t.Errorf("%d runs", len(ids))
	}
}
