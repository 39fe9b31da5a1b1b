package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// copyOf opens a backup and checks that it has the positions first to next-1 and goes on after them.
func copyOf(t *testing.T, dir string, first, next uint64) {
	t.Helper()
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	defer log.Close()
	at := first
	err := log.Read(t.Context(), 0, func(pos uint64, b []byte) error {
		if pos != at || !bytes.Equal(b, sample("client", pos, 1)) {
			return fmt.Errorf("position %d, want %d", pos, at)
		}
		at++
		return nil
	})
	if err != nil || at != next {
		t.Errorf("the copy goes up to %d, want %d: %v", at-1, next-1, err)
	}
	if err := log.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	appended(t, log, sample("client", next, 1), next)
}

// TestBackup copies a log while another goroutine appends to it and trims it, again and again into one
// folder. Each copy is a whole log.
func TestBackup(t *testing.T) {
	dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copies", "backup")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for pos := uint64(1); pos <= 600; pos++ {
			_, err := log.Append(t.Context(), sample("client", pos, 1))
			if err == nil && pos%50 == 0 && pos > 200 {
				err = log.Trim(t.Context(), pos-200)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	written := int64(0)
	for ended, n := false, 0; !ended; n++ {
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		c, err := Backup(t.Context(), dir, to, BackupOptions{})
		if err != nil {
			t.Fatal(err)
		}
		written += c.Written
		restored := filepath.Join(t.TempDir(), fmt.Sprint(n))
		if again, err := Backup(t.Context(), to, restored, BackupOptions{Empty: true}); err != nil || again.First != c.First || again.Next != c.Next {
			t.Fatalf("%+v, then %+v: %v", c, again, err)
		}
		copyOf(t, restored, c.First, c.Next)
	}
	first, next, err := log.Bounds()
	c, again := Backup(t.Context(), dir, to, BackupOptions{})
	if err := errors.Join(err, again); err != nil || c.First != first || c.Next != next || c.Written > 8<<10 {
		t.Errorf("%+v, want %d to %d: %v", c, first, next, err)
	}
	copyOf(t, to, first, next)
	t.Logf("%d bytes written by all backups", written)
}

// snapshots backs dir up and returns copies of the folder to, as a kill would leave it, one for each step.
func snapshots(t *testing.T, dir, to string, o BackupOptions) (all []string) {
	t.Helper()
	o.Progress = func(uint64, uint64) {
		at := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(at, os.DirFS(to)); err != nil {
			t.Fatal(err)
		}
		all = append(all, at)
	}
	if _, err := Backup(t.Context(), dir, to, o); err != nil {
		t.Fatal(err)
	}
	if len(all) < 3 {
		t.Fatalf("%d steps", len(all))
	}
	return all
}

// TestUnfinishedCopy kills first backups and restores after each step. What they leave does not pass for a log,
// until the same command has completed it.
func TestUnfinishedCopy(t *testing.T) {
	dir := killed(t, 60, true)
	for _, o := range []BackupOptions{{}, {Empty: true}} {
		all := snapshots(t, dir, filepath.Join(t.TempDir(), "data"), o)
		bare := t.TempDir() // killed before it has a mark
		if err := os.WriteFile(filepath.Join(bare, copyingName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, to := range append(all, bare) {
			_, opens := OpenSegments(to, SegmentsOptions{})
			_, reads := OpenReader(t.Context(), to, nil)
			_, migrates := Migrate(t.Context(), to, MigrateOptions{})
			_, copies := Backup(t.Context(), to, filepath.Join(t.TempDir(), "again"), BackupOptions{})
			for what, err := range map[string]error{"opens": opens, "reads": reads, "migrates": migrates, "copies": copies} {
				if !says(err, to+" has an unfinished copy of a log; repeat the honed backup or honed restore") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if c, err := Backup(t.Context(), dir, to, o); err != nil || c.Next != 61 {
				t.Errorf("again: %+v, %v", c, err)
			}
			copyOf(t, to, 1, 61)
		}
	}
}

// TestInterruptedUpdate kills a backup that brings a copy up to date after each step. The copy is still a log.
func TestInterruptedUpdate(t *testing.T) {
	dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	for pos := uint64(1); pos <= 300; pos++ {
		if pos == 151 {
			if _, err := Backup(t.Context(), dir, to, BackupOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		appended(t, log, sample("client", pos, 1), pos)
	}
	if err := log.Trim(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	for _, to := range snapshots(t, dir, to, BackupOptions{}) {
		copied, err := OpenReader(t.Context(), to, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, next, _ := copied.Bounds()
		copied.Close()
		if next < 151 {
			t.Errorf("the copy goes up to %d", next-1)
		}
		copyOf(t, to, 1, next)
	}
}

// TestOpensBesideTrims: who opens a log while its oldest segments are deleted, one by one, misses nothing in
// the middle, although it may have seen an older one just before.
func TestOpensBesideTrims(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{size: 1 << 10})
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for pos := uint64(1); ; pos++ {
			select {
			case <-stop:
				return
			default:
			}
			_, err := log.Append(t.Context(), sample("client", pos, 1))
			if err == nil && pos%100 == 0 && pos > 200 {
				err = log.Trim(t.Context(), pos-50)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range testrun.Sized(1500, 3000) { // at 300 the fault was not seen
		copied, err := openSegments(dir, SegmentsOptions{}, true)
		if err != nil {
			t.Error(err)
			break
		}
		if len(copied.missing) > 0 {
			t.Error(copied.missing)
		}
		copied.Close()
	}
	close(stop)
	writing.Wait()
}

// TestBackupRefuses: a backup does not overwrite another log, or the log itself, and names damage.
func TestBackupRefuses(t *testing.T) {
	dir, other := killed(t, 60, true), killed(t, 10, true)
	var refusal *Refusal
	if _, err := Backup(t.Context(), dir, other, BackupOptions{}); !errors.As(err, &refusal) {
		t.Errorf("over another log: %v", err)
	}
	if _, err := Backup(t.Context(), dir, dir, BackupOptions{}); !errors.As(err, &refusal) {
		t.Errorf("over itself: %v", err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	if _, err := Backup(t.Context(), dir, to, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), dir, to, BackupOptions{Empty: true}); !errors.As(err, &refusal) {
		t.Errorf("over a backup, which has to be empty: %v", err)
	}
	longer := openedSegments(t, to, SegmentsOptions{size: 4 << 10})
	appended(t, longer, sample("client", 61, 2), 61) // one more is what a crash may leave
	if err := longer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), dir, to, BackupOptions{}); err != nil {
		t.Errorf("over a backup with one more: %v", err)
	}
	longer = openedSegments(t, to, SegmentsOptions{size: 4 << 10})
	for pos := uint64(61); pos <= 62; pos++ {
		appended(t, longer, sample("client", pos, 2), pos)
	}
	if err := longer.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, to)
	if _, err := Backup(t.Context(), dir, to, BackupOptions{}); !errors.As(err, &refusal) || !says(err, "goes up to position 62, and the log in "+dir+" to 60 only") {
		t.Errorf("over a newer backup: %v", err)
	}
	if fmt.Sprint(tree(t, to)) != fmt.Sprint(before) {
		t.Error("the newer backup has changed")
	}
	file := segmentFiles(t, dir)[1]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[segmentHead+frameHead+headerSize+9] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var d *Damage
	c, err := Backup(t.Context(), dir, filepath.Join(t.TempDir(), "damaged"), BackupOptions{})
	if !errors.As(err, &d) || d.File != file || c.Next != 61 {
		t.Errorf("a damaged envelope: %+v, %v", c, err)
	}
}
