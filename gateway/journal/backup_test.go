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
	reports(t, log.Verify(t.Context(), 0, nil))
	appended(t, log, sample("client", next, 1), next)
}

// TestBackup copies a log while another goroutine appends to it and trims it, again and again into one
// folder. Each copy is a whole log.
func TestBackup(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copies", "backup")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	must(t, os.Mkdir(filepath.Dir(to), 0o700))
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
		must(t, err)
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
		must(t, os.CopyFS(at, os.DirFS(to)))
		all = append(all, at)
	}
	works(t)(Backup(t.Context(), dir, to, o))
	if len(all) < 3 {
		t.Fatalf("%d steps", len(all))
	}
	return all
}

// TestUnfinishedCopy kills first backups and restores after each step. What they leave does not pass for a log,
// until the same command has completed it.
func TestUnfinishedCopy(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	dir := killed(t, 60, true)
	for _, o := range []BackupOptions{{}, {Empty: true}} {
		all := snapshots(t, dir, filepath.Join(t.TempDir(), "data"), o)
		bare := t.TempDir() // killed before it has a mark
		must(t, os.WriteFile(filepath.Join(bare, copyingName), nil, 0o600))
		for _, to := range append(all, bare) {
			_, opens := OpenSegments(to, SegmentsOptions{})
			_, reads := OpenReader(to, nil)
			_, copies := Backup(t.Context(), to, filepath.Join(t.TempDir(), "again"), BackupOptions{})
			for what, err := range map[string]error{"opens": opens, "reads": reads, "copies": copies} {
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
	t.Parallel() // it waits for fsyncs
	dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	for pos := uint64(1); pos <= 300; pos++ {
		if pos == 151 {
			works(t)(Backup(t.Context(), dir, to, BackupOptions{}))
		}
		appended(t, log, sample("client", pos, 1), pos)
	}
	must(t, log.Trim(t.Context(), 100))
	for _, to := range snapshots(t, dir, to, BackupOptions{}) {
		copied, err := OpenReader(to, nil)
		must(t, err)
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
	t.Parallel() // it waits for fsyncs
	dir, other := killed(t, 60, true), killed(t, 10, true)
	var refusal *Refusal
	if _, err := Backup(t.Context(), dir, other, BackupOptions{}); !errors.As(err, &refusal) {
		t.Errorf("over another log: %v", err)
	}
	inside := tree(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	for _, to := range []string{dir, dir + "/sub", dir + "/sub/../deep/er", link + "/sub"} {
		if _, err := Backup(t.Context(), dir, to, BackupOptions{}); !errors.As(err, &refusal) || !says(err, "is in the folder of the log itself") {
			t.Errorf("into itself, %s: %v", to, err)
		}
	}
	if fmt.Sprint(tree(t, dir)) != fmt.Sprint(inside) {
		t.Error("the log's folder has changed")
	}
	to := filepath.Join(t.TempDir(), "backup")
	empty := t.TempDir()
	for from, want := range map[string]string{
		empty + "/typo": "journal: there is no folder " + empty + "/typo; give the folder of a log",
		empty:           "journal: " + empty + " has no log; give the folder of a log",
	} {
		if _, err := Backup(t.Context(), from, to, BackupOptions{}); !says(err, want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := OpenReader(from, nil); !says(err, want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	works(t)(Backup(t.Context(), dir, to, BackupOptions{}))
	if _, err := Backup(t.Context(), dir, to, BackupOptions{Empty: true}); !errors.As(err, &refusal) {
		t.Errorf("over a backup, which has to be empty: %v", err)
	}
	for last := uint64(61); last <= 62; last++ {
		before := tree(t, grown(t, to, "client", last))
		if _, err := Backup(t.Context(), dir, to, BackupOptions{}); !errors.As(err, &refusal) || !says(err, fmt.Sprintf("goes up to position %d, and the log in %s to 60 only", last, dir)) {
			t.Errorf("over a newer backup: %v", err)
		}
		if fmt.Sprint(tree(t, to)) != fmt.Sprint(before) {
			t.Error("the newer backup has changed")
		}
	}
	file := segmentFiles(t, dir)[1]
	edit(t, file, func(b []byte) { b[segmentHead+frameHead+headerSize+9] ^= 1 })
	var d *Damage
	c, err := Backup(t.Context(), dir, filepath.Join(t.TempDir(), "damaged"), BackupOptions{})
	if !errors.As(err, &d) || d.File != file || c.Next != 61 {
		t.Errorf("a damaged envelope: %+v, %v", c, err)
	}
}

// grown appends envelopes of a client to a log, up to position last, closes it, and returns its folder.
func grown(t *testing.T, dir, client string, last uint64) string {
	t.Helper()
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	_, next, err := log.Bounds()
	for ; next <= last; next++ {
		appended(t, log, sample(client, next, 1), next)
	}
	must(t, errors.Join(err, log.Close()))
	return dir
}

// backedUp backs a log up into a new folder and returns that.
func backedUp(t *testing.T, dir string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "backup")
	works(t)(Backup(t.Context(), dir, to, BackupOptions{Empty: true}))
	return to
}

// TestBackupOfAnotherHistory: a log that was restored from an older backup, and has grown, does not replace the copy of
// the log that it was, of which only the copy has the end.
func TestBackupOfAnotherHistory(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	dir := filepath.Join(t.TempDir(), "data")
	var older []string // backups, the newest with 60 envelopes; 49 fill a segment
	for _, last := range []uint64{10, 49, 50, 59, 60} {
		older = append(older, backedUp(t, grown(t, dir, "client", last)))
	}
	to := older[len(older)-1]
	before := tree(t, to)
	for _, backup := range older[:len(older)-1] {
		for _, last := range []uint64{0, 60, 61, 200} {
			restored := grown(t, backedUp(t, backup), "another", last)
			var refusal *Refusal
			if _, err := Backup(t.Context(), restored, to, BackupOptions{}); !errors.As(err, &refusal) || !says(err, "; give another folder for the backup, since the log was restored") {
				t.Errorf("restored from %s, up to %d: %v", backup, last, err)
			} else if last > 60 && !says(err, "another history than the log in "+restored+": they differ at position ") {
				t.Error(err)
			}
		}
	}
	if fmt.Sprint(tree(t, to)) != fmt.Sprint(before) {
		t.Error("the copy has changed")
	}
	restored := grown(t, backedUp(t, to), "client", 200)
	if _, err := Backup(t.Context(), restored, to, BackupOptions{}); err != nil {
		t.Errorf("restored from this copy: %v", err)
	}
	copyOf(t, to, 1, 201)
}

// TestBackupOfTheSameHistory: damage, retention and a power cut do not make another history of a log.
func TestBackupOfTheSameHistory(t *testing.T) {
	t.Parallel()               // it waits for fsyncs
	flip := func(dir string) { // in the last envelope
		files := segmentFiles(t, dir)
		file := files[len(files)-1]
		b, err := os.ReadFile(file)
		must(t, err)
		all := frames(b, 0, 0)
		b[all[len(all)-1][1]-1] ^= 1 // of its checksum
		must(t, os.WriteFile(file, b, 0o600))
	}
	for name, between := range map[string]func(dir, to string){
		"nothing":              func(string, string) {},
		"damage of the copy":   func(_, to string) { flip(to) },
		"no mark of its end":   func(_, to string) { markOf(t, to, 40) },
		"no segments":          func(_, to string) { os.Remove(segmentFiles(t, to)[0]); os.Remove(segmentFiles(t, to)[0]) },
		"a lost segment":       func(_, to string) { os.Remove(segmentFiles(t, to)[1]) },
		"a look at the copy":   func(_, to string) { grown(t, to, "", 0) },
		"retention":            func(dir, _ string) { trimmed(t, grown(t, dir, "client", 200), 55) },
		"much retention":       func(dir, _ string) { trimmed(t, grown(t, dir, "client", 200), 150) },
		"damage of the log":    func(dir, _ string) { flip(dir) },
		"damage and retention": func(dir, to string) { flip(to); trimmed(t, grown(t, dir, "client", 200), 55) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := killed(t, 60, true)
			to := backedUp(t, dir)
			between(dir, to)
			log := openedSegments(t, grown(t, dir, "client", 200), SegmentsOptions{})
			first, next, _ := log.Bounds()
			for range 2 {
				c, err := Backup(t.Context(), dir, to, BackupOptions{})
				if _, lost := errors.AsType[*Damage](err); err != nil && !(lost && name == "damage of the log") || c.First != first {
					t.Errorf("%+v, %v", c, err)
				}
			}
			if name != "damage of the log" {
				copyOf(t, to, first, next)
			}
		})
	}
}

// TestBackupIsOvertaken: while a backup copies, the log grows, and everything that it had is trimmed.
func TestBackupIsOvertaken(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	for _, again := range []bool{false, true} {
		dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
		if grown(t, dir, "client", 60); again {
			to = backedUp(t, dir)
		}
		log := openedSegments(t, grown(t, dir, "client", 90), SegmentsOptions{size: 4 << 10})
		next := uint64(91)
		overtake := func(uint64, uint64) {
			if next > 91 { // once
				return
			}
			for ; next <= 200; next++ {
				appended(t, log, sample("client", next, 1), next)
			}
			reports(t, log.Trim(t.Context(), next))
		}
		c, err := Backup(t.Context(), dir, to, BackupOptions{Progress: overtake})
		first, end, _ := log.Bounds()
		if err != nil || c.First != first || c.Next != end || c.Segments == 0 {
			t.Errorf("%+v, want %d to %d: %v", c, first, end-1, err)
		}
		copyOf(t, to, first, end)
	}
}

// TestBackupAfterPowerCut: the copy has an envelope that was being stored when the power was cut. The log has lost it,
// and then another one at its position.
func TestBackupAfterPowerCut(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	for _, last := range []uint64{59, 60, 200} {
		dir := killed(t, 60, true)
		to := backedUp(t, dir)
		markOf(t, dir, 59)
		cutOff(t, dir)
		if last > 59 {
			grown(t, dir, "another", last)
		}
		if c, err := Backup(t.Context(), dir, to, BackupOptions{}); err != nil || c.Next != last+1 {
			t.Errorf("%+v, %v", c, err)
		}
		log := openedSegments(t, to, SegmentsOptions{})
		if _, next, err := log.Bounds(); err != nil || next != last+1 {
			t.Errorf("the copy goes up to %d, want %d: %v", next-1, last, err)
		}
	}
}

// cutOff takes the last envelope from a log that is not sealed, as a power cut does.
func cutOff(t *testing.T, dir string) {
	t.Helper()
	files := segmentFiles(t, dir)
	file := files[len(files)-1]
	b, err := os.ReadFile(file)
	must(t, err)
	all := frames(b, 0, 0)
	must(t, os.Truncate(file, int64(all[len(all)-1][0])))
}

func trimmed(t *testing.T, dir string, to uint64) {
	t.Helper()
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	must(t, errors.Join(log.Trim(t.Context(), to), log.Close()))
}
