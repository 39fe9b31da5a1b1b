package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// Files that a backup has in its target.
const (
	partName    = "part"    // the segment that it is writing
	copyingName = "copying" // the first copy is not complete: the folder has a part of a log
	copiedName  = "copied"  // has the position after what was copied, which says less than clients may know
)

// refuseUnfinished returns a *Refusal if the folder has a copy that is not complete.
func refuseUnfinished(dir string) error {
	if !exists(dir, copyingName) {
		return nil
	}
	return &Refusal{
		What:   dir + " has an unfinished copy of a log",
		Repair: "repeat the honed backup or honed restore that was interrupted, with the same folders",
	}
}

// BackupOptions are the settings of a backup. The zero value works.
type BackupOptions struct {
	// Empty refuses a folder that has a log already, instead of bringing its copy up to date. A copy that is
	// not complete is completed.
	Empty bool
	// Logger gets what is wrong with the log besides lost envelopes. nil means no logging.
	Logger *slog.Logger
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
// to has what it had before or more, and Backup can be called again; until it has succeeded once, nothing
// opens to. Damaged envelopes are copied as they are, and its error joins a *Damage for each.
func Backup(ctx context.Context, from, to string, o BackupOptions) (c Copied, err error) {
	if err := refuseEmpty(from); err != nil {
		return c, err
	}
	log, err := openSegments(from, SegmentsOptions{Logger: o.Logger}, true)
	if err != nil {
		return c, err
	}
	defer log.Close()
	b := backup{log: log, to: &Segments{dir: to, id: log.id}, o: o}
	if err = b.prepare(ctx); err == nil {
		err = b.copy(ctx)
	}
	if b.to.mark != nil {
		err = errors.Join(err, b.to.mark.Halt())
		b.to.mark = nil
	}
	b.to.release()
	if errors.Is(err, errOvertaken) && ctx.Err() == nil {
		return Backup(ctx, from, to, o)
	}
	if err == nil {
		return b.Copied, errors.Join(b.damage...)
	}
	return b.Copied, writer.About(to, err)
}

// backup is one call of Backup.
type backup struct {
	Copied
	log, to   *Segments
	o         BackupOptions
	copied    map[uint64]uint32 // sums of the trailers that the copy has, by first position
	damage    []error
	done, all int64
}

// prepare locks the target and checks that it is empty or has a copy of the same log.
func (b *backup) prepare(ctx context.Context) error {
	from, err := os.Stat(b.log.dir)
	if err != nil {
		return err
	}
	if contains(from, b.to.dir) {
		return &Refusal{What: b.to.dir + " is in the folder of the log itself", Repair: "give another folder for the copy"}
	}
	if b.o.Empty && exists(b.to.dir, writer.MarkName) && !exists(b.to.dir, copyingName) {
		return &Refusal{What: b.to.dir + " has a log", Repair: "give a new folder, or move the log there out of the way"}
	}
	b.First, b.Next = b.log.all[0].first, b.log.next
	if err := b.to.enter(b.First); err != nil {
		return err
	}
	all, err := b.to.segments()
	b.copied = map[uint64]uint32{}
	for _, s := range all {
		f, err := os.Open(s.path)
		if err != nil {
			return err
		}
		if _, err = s.readHeader(f, &b.to.id); s.readTrailer(f, &b.to.id) {
			b.copied[s.first] = s.sum
		}
		if f.Close(); err != nil {
			return &Refusal{What: s.path + " is not of the log in " + b.log.dir, Repair: "give another folder for the backup", Err: err}
		}
	}
	if err == nil && !exists(b.to.dir, copyingName) {
		err = b.sameHistory(ctx)
	}
	if err != nil {
		return err
	}
	for _, s := range all {
		began := func(of *segment) bool { return of.first == s.first }
		if s.size <= segmentHead && !slices.ContainsFunc(b.log.all, began) { // of a start from the copy
			if err := os.Remove(s.path); err != nil {
				return err
			}
		}
	}
	os.Remove(b.to.path(partName)) // of an interrupted backup
	if err := writer.WriteSynced(b.to.path(copiedName), binary.BigEndian.AppendUint64(nil, b.Next)); err != nil {
		return err
	}
	b.to.mark.Position.Store(min(b.to.mark.Written, b.Next-1))
	return b.to.mark.Save()
}

// contains reports whether a path leads to a folder, or into it. Its end need not exist.
func contains(folder os.FileInfo, path string) bool {
	for p, _ := filepath.Abs(path); ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		at, err := os.Stat(p)
		switch {
		case err == nil && os.SameFile(at, folder):
			return true
		case p == filepath.Dir(p):
			return false
		}
	}
}

