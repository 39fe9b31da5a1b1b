package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// newSuffix ends the name of a file that is being written.
const newSuffix = ".new"

// BackupOptions are the settings of a backup. The zero value works.
type BackupOptions struct {
	// Empty refuses a folder that has a log already, instead of bringing its copy up to date.
	Empty bool
	// Progress is called periodically with numbers of bytes. nil means no call.
	Progress func(done, all uint64)
}

// Copied is the result of a Backup.
type Copied struct {
	First    uint64 `json:"first"`
	Next     uint64 `json:"next"`
	Segments int    `json:"segments"` // in the copy
	Written  int64  `json:"written"`  // bytes; what the copy has already is not written again
}

// Backup copies the log in the folder from, which another process may write to, into the folder to, and
// verifies what it writes. If to has an earlier backup of the same log, it writes only what is new. The
// copy is a log that OpenSegments opens; its end is what the log had when Backup began. After an error,
// to has what it had before or more, and Backup can be called again. Damaged envelopes are copied as they
// are, and its error joins a *Damage for each.
func Backup(ctx context.Context, from, to string, o BackupOptions) (c Copied, err error) {
	log, err := openSegments(from, SegmentsOptions{}, true)
	if err != nil {
		return c, err
	}
	defer log.Close()
	b := backup{log: log, to: to, o: o}
	if err = b.prepare(); err == nil {
		err = b.copy(ctx)
	}
	if b.target != nil {
		err = errors.Join(err, b.target.halt())
	}
	for _, f := range []*os.File{b.folder, b.lock} {
		if f != nil {
			f.Close()
		}
	}
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			err = fmt.Errorf("journal: %s: %w", to, err)
		}
		return b.Copied, err
	}
	return b.Copied, errors.Join(b.damage...)
}

// backup is one call of Backup.
type backup struct {
	Copied
	log          *Segments
	to           string
	o            BackupOptions
	folder, lock *os.File
	target       *mark // of to
	damage       []error
	done, all    int64
}

// prepare locks the target and checks that it is empty or has a copy of the same log.
func (b *backup) prepare() (err error) {
	if err := os.MkdirAll(b.to, 0o700); err != nil {
		return err
	}
	if err := b.apart(); err != nil {
		return err
	}
	if b.folder, err = takeFolder(b.to); err != nil {
		return err
	}
	if b.lock, err = takeLock(filepath.Join(b.to, lockName)); err != nil {
		return err
	}
	if err := refuseOld(b.to); err != nil {
		return err
	}
	there := &Segments{dir: b.to}
	all, err := there.segments()
	if err != nil {
		return err
	}
	_, err = os.Lstat(there.path(markName))
	if b.o.Empty && (len(all) > 0 || err == nil) {
		return &Refusal{What: b.to + " has a log", Repair: "give a new folder, or move the log there out of the way"}
	}
	for _, s := range all {
		if err := b.same(s); err != nil {
			return err
		}
	}
	parts, _ := filepath.Glob(there.path("*" + segmentSuffix + newSuffix)) // of an interrupted backup
	for _, part := range parts {
		os.Remove(part)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := createMark(there.path(markName)); err != nil {
			return err
		}
		err = syncDir(filepath.Dir(filepath.Clean(b.to)))
	}
	if err == nil {
		b.target, err = openMark(there.path(markName))
	}
	return err
}

// apart refuses a target that is the log itself.
func (b *backup) apart() error {
	from, err := os.Stat(b.log.dir)
	if err != nil {
		return err
	}
	to, err := os.Stat(b.to)
	if err == nil && os.SameFile(from, to) {
		err = &Refusal{What: b.to + " is the log itself", Repair: "give another folder for the copy"}
	}
	return err
}

// same refuses a segment of another log.
func (b *backup) same(s *segment) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	id := b.log.id
	if _, err := s.readHeader(f, &id); err != nil {
		return &Refusal{What: s.path + " is not of the log in " + b.log.dir, Repair: "give another folder for the backup", Err: err}
	}
	return nil
}

// copy copies the segments, oldest first, and then deletes those that the log has trimmed.
func (b *backup) copy(ctx context.Context) error {
	l := b.log
	b.First, b.Next = l.all[0].first, l.next
	for _, d := range l.missing {
		b.damage = append(b.damage, d)
	}
	for _, s := range l.all {
		b.all += s.size
	}
	for i, s := range l.all {
		err := b.segment(ctx, s, i == len(l.all)-1)
		if errors.Is(err, fs.ErrNotExist) { // trimmed meanwhile, as all before it
			b.First, b.Segments = s.next, 0
			continue
		}
		if err != nil {
			return err
		}
		b.Segments++
	}
	copies := &Segments{dir: b.to}
	all, err := copies.segments()
	if err != nil {
		return err
	}
	for _, s := range all { // oldest first, so that an interruption leaves no gap
		if s.first < b.First {
			if err := errors.Join(os.Remove(s.path), syncDir(b.to)); err != nil {
				return err
			}
		}
	}
	b.target.pos.Store(max(b.target.written, b.Next-1))
	return nil
}

// segment copies one segment. The copy of the last one is sealed, and longer at the next backup.
func (b *backup) segment(ctx context.Context, s *segment, last bool) error {
	from, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer from.Close()
	path := filepath.Join(b.to, segmentName(s.first))
	length, footer := s.size, []byte(nil)
	if last && !s.sealed {
		if length = s.end; len(b.log.slots) > 0 {
			index, trailer := b.log.id.footer(s, b.log.slots)
			footer = append(index, trailer...)
		}
	}
	if b.has(path, from, length, footer) {
		b.progress(s.size)
		return nil
	}
	made := path + newSuffix
	to, err := os.OpenFile(made, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	for left := length; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, min(left, 4<<20))
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		left -= n
		b.Written += n
		b.progress(n)
	}
	if _, err := to.Write(footer); err != nil {
		return err
	}
	b.Written += int64(len(footer))
	if err := to.Sync(); err != nil {
		return err
	}
	if err := b.verify(ctx, s, made); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return syncDir(b.to)
}

// has reports whether the copy at path is complete: it has the length, and ends as the segment does.
func (b *backup) has(path string, from *os.File, length int64, footer []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	size := length + int64(len(footer))
	if info, err := f.Stat(); err != nil || info.Size() != size || size < segmentHead+segmentTail {
		return false
	}
	want, got := make([]byte, segmentTail), make([]byte, segmentTail)
	if footer != nil {
		copy(want, footer[len(footer)-segmentTail:])
	} else if _, err := from.ReadAt(want, size-segmentTail); err != nil {
		return false
	}
	_, err = f.ReadAt(got, size-segmentTail)
	return err == nil && bytes.Equal(got, want)
}

// verify reads a copy of a segment and notes its damage.
func (b *backup) verify(ctx context.Context, s *segment, path string) error {
	copied := *s
	copied.path = path
	known := []slot(nil)
	if s == b.log.last() && !s.sealed {
		known = b.log.slots
	}
	for from := s.first; from < s.next; {
		err := b.log.readSegment(ctx, &copied, known, from, func(uint64, []byte) error { return nil })
		var d *Damage
		if err == nil || !errors.As(err, &d) {
			return err
		}
		d.File = s.path
		b.damage = append(b.damage, d)
		from = d.Last + 1
	}
	return nil
}

func (b *backup) progress(n int64) {
	if b.done += n; b.o.Progress != nil {
		b.o.Progress(uint64(b.done), uint64(b.all))
	}
}
