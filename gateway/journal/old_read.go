package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
)

// oldLog reads a log of an earlier version. It keeps no file open, so Close does nothing.
type oldLog struct {
	format oldFormat
	parts  []oldPart // ascending
	next   uint64
	end    *Damage // what is lost after the last record; nil: nothing
}

// oldFormat is how records follow each other in a file.
type oldFormat interface {
	// record reads what begins at offset at, where the record of position want should be.
	record(w *window, at int64, want uint64) (oldRecord, error)
	// search returns the offset in b of what looks like a record, or -1 if none begins before
	// the last overlap bytes.
	search(b []byte) (at, overlap int)
	// numbered reports whether records say their position.
	numbered() bool
}

// oldRecord is what begins at an offset of an old log.
type oldRecord struct {
	end      int64  // offset of the next record; 0: this is not a record
	pos      uint64 // 0: no envelope is there, or one that was there before
	envelope []byte
	whole    bool // the envelope matches its checksum
}

// oldPart is one file of a JetStream store, or a part of a plain file.
type oldPart struct {
	path     string
	from, to int64  // offsets
	first    uint64 // position of its first record; 0: unknown
}

const (
	partBytes  = 8 << 20             // of a plain file
	unreadPage = 4096                // how much of a file is passed over where the disk cannot read
	maxRecord  = MaxEnvelope + 1<<10 // with what JetStream adds
)

var (
	errUnread = fmt.Errorf("the disk cannot read a part of the file: %w", syscall.EIO)
	errTail   = errors.New("the end of the file cannot be read")
	errCount  = errors.New("what is here cannot be read; if it was more than one envelope, the positions after it are too low")
)

// settle finds the end of the log. reached is the high-water mark.
func (l *oldLog) settle(ctx context.Context, reached uint64, logger *slog.Logger, split func(pos uint64, end int64)) error {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	var newest *Damage
	want, rest, err := l.scan(ctx, l.part(1<<63), func(pos uint64, _ []byte, end int64) error {
		split(pos, end)
		return nil
	}, func(d *Damage) error { newest = d; return nil })
	if err != nil || len(l.parts) == 0 {
		l.next = want
		return err
	}
	last := &l.parts[len(l.parts)-1]
	tail, unread, err := readRange(last.path, rest, last.to)
	if err != nil {
		return err
	}
	at := rest
	switch {
	case len(tail) > maxRecord || unread:
		l.end = &Damage{First: want, Last: want, File: last.path, Offset: rest, Err: errTail}
		if unread {
			l.end.Err = errUnread
		}
		want++
	case len(tail) == 0 && newest != nil && newest.Last == want-1 && newest.First > reached:
		b, _, err := readRange(last.path, last.to-4, last.to)
		if err != nil {
			return err
		}
		if string(b) == "\x00\x00\x00\x00" { // a write of which only the size got to the disk
			want, at = newest.First, newest.Offset
		}
	}
	if l.end == nil && at < last.to {
		logger.Warn("the last write is torn: it was not acknowledged and does not count", "position", want,
			"file", last.path, "offset", at, "bytes", last.to-at)
		last.to = at
	}
	l.next = want
	return nil
}

