//go:build amd64 || arm64

package journal

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// survives returns the disk as a kill -9 leaves it: with all that was written.
func (d *disk) survives() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	after := newDisk()
	after.root = d.root.written(after)
	return after
}

func (n *inode) written(d *disk) *inode {
	if n.names == nil {
		return &inode{d: d, data: append([]byte(nil), n.data...), kept: append([]byte(nil), n.data...)}
	}
	folder := d.folder()
	for name, child := range n.names {
		folder.names[name] = child.written(d)
	}
	folder.saved = maps.Clone(folder.names)
	return folder
}

// TestMigratePower ends a migration after each call to the disk, by a kill, by a power cut, and by one that
// tears writes. The next one goes on, as often as it takes, and no start finds an empty log.
func TestMigratePower(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	step := testrun.Sized(131, 7)
	if *full {
		step = 1
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	all := oldEnvelopes(24)
	for _, kind := range oldKinds {
		source := os.DirFS(oldFolder(t, kind, all))
		for _, end := range []string{"kill", "power", "torn"} {
			cuts := 0
			for n := 1 + rng.IntN(step); ; n += step {
				d := newDisk()
				dir, remove := inserted(t, d)
				if err := os.CopyFS(filepath.Join(dir, "data"), source); err != nil {
					t.Fatal(err)
				}
				remove()
				d = d.survives()
				interrupted, done := 0, false
				for left := n; !done; left += 1 + rng.IntN(40) { // ended again and again
					d.left = left
					dir, remove := inserted(t, d)
					_, err := Migrate(t.Context(), filepath.Join(dir, "data"), MigrateOptions{})
					d.mu.Lock()
					d.left, done = 0, err == nil && !d.off
					d.mu.Unlock()
					var after *disk
					switch {
					case end == "kill" && !done:
						after = d.survives()
					case end == "torn":
						after = d.cut(rng)
					default:
						after = d.cut(nil)
					}
					remove()
					if d = after; done {
						break
					}
					if interrupted++; interrupted > 500 {
						t.Fatalf("%s, %s: it does not end", kind, end)
					}
					if dir, remove := inserted(t, d); true {
						intact(t, filepath.Join(dir, "data"), kind, all, n)
						remove()
					}
				}
				dir, remove = inserted(t, d)
				log, err := OpenSegments(filepath.Join(dir, "data"), SegmentsOptions{})
				if err != nil {
					t.Fatalf("%s, %s after %d calls: %v", kind, end, n, err)
				}
				if lost := sameEnvelopes(t, log, all); len(lost) > 0 {
					t.Fatal(lost)
				}
				log.Close()
				remove()
				if cuts += interrupted; interrupted == 0 {
					break
				}
			}
			t.Logf("%s, %s: %d ends of a migration, 0 envelopes lost", kind, end, cuts)
		}
	}
}

// intact checks what an interrupted migration has left: nobody opens it as a log without its envelopes.
func intact(t *testing.T, dir, kind string, all [][]byte, n int) {
	t.Helper()
	log, err := OpenSegments(dir, SegmentsOptions{})
	if err == nil { // the last call of all was the one that failed
		if lost := sameEnvelopes(t, log, all); len(lost) > 0 {
			t.Fatal(lost)
		}
		log.Close()
	} else if !says(err, "honed migrate --data") {
		t.Fatalf("after %d calls: %v", n, err)
	}
	if kind != "plain" && earlierHoned(dir, kind) == "begins an empty log" {
		t.Fatalf("after %d calls: an earlier honed would begin an empty log", n)
	}
}

// TestMigrateSpace: a disk without room for a second log is refused before anything is written.
func TestMigrateSpace(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	all := largeEnvelopes(testrun.Sized(partRecords/4, partRecords))
	for _, kind := range oldKinds {
		d := newDisk()
		dir, remove := inserted(t, d)
		dir = filepath.Join(dir, "data")
		if err := os.CopyFS(dir, os.DirFS(oldFolder(t, kind, all))); err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.size = d.used + d.used/3
		d.mu.Unlock()
		_, err := Migrate(t.Context(), dir, MigrateOptions{})
		if !errors.Is(err, ErrNoSpace) || !says(err, "it needs ") || exists(dir, migratingName) {
			t.Errorf("%s: %v", kind, err)
		}
		d.mu.Lock()
		d.lie = true // it ends in the middle
		d.mu.Unlock()
		if _, err := Migrate(t.Context(), dir, MigrateOptions{}); err == nil || exists(dir, migratingName) {
			t.Errorf("%s: %v", kind, err)
		}
		log, err := OpenReader(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		sameEnvelopes(t, log, all)
		remove()
	}
}

// TestOldUnreadable reads and migrates old logs of which the disk cannot read a page: what is in it is named, and
// everything else is there.
func TestOldUnreadable(t *testing.T) {
	t.Parallel() // it waits more than it works
	if !inNamespace(t) {
		return
	}
	all := largeEnvelopes(testrun.Sized(partRecords/6, partRecords))
	all = all[:len(all)-1] // the last one is larger than a page, too
	for _, kind := range oldKinds {
		for _, where := range []string{"middle", "last byte", "last head"} {
			d := newDisk()
			dir, remove := inserted(t, d)
			dir = filepath.Join(dir, "data")
			if err := os.CopyFS(dir, os.DirFS(oldFolder(t, kind, all))); err != nil {
				t.Fatal(err)
			}
			path := plainName
			if kind != "plain" {
				path = filepath.Join(blockFolder, "9.blk")
			}
			d.mu.Lock()
			n := d.found(filepath.Join("data", path))
			n.bad = map[string]int{"middle": len(n.data) / 2, "last byte": len(n.data) - 1, "last head": len(n.data) - len(blockRecordOf(1, all[len(all)-1]))}[where]
			d.mu.Unlock()
			log, err := OpenReader(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(kind, err)
			}
			if where == "last head" && kind == "plain" { // two envelopes in a row may count as one
				all = all[:len(all)-1]
			}
			lost := sameEnvelopes(t, log, all)
			if len(lost) == 0 || len(lost) > 1 && where != "last head" || !errors.Is(lost[0], syscall.EIO) {
				t.Errorf("%s, %s: %v", kind, where, lost)
			}
			t.Log(kind, where, lost)
			if _, err := Migrate(t.Context(), dir, MigrateOptions{}); !says(err, "input/output error") {
				t.Errorf("%s: %v", kind, err)
			}
			remove()
		}
	}
}
