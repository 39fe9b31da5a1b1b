package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
)

// crash plays changes to a disk up to number n, and then loses power: what was written and not
// synced is cut anywhere, and of each folder's names that were not synced, the last ones are lost.
// With all, only the program was killed, and the last write is cut.
func crash(t *testing.T, random *rand.Rand, from, to string, changes []change, n int, all bool) {
	t.Helper()
	moved := func(path string) string { return filepath.Join(to, strings.TrimPrefix(path, from)) }
	synced := map[string]int{} // the last promise for a file or folder
	for i, c := range changes[:n] {
		if c.what == "sync" {
			synced[c.path] = i
		}
	}
	keeps := map[string]int{} // the number of the last change of names that each folder keeps
	for i, c := range changes[:n] {
		folder := filepath.Dir(c.path)
		if _, drawn := keeps[folder]; !drawn {
			keeps[folder] = synced[folder] + random.IntN(n-synced[folder]+1)
		}
		lost := !all && i > keeps[folder]
		var err error
		switch {
		case lost:
		case c.what == "write":
			data := c.data
			if _, promised := synced[c.path]; !promised && !all || all && i == n-1 {
				data = data[:random.IntN(len(data)+1)]
			}
			err = os.WriteFile(moved(c.path), data, 0o600)
		case c.what == "mkdir":
			err = os.MkdirAll(moved(c.path), 0o700)
		case c.what == "rename":
			err = os.Rename(moved(c.path), moved(c.to))
		case c.what == "remove":
			err = os.RemoveAll(moved(c.path))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) { // of what was lost
			t.Fatal(err)
		}
	}
}

// After a crash at any moment of writing a run, a pair or a removal, the store opens,
// old runs are whole, and the new ones are whole or absent.
func TestCrash(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	var changes []change
	s := &Store{path: filepath.Join(from, ".hone", storeName)}
	s.did = func(c change) { changes = append(changes, c) }
	old, a, b, single := sampleRun("old"), sampleRun("a"), sampleRun("b"), sampleRun("single")
	marks := map[string]int{} // after how many changes each is there, or gone again
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"made", func() error { return s.makeFolder(s.path) }},
		{"old", func() error { return s.Add(old) }},
		{"pair", func() error { return s.AddTogether(a, b) }},
		{"single", func() error { return s.Add(single) }},
		{"gone", func() error { _, err := s.Remove(a.ID); return err }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		marks[step.name] = len(changes)
	}
	before := map[string]int{"pair": marks["old"], "single": marks["pair"]}
	seen := map[string]bool{}
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 7))
		for n := range len(changes) + 1 {
			if n < marks["made"] || seed > 1 && random.IntN(12) > 0 { // two seeds at every change, all at some
				continue
			}
			to := t.TempDir()
			all := seed%2 == 0
			crash(t, random, from, to, changes, n, all)
			after := opened(t, filepath.Join(to, ".hone", storeName))
			ids := checkWhole(t, after)
			has := func(r *Run) bool { return slices.Contains(ids, r.ID) }
			switch {
			case n >= marks["old"] && !has(old), n >= marks["single"] && !has(single), n >= marks["pair"] && n <= marks["single"] && !(has(a) && has(b)):
				t.Errorf("seed %d, change %d: what was stored is lost: %v", seed, n, ids)
			case n <= before["pair"] && has(a), n <= before["single"] && has(single), n >= marks["gone"] && (has(a) || has(b)), has(a) != has(b):
				t.Errorf("seed %d, change %d: what cannot be there: %v", seed, n, ids)
			}
			seen[fmt.Sprint(all, len(ids))] = true
			os.RemoveAll(to)
		}
		if t.Failed() {
			return
		}
	}
	if len(seen) < 8 { // 0 to 4 runs, after either crash
		t.Errorf("the crashes left only %v", seen)
	}
}

// Two programs fill one store concurrently, and a third reads it.
func TestManyPrograms(t *testing.T) {
	countLeaks(t)
	path := newPath(t)
	var programs []*exec.Cmd
	var printed [2]bytes.Buffer
	for i := range printed {
		cmd := another(t, "add", path, "HONE_TEST_COUNT=20")
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
	s, err := OpenRead(path)
	if err != nil {
		t.Fatal(err)
	}
	ids := checkWhole(t, s)
	for i := range printed {
		for id := range strings.FieldsSeq(printed[i].String()) {
			if !slices.Contains(ids, id) {
				t.Errorf("run %s is not there", id)
			}
		}
	}
	if len(ids) != 20*len(printed) {
		t.Errorf("%d runs of %d programs", len(ids), len(printed))
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
		ids := checkWhole(t, opened(t, path))
		for _, id := range stored {
			if !slices.Contains(ids, id) {
				t.Errorf("run %s was stored and is gone", id)
			}
		}
	}
}

// 10,000 runs are listed in half a second, once the kernel has read them.
func TestManyRuns(t *testing.T) {
	s := opened(t, newPath(t))
	c, err := seal(sampleRun("x"))
	if err != nil {
		t.Fatal(err)
	}
	count := 1000
	if testrun.All() {
		count = 10_000
	}
	for i := range count {
		c.ID, c.At = fmt.Sprintf("%012x", i), c.At.Add(time.Second)
		folder := filepath.Join(s.path, c.ID)
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, headName), encodeHeads([]Summary{headOf(c.Run)}), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	best := time.Hour
	for range 5 {
		begun, _ := sys.ProcessTime()
		all, err := s.List(Filter{})
		if err != nil || len(all) != count || all[0].ID != c.ID {
			t.Fatalf("%d runs, %v", len(all), err)
		}
		used, _ := sys.ProcessTime() // not the wall time, in which other programs have a share
		best = min(best, used-begun)
	}
	t.Logf("%d runs in %v of CPU", count, best)
	if best > time.Duration(count)*50*time.Microsecond && !testrun.Race {
		t.Errorf("%d runs in %v of CPU", count, best)
	}
}