func readRange(path string, from, to int64) (b []byte, unread bool, err error) {
	f, err := openOldFile(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	b = make([]byte, min(to-from, maxRecord+1))
	if _, err = f.ReadAt(b, from); err == io.EOF {
		err = nil
	}
	return b, f.unread, err
}

// oldFile reads a file of an old log. What the disk cannot read becomes bytes that no checksum takes for an
// envelope, so it counts as damage and reading goes on after it.
type oldFile struct {
	*os.File
	unread bool // there was such a part
}

func openOldFile(path string) (*oldFile, error) {
	f, err := os.Open(path)
	return &oldFile{File: f}, err
}

// ReadAt reads len(b) bytes, or fewer at the end of the file.
func (f *oldFile) ReadAt(b []byte, at int64) (n int, err error) {
	for {
		got, err := f.File.ReadAt(b[n:], at+int64(n))
		if n += got; !errors.Is(err, syscall.EIO) {
			return n, err
		}
		f.unread = true
		for page := (at + int64(n)) / unreadPage; n < len(b) && (at+int64(n))/unreadPage == page; n++ {
			b[n] = 0xff
		}
	}
}

// part returns the index of the part from which position pos is found.
func (l *oldLog) part(pos uint64) int {
	for i := len(l.parts) - 1; i > 0; i-- {
		if first := l.parts[i].first; first > 0 && first <= pos {
			return i
		}
	}
	return 0
}

// scan reads the parts from index i on. It returns the next position, and the offset in the last part
// after which nothing can be read.
func (l *oldLog) scan(ctx context.Context, i int, each func(pos uint64, envelope []byte, end int64) error, lost func(*Damage) error) (next uint64, rest int64, err error) {
	next = 1
	if i > 0 {
		next = l.parts[i].first
	}
	for n := i; n < len(l.parts) && err == nil; n++ {
		p := l.parts[n]
		if p.first > next {
			before := l.parts[max(n-1, i)]
			if err := lost(&Damage{First: next, Last: p.first - 1, File: before.path, Offset: rest, Err: errMissing}); err != nil {
				return next, rest, err
			}
			next = p.first
		}
		next, rest, err = l.walk(ctx, p, next, each, lost)
	}
	return next, rest, err
}

// walk is scan for one part, in which position want comes next.
func (l *oldLog) walk(ctx context.Context, p oldPart, want uint64, each func(pos uint64, envelope []byte, end int64) error, lost func(*Damage) error) (next uint64, rest int64, err error) {
	f, err := openOldFile(p.path)
	if err != nil {
		return want, p.from, err
	}
	defer f.Close()
	w, at, hole := &window{f: f, limit: p.to}, p.from, int64(-1)
	lose := func(last uint64, offset int64, clients []string, err error) error {
		if f.unread {
			err = fmt.Errorf("%w: %w", err, errUnread)
		}
		d := &Damage{First: want, Last: last, File: p.path, Offset: offset, Clients: clients, Err: err}
		want = last + 1
		return lost(d)
	}
	for at < p.to {
		r, err := l.format.record(w, at, want)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return want, at, err
		}
		switch {
		case r.end == 0:
			found, err := l.resync(ctx, w, at, want)
			if err != nil || found == 0 {
				return want, at, err
			}
			if l.format.numbered() {
				hole = at
			} else if err := lose(want, at, nil, errCount); err != nil {
				return want, at, err
			}
			at = found
			continue
		case r.pos > want:
			if hole < 0 {
				hole = at
			}
			err = lose(r.pos-1, hole, nil, errMissing)
		}
		hole = -1
		switch {
		case r.pos == 0 || err != nil:
		case r.whole:
			err = each(r.pos, r.envelope, r.end)
			want = r.pos + 1
		default:
			err = lose(r.pos, at, clientsIn(r.envelope), errEnvelope)
		}
		if err != nil {
			return want, at, err
		}
		at = r.end
	}
	return want, at, nil
}

// resync searches for the next record after damage at offset at. It returns 0 if there is none.
func (l *oldLog) resync(ctx context.Context, w *window, at int64, want uint64) (int64, error) {
	for at++; ; {
		b, err := w.bytes(at, readAhead)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		i, overlap := l.format.search(b)
		if i < 0 {
			if len(b) <= overlap {
				return 0, nil
			}
			at += int64(len(b) - overlap)
			continue
		}
		at += int64(i)
		if r, err := l.format.record(w, at, want); err != nil || r.whole && r.pos > 0 {
			return at, err
		}
		at++
	}
}

// Read calls each for every envelope from position from. A lost one ends it with a *Damage.
func (l *oldLog) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	from = max(from, 1)
	if from >= l.next {
		return nil
	}
	lost := func(d *Damage) error {
		if d.Last < from {
			return nil
		}
		d.First = max(d.First, from)
		return d
	}
	next, _, err := l.scan(ctx, l.part(from), func(pos uint64, envelope []byte, _ int64) error {
		if pos < from {
			return nil
		}
		return each(pos, envelope)
	}, lost)
	if err == nil && next < l.next {
		d := Damage{Last: l.next - 1, Err: errTail} // it could be read before
		if l.end != nil {
			d = *l.end
		}
		d.First = next
		err = lost(&d)
	}
	return err
}

// Bounds returns 1 and the next position: earlier versions deleted nothing.
func (l *oldLog) Bounds() (first, next uint64, err error) { return 1, l.next, nil }

// Verify reads and checks every envelope.
func (l *oldLog) Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	return verify(ctx, l, rate, progress)
}

// Close does nothing.
func (l *oldLog) Close() error { return nil }

// checkMark refuses a log that ends before its mark, unless that loss is accepted.
func (l *oldLog) checkMark(dir string, reached uint64, accepted Range) error {
	missing := &Damage{First: l.next, Last: reached, Err: errMissing}
	switch {
	case l.next > reached:
		return nil
	case accepted.Has(missing):
		l.end, l.next = missing, reached+1
		return nil
	}
	return &Refusal{
		What: fmt.Sprintf("the log in %s ends at position %d but has reached %d before", dir, l.next-1, reached),
		Repair: fmt.Sprintf("restore the folder from a backup, since acknowledged messages are missing, or go on without them: "+
			"honed migrate --data %s --accept-loss %d-%d", dir, l.next, reached),
	}
}
