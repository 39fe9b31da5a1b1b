package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// TestNoMark: a log whose mark is missing or damaged is read, verified and copied, and that is said. A start refuses it
// and says that a copy of it needs none, which goes on.
func TestNoMark(t *testing.T) {
	const n = 60
	for name, harm := range map[string]func(path string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, make([]byte, 2*writer.MarkSlots), 0o600) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t, n, true)
			must(t, harm(filepath.Join(dir, writer.MarkName)))
			before := tree(t, dir)
			var logged bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&logged, nil))
			reader, err := OpenReader(dir, logger)
			must(t, err)
			defer reader.Close()
			if got := len(contents(t, reader.(*Segments), 0)); got != n || !strings.Contains(logged.String(), "high-water mark") {
				t.Errorf("%d of %d envelopes are read, logged: %s", got, n, &logged)
			}
			if err := reader.Verify(t.Context(), 0, nil); !says(err, "high-water mark") {
				t.Errorf("Verify: %v", err)
			}
			logged.Reset()
			to := filepath.Join(t.TempDir(), "backup")
			if c, err := Backup(t.Context(), dir, to, BackupOptions{Logger: logger}); err != nil || c.Next != n+1 || !strings.Contains(logged.String(), "high-water mark") {
				t.Errorf("a backup: %+v, %v; logged: %s", c, err, &logged)
			}
			var refusal *Refusal
			if _, err := OpenSegments(dir, SegmentsOptions{AcceptLoss: Range{1, 99}}); !errors.As(err, &refusal) || !strings.Contains(refusal.Repair, "copy it with honed backup") {
				t.Errorf("a start: %v", err)
			}
			delete(before, writer.LockName)
			now := tree(t, dir)
			if delete(now, writer.LockName); len(now) != len(before) {
				t.Errorf("it has changed: %d files, %d before", len(now), len(before))
			}
			copyOf(t, to, 1, n+1)
		})
	}
}

// TestTrimThatFails: a segment that cannot be deleted stays in the log, and the next Trim does not delete the one after it.
func TestTrimThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	for pos := uint64(1); pos <= 60; pos++ {
		appended(t, log, sample("client", pos, 1), pos)
	}
	oldest := segmentFiles(t, dir)[0]
	must(t, os.Rename(oldest, oldest+"x"))
	must(t, os.MkdirAll(filepath.Join(oldest, "immutable"), 0o700)) // also root cannot delete that
	for range 2 {
		if err := log.Trim(t.Context(), 60); err == nil {
			t.Error("Trim says nothing")
		}
	}
	must(t, os.RemoveAll(oldest))
	must(t, os.Rename(oldest+"x", oldest))
	if first, _, err := log.Bounds(); first != 1 || err != nil {
		t.Errorf("the log begins at %d, %v", first, err)
	}
	if got := len(contents(t, log, 0)); got != 60 {
		t.Errorf("%d envelopes are left of 60", got)
	}
	must(t, log.Trim(t.Context(), 60))
	if first, _, _ := log.Bounds(); first < 40 {
		t.Errorf("the log begins at %d", first)
	}
}

// TestSegmentTime: a segment ends with the first Append after its time, and can then be trimmed.
func TestSegmentTime(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Nanosecond, 5}, {time.Hour, 1}} {
		log := openedSegments(t, filepath.Join(t.TempDir(), "data"), SegmentsOptions{SegmentTime: c.after})
		for pos := uint64(1); pos <= 5; pos++ {
			appended(t, log, sample("client", pos, 1), pos)
		}
		if got := len(log.all); got != c.want {
			t.Errorf("5 envelopes, a segment at least every %v: %d segments, want %d", c.after, got, c.want)
		}
	}
}

// TestSpare fills segments that are made of spares, kills the log in the middle of one, and reads
// everything back.
func TestSpare(t *testing.T) {
	t.Parallel()
	dir, size := filepath.Join(t.TempDir(), "data"), int64(8*spareStep/4)
	log := openedSegments(t, dir, SegmentsOptions{size: size})
	big := func(i uint64) []byte { return sample("client", i, int(size)/40/64) }
	next := uint64(1)
	for range 3 {
		for first := log.last().first; log.last().first == first; next++ {
			appended(t, log, big(next), next)
			log.spare.making.Wait()
		}
		info, err := os.Stat(log.last().path)
		if err != nil || info.Size() != size || log.zeros != size {
			t.Fatalf("a segment after a spare has %d bytes, %v; zeros up to %d, want %d", info.Size(), err, log.zeros, size)
		}
	}
	for range 5 { // within the zeros, from the middle of a page each time
		appended(t, log, big(next), next)
		next++
	}
	whole, err := os.ReadFile(log.last().path)
	if err != nil || int64(len(whole)) != size || len(bytes.Trim(whole[log.last().end:], "\x00")) > 0 {
		t.Fatalf("%d bytes, %v: not only zeros after the last envelope", len(whole), err)
	}
	copied := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	killed := openedSegments(t, copied, SegmentsOptions{size: size})
	all := contents(t, killed, 1)
	if len(all) != int(next-1) {
		t.Fatalf("%d envelopes after a kill, want %d", len(all), next-1)
	}
	for i, envelope := range all {
		if !bytes.Equal(envelope, big(uint64(i)+1)) {
			t.Fatalf("envelope %d is another one after a kill", i+1)
		}
	}
	appended(t, killed, big(next), next)
}

// TestSpareFill writes zeros past the page cache, and into it where that cannot be done.
func TestSpareFill(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{spareStep + zeroBytes, 3*zeroBytes + 123} { // direct writes need whole blocks
		path := filepath.Join(t.TempDir(), spareName)
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		p := spare{path: path, size: size}
		must(t, p.zero(f))
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, make([]byte, size)) {
			t.Errorf("%d bytes, %v, want %d zeros", len(got), err, size)
		}
	}
}
