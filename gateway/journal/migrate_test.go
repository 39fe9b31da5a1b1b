package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var errCrash = errors.New("crash")

// earlierHoned says what an honed of an earlier version does with a folder.
func earlierHoned(dir, kind string) string {
	switch {
	case kind == "plain" && exists(dir, plainName), kind != "plain" && exists(dir, readyName) && exists(dir, storeName):
		return "opens"
	case kind != "plain" && exists(dir, readyName):
		return "looks for the log that READY promises"
	case kind != "plain" && (exists(dir, storeName) || exists(dir, markName)):
		return "refuses"
	}
	return "begins an empty log"
}

// TestMigrateCrashes ends Migrate before each of its steps. No honed finds an empty log in what it leaves, and
// the next Migrate goes on.
func TestMigrateCrashes(t *testing.T) {
	all := oldEnvelopes(30)
	for _, kind := range oldKinds {
		steps := []string{}
		for crash := 0; ; crash++ {
			dir := oldFolder(t, kind, all)
			before := folderTree(t, dir)
			n := 0
			steps = nil
			_, err := Migrate(t.Context(), dir, MigrateOptions{step: func(what string) error {
				steps = append(steps, what)
				if n++; n > crash {
					return errCrash
				}
				return nil
			}})
			if err == nil {
				break
			}
			step := steps[len(steps)-1]
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s, before %q: %v", kind, step, err)
			}
			if log, err := OpenSegments(dir, SegmentsOptions{}); err == nil {
				log.Close()
				t.Fatalf("%s, before %q: the folder opens", kind, step)
			} else if !says(err, "honed migrate --data "+dir) {
				t.Errorf("%s, before %q: %v", kind, step, err)
			}
			if does := earlierHoned(dir, kind); kind != "plain" && does != "opens" && does != "refuses" {
				t.Errorf("before %q: an earlier honed %s", step, does)
			}
			if log, err := OpenReader(t.Context(), dir, nil); err == nil {
				sameEnvelopes(t, log, all)
				log.Close()
			} else if !says(err, "has an unfinished migration") {
				t.Errorf("%s, before %q: %v", kind, step, err)
			}
			migrated(t, dir, all, before)
		}
		t.Logf("%s: %q", kind, steps)
		if len(steps) < 7 {
			t.Errorf("only %d steps", len(steps))
		}
	}
}