// sameHistory refuses a copy that goes on where the log does not, or whose newest envelope is not the log's: the log
// was restored from an older backup, and may have grown since. What is damaged or trimmed cannot be compared; the
// envelope before it counts.
func (b *backup) sameHistory(ctx context.Context) error {
	refuse := func(format string, a ...any) error {
		return &Refusal{What: fmt.Sprintf(format, a...), Repair: "give another folder for the backup, since the log was restored from an older one"}
	}
	copied, err := openSegments(b.to.dir, SegmentsOptions{off: segmentGuards{mark: true}}, true)
	if _, is := errors.AsType[*Refusal](err); is { // it is of no use, and written anew
		copied = &Segments{readOnly: true, next: 1}
	} else if err != nil {
		return err
	}
	defer copied.Close()
	reached := max(b.to.mark.Written, copied.next-1)
	extra := b.log.continues(reached) && copied.continues(reached)
	if reached > b.Next || reached == b.Next && !extra {
		return refuse("the copy in %s goes up to position %d, and the log in %s to %d only", b.to.dir, reached, b.log.dir, b.Next-1)
	}
	for pos := reached; len(copied.all) > 0 && pos >= max(copied.all[0].first, b.First); pos-- {
		ours, is, err := b.log.sumAt(ctx, pos)
		theirs, has, err2 := copied.sumAt(ctx, pos)
		switch {
		case err != nil || err2 != nil:
			return cmp.Or(err, err2)
		case !is || !has || pos == reached && extra:
		case ours != theirs:
			return refuse("the copy in %s has another history than the log in %s: they differ at position %d", b.to.dir, b.log.dir, pos)
		default:
			return nil
		}
	}
	return nil
}

// continues reports whether the log has position pos in the segment of the position before, or will have. If a log and
// its copy both do, they may differ there: the log has lost with the power what was not acknowledged. A log that was
// restored, or a copy that was opened, goes on in a segment of its own.
func (l *Segments) continues(pos uint64) bool {
	return slices.ContainsFunc(l.all, func(s *segment) bool {
		return s.first < pos && (pos < s.next || pos == s.next && s == l.last() && !s.sealed)
	})
}

// sumAt returns the checksum of the envelope at a position, if that can be read.
func (l *Segments) sumAt(ctx context.Context, pos uint64) (sum uint32, is bool, err error) {
	err = l.Read(ctx, pos, func(_ uint64, envelope []byte) error {
		sum, is = sumOf(envelope), true
		return errEnough
	})
	if is || errors.As(err, new(*Damage)) || errors.As(err, new(*TrimmedError)) {
		err = nil
	}
	return sum, is, err
}

var errEnough = errors.New("enough") // ends a Read

// errOvertaken says that the log has trimmed meanwhile all that it had.
var errOvertaken = errors.New("the log was trimmed faster than it was copied")

// copy copies the segments, oldest first, and then deletes those that the log has trimmed, or not reached.
func (b *backup) copy(ctx context.Context) error {
	l := b.log
	for _, d := range l.missing {
		b.damage = append(b.damage, d)
	}
	for _, s := range l.all {
		b.all += s.size
	}
	for _, s := range l.all {
		err := b.segment(ctx, s)
		if errors.Is(err, fs.ErrNotExist) { // trimmed meanwhile, as all before it
			b.First, b.Segments = s.next, 0
			continue
		}
		if err != nil {
			return err
		}
		b.Segments++
	}
	if b.Segments == 0 {
		return errOvertaken
	}
	all, err := b.to.segments()
	for _, s := range all { // oldest first, so that an interruption leaves no gap
		if err == nil && (s.first < b.First || s.first > l.last().first) {
			err = errors.Join(os.Remove(s.path), writer.SyncFolder(b.to.dir))
		}
	}
	if err == nil {
		b.to.mark.Position.Store(b.Next - 1)
		err = b.to.mark.Save()
	}
	if err != nil {
		return err
	}
	if err := os.Remove(b.to.path(copyingName)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, writer.SyncFolder(b.to.dir))
	}
	return nil
}

// segment copies one segment. The copy of the last one is sealed, and longer at the next backup.
func (b *backup) segment(ctx context.Context, s *segment) error {
	from, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer from.Close()
	length, sum, known, footer := s.size, s.sum, []slot(nil), []byte(nil)
	if s == b.log.last() && !s.sealed {
		if length, known = s.end, b.log.slots; len(known) > 0 {
			index, trailer := b.log.id.footer(s, known)
			sum, footer = binary.BigEndian.Uint32(trailer[segmentTail-4:]), append(index, trailer...)
		}
	}
	if has, sealed := b.copied[s.first]; sealed && has == sum {
		b.progress(s.size)
		return nil
	}
	made := b.to.path(partName)
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
	copied := *s
	copied.path = made
	err = ReadPast(ctx, &Segments{id: b.log.id, readOnly: true, all: []*segment{&copied}, slots: known, next: s.next}, s.first,
		func(uint64, []byte) error { return nil },
		func(d *Damage) error {
			d.File = s.path
			b.damage = append(b.damage, d)
			return nil
		})
	if err != nil {
		return err
	}
	if err := os.Rename(made, b.to.path(segmentName(s.first))); err != nil {
		return err
	}
	return writer.SyncFolder(b.to.dir)
}

func (b *backup) progress(n int64) {
	if b.done += n; b.o.Progress != nil {
		b.o.Progress(uint64(b.done), uint64(b.all))
	}
}
