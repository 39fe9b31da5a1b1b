package record

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
		before := mustRead(t, path)
		if _, err := Open(t.Context(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := OpenRead(t.Context(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("%s, to read: %v", path, err)
		}
		if !bytes.Equal(before, mustRead(t, path)) {
			t.Errorf("%s was changed", path)
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

// A store of any other version is refused by name, and nothing is written: neither into it, nor
// beside it, nor what a killed program has left in its log.
func TestOtherVersions(t *testing.T) {
	countLeaks(t)
	good := filepath.Join(t.TempDir(), fileName)
	s := opened(t, good)
	add(t, s, sampleRun("x"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, good)
	add(t, s, sampleRun("y")) // it is in the log
	copied := map[string][]byte{"": mustRead(t, good), "-wal": mustRead(t, good+"-wal")}
	versions := []int32{version - 1, version + 1, 99, -1, math.MinInt32, math.MaxInt32}
	random := rand.New(rand.NewPCG(5, 4))
	for range 10 {
		versions = append(versions, int32(random.Uint32()))
	}
	for _, has := range versions {
		binary.BigEndian.PutUint32(copied[""][60:], uint32(has)) // SQLite's user_version
		path := placed(t, copied)
		refusesVersion(t, path, has)
		if left := files(t, filepath.Dir(path)); len(left) != 1+len(copied) {
			t.Errorf("version %d: there is %v", has, left)
		}
		for name, before := range copied {
			if !bytes.Equal(mustRead(t, path+name), before) {
				t.Errorf("version %d: %s%s was changed", has, fileName, name)
			}
		}
	}
	if _, err := s.db.Exec("PRAGMA user_version = 7"); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(copied[""][60:], version)
	copied["-wal"] = mustRead(t, good+"-wal")
	refusesVersion(t, placed(t, copied), 7) // which only the log has
}

// placed writes a store with its log.
func placed(t *testing.T, parts map[string][]byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), fileName)
	for name, data := range parts {
		if err := os.WriteFile(path+name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func refusesVersion(t *testing.T, path string, has int32) {
	t.Helper()
	want := fmt.Sprintf("%s has version %d, and this hone reads version %d;", path, has, version)
	for _, open := range []func(context.Context, string) (*Store, error){Open, OpenRead} {
		_, err := open(t.Context(), path)
		if said := fmt.Sprint(err); !errors.Is(err, ErrVersion) || !strings.Contains(said, want) {
			t.Errorf("version %d: %v", has, err)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
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