// TestMigrateAgain: an earlier honed that appends after a migration was interrupted loses nothing.
func TestMigrateAgain(t *testing.T) {
	all := oldEnvelopes(30)
	for _, kind := range oldKinds {
		for _, step := range []string{"mark as verified", "make a folder for the old log"} {
			dir := oldFolder(t, kind, all[:20])
			_, err := Migrate(t.Context(), dir, MigrateOptions{step: func(what string) error {
				if what == step {
					return errCrash
				}
				return nil
			}})
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if kind != "plain" && !exists(dir, readyName) {
				t.Fatal("it has moved something")
			}
			before := folderTree(t, oldFolder(t, kind, all))
			for name, content := range before {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			migrated(t, dir, all, before)
		}
	}
}

// TestMigrateRefuses: Migrate changes nothing in folders that it does not understand, or that are in use.
func TestMigrateRefuses(t *testing.T) {
	all := oldEnvelopes(10)
	for what, spoil := range map[string]func(dir string) (want string){
		"an old log that was kept": func(dir string) string {
			os.Mkdir(filepath.Join(dir, oldName), 0o700)
			os.WriteFile(filepath.Join(dir, oldName, markName), nil, 0o600)
			return "old/mark exists"
		},
		"segments": func(dir string) string {
			os.WriteFile(filepath.Join(dir, segmentName(1)), nil, 0o600)
			return "has segments of a new log and an old log"
		},
		"two old logs": func(dir string) string {
			os.WriteFile(filepath.Join(dir, plainName), nil, 0o600)
			return "has two logs"
		},
		"not verified": func(dir string) string { // READY and the rest are gone, and what is there is not known to be all
			os.Mkdir(filepath.Join(dir, oldName), 0o700)
			os.Rename(filepath.Join(dir, readyName), filepath.Join(dir, oldName, readyName))
			os.Rename(filepath.Join(dir, storeName), filepath.Join(dir, oldName, storeName))
			os.WriteFile(filepath.Join(dir, migratingName), nil, 0o600)
			os.WriteFile(filepath.Join(dir, segmentName(1)), nil, 0o600)
			return "was not verified"
		},
		"no log": func(dir string) string {
			os.RemoveAll(dir)
			os.Mkdir(dir, 0o700)
			return "has no log"
		},
		"the mark is ahead": func(dir string) string {
			markOf(t, dir, 12)
			return "--accept-loss 11-12"
		},
	} {
		dir := oldFolder(t, "JetStream's", all)
		want := spoil(dir)
		before := folderTree(t, dir)
		delete(before, lockName)
		_, err := Migrate(t.Context(), dir, MigrateOptions{})
		var refusal *Refusal
		if !errors.As(err, &refusal) || !says(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		after := folderTree(t, dir)
		delete(after, lockName)
		delete(after, plainLock)
		for name, content := range before {
			if after[name] != content {
				t.Errorf("%s: %s has changed", what, name)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: %d files, before %d", what, len(after), len(before))
		}
	}
}

// TestMigrateLocked: a log that another process writes is not migrated, whatever it has locked.
func TestMigrateLocked(t *testing.T) {
	all := oldEnvelopes(10)
	for _, kind := range oldKinds {
		for _, name := range []string{lockName, plainLock, markName, "."} {
			if kind == "plain" && name == markName || kind != "plain" && name == plainLock {
				continue
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel() // a lock is waited for
				dir := oldFolder(t, kind, all)
				f, err := os.Open(filepath.Join(dir, name))
				if errors.Is(err, os.ErrNotExist) {
					f, err = os.Create(filepath.Join(dir, name))
				}
				if err == nil {
					err = lockFile(f)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := Migrate(t.Context(), dir, MigrateOptions{}); err == nil || !says(err, "is in use by") {
					t.Errorf("%s, %s: %v", kind, name, err)
				}
				log, err := OpenReader(t.Context(), dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				sameEnvelopes(t, log, all)
			})
		}
	}
}

// TestMigrateCompares: a new log that differs is not used.
func TestMigrateCompares(t *testing.T) {
	all := oldEnvelopes(10)
	other := slices.Clone(all)
	other[4] = sample("other", 1, 1)
	for what, envelopes := range map[string][][]byte{"another envelope": other, "one less": all[:9], "none": nil} {
		dir := oldFolder(t, "plain", all)
		made := oldFolder(t, "plain", envelopes)
		if _, err := Migrate(t.Context(), made, MigrateOptions{}); err != nil {
			t.Fatal(err)
		}
		old, err := openOld(t.Context(), dir, nil, Range{})
		if err != nil {
			t.Fatal(err)
		}
		copied, err := openSegments(made, SegmentsOptions{}, true)
		if err != nil {
			t.Fatal(err)
		}
		err = compare(t.Context(), old, copied, 1, 11, nil)
		copied.Close()
		if err == nil || !says(err, "differs from the old log at position") {
			t.Errorf("%s: %v", what, err)
		}
	}
	made := oldFolder(t, "plain", all)
	if _, err := Migrate(t.Context(), made, MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	copied := openedSegments(t, made, SegmentsOptions{})
	for _, lost := range []int{4, 9} { // the copy has one that the old log has lost, also the last one
		dir := oldFolder(t, "JetStream's", all)
		path := filepath.Join(dir, blockFolder, fmt.Sprintf("%d.blk", lost/9+1))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[bytes.Index(b, all[lost])+headerSize+9] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		old, err := openOld(t.Context(), dir, nil, Range{})
		if err != nil {
			t.Fatal(err)
		}
		if err := compare(t.Context(), old, copied, 1, 11, nil); err == nil || !says(err, "differs from the old log at position") {
			t.Errorf("position %d: %v", lost+1, err)
		}
	}
	dir := oldFolder(t, "plain", all)
	_, err := Migrate(t.Context(), dir, MigrateOptions{step: func(what string) error {
		if what != "compare" {
			return nil
		}
		path := filepath.Join(dir, segmentName(1))
		b, err := os.ReadFile(path)
		if err == nil {
			b[len(b)/2] ^= 1
			err = os.WriteFile(path, b, 0o600)
		}
		return err
	}})
	if !says(err, "differs from the old log at position") || exists(dir, migratingName) {
		t.Error(err)
	}
}

// TestMigrateBase: what a migration adds for an accepted loss names the newest checkpoint, from which a start reads.
func TestMigrateBase(t *testing.T) {
	var all [][]byte
	for i := range uint64(5) {
		var e Encoder
		e.Begin(i / 2)
		if err := e.Record(&Record{Client: "a", Epoch: 1, Seq: i + 1, Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Clone(e.Bytes()))
	}
	all[1][headerSize+9] ^= 1
	dir := oldFolder(t, "plain", all)
	if _, err := Migrate(t.Context(), dir, MigrateOptions{AcceptLoss: Range{2, 2}}); err != nil {
		t.Fatal(err)
	}
	last, log := Envelope{}, openedSegments(t, dir, SegmentsOptions{})
	err := log.Read(t.Context(), 6, func(pos uint64, b []byte) (err error) { last, err = Decode(b); return err })
	if lost := slices.Collect(last.Tombstones()); err != nil || last.Base != 2 || !slices.Equal(lost, []uint64{2}) {
		t.Errorf("base %d, tombstones of %d, %v", last.Base, lost, err)
	}
}
