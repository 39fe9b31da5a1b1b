package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
)

// oldLog reads a log of an earlier version. It keeps no file open, so Close does nothing.
type oldLog struct {
	format oldFormat
	parts  []oldPart // ascending
	places []place   // ascending; where a Read may begin
	next   uint64
	end    *Damage // what is lost after the last record; nil: nothing
}

// place is where the record of a position should be.
type place struct {
	pos  uint64
	part int
	at   int64 // offset in the part
}

// oldFormat is how records follow each other in a file.
type oldFormat struct {
	// head reads the head of what begins at offset at, where the record of position want should be.
	head     func(w *window, at int64, want uint64) (oldHead, error)
	magic    string // that each record has
	magicAt  int    // its offset
	numbered bool   // records say their position
}

// oldHead is what a record says before its envelope.
type oldHead struct {
	pos           uint64 // 0: no envelope is there, or one that was there before
	end           int64  // offset of the next record; 0: it does not say that
	before, after int64  // how many bytes of the record are around the envelope; before -1: there is none
}

// oldRecord is what begins at an offset of an old log.
type oldRecord struct {
	end      int64 // offset of the next record; 0: this is not a record
	pos      uint64
	envelope []byte
	whole    bool // the envelope matches its checksum
}

// oldPart is one file of an old log.
type oldPart struct {
	path   string
	number uint64 // in its name
	to     int64  // offset of its end
}

const (
	placeBytes = 8 << 20             // between two places
	unreadPage = 4096                // how much of a file is passed over where the disk cannot read
	maxRecord  = MaxEnvelope + 1<<10 // with what JetStream adds
)

var (
	errUnread = fmt.Errorf("the disk cannot read a part of the file: %w", syscall.EIO)
	errTail   = errors.New("the end of the file cannot be read")
	errCount  = errors.New("what is here cannot be read; if it was more than one envelope, the positions after it are too low")
)

// settle reads the log and finds its end. reached is the high-water mark.
func (l *oldLog) settle(ctx context.Context, reached uint64, logger *slog.Logger) error {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	var newest *Damage
	l.places = []place{{pos: 1}}
	rest, err := l.scan(ctx, l.places[0], func(_ []byte, after place) error {
		if last := l.places[len(l.places)-1]; after.part > last.part || after.at >= last.at+placeBytes {
			l.places = append(l.places, after)
		}
		return nil
	}, func(d *Damage) error { newest = d; return nil })
	if l.next = rest.pos; err != nil || len(l.parts) == 0 {
		return err
	}
	last := &l.parts[len(l.parts)-1]
	tail, unread, err := readRange(last.path, rest.at, last.to)
	if err != nil {
		return err
	}
	switch {
	case len(tail) > maxRecord || unread:
		l.end = &Damage{First: rest.pos, Last: rest.pos, File: last.path, Offset: rest.at, Err: errTail}
		if unread {
			l.end.Err = errUnread
		}
		l.next++
		return nil
	case len(tail) == 0 && newest != nil && newest.Last == rest.pos-1 && newest.First > reached:
		b, _, err := readRange(last.path, last.to-4, last.to)
		if err != nil {
			return err
		}
		if string(b) == "\x00\x00\x00\x00" { // a write of which only the size got to the disk
			rest.pos, rest.at = newest.First, newest.Offset
		}
	}
	if rest.at < last.to {
		logger.Warn("the last write is torn: it was not acknowledged and does not count", "position", rest.pos,
			"file", last.path, "offset", rest.at, "bytes", last.to-rest.at)
		last.to = rest.at
	}
	l.next = rest.pos
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

// scan reads from a place on. It returns the place after which nothing can be read.
func (l *oldLog) scan(ctx context.Context, at place, each func(envelope []byte, after place) error, lost func(*Damage) error) (place, error) {
	for at.part < len(l.parts) {
		var err error
		if at, err = l.walk(ctx, at, each, lost); err != nil || at.part == len(l.parts)-1 {
			return at, err
		}
		at.part, at.at = at.part+1, 0
	}
	return at, nil
}

// walk is scan for one part.
func (l *oldLog) walk(ctx context.Context, at place, each func(envelope []byte, after place) error, lost func(*Damage) error) (place, error) {
	p := l.parts[at.part]
	f, err := openOldFile(p.path)
	if err != nil {
		return at, err
	}
	defer f.Close()
	w, hole := &window{f: f, limit: p.to}, int64(-1)
	lose := func(last uint64, offset int64, clients []string, err error) error {
		if f.unread {
			err = fmt.Errorf("%w: %w", err, errUnread)
		}
		d := &Damage{First: at.pos, Last: last, File: p.path, Offset: offset, Clients: clients, Err: err}
		at.pos = last + 1
		return lost(d)
	}
	for at.at < p.to {
		r, err := l.record(w, at.at, at.pos)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return at, err
		}
		if r.pos > at.pos && (r.end > 0 || at.at == 0) {
			if hole < 0 {
				hole = at.at
			}
			if err := lose(r.pos-1, hole, nil, errMissing); err != nil {
				return at, err
			}
		}
		if r.end == 0 {
			found, err := l.resync(ctx, w, at.at, at.pos)
			if err != nil || found == 0 {
				return at, err
			}
			if l.format.numbered {
				hole = at.at
			} else if err := lose(at.pos, at.at, nil, errCount); err != nil {
				return at, err
			}
			at.at = found
			continue
		}
		hole = -1
		switch {
		case r.pos == 0:
		case r.whole:
			err = each(r.envelope, place{r.pos + 1, at.part, r.end})
			at.pos = r.pos + 1
		default:
			err = lose(r.pos, at.at, clientsIn(r.envelope), errEnvelope)
		}
		if err != nil {
			return at, err
		}
		at.at = r.end
	}
	return at, nil
}

// record reads what begins at offset at, where the record of position want should be. It ends where its head says,
// or where its envelope does, or if one bit of the envelope's length has flipped, where the checksum says.
func (l *oldLog) record(w *window, at int64, want uint64) (oldRecord, error) {
	h, err := l.format.head(w, at, want)
	if err != nil {
		return oldRecord{}, err
	}
	r, start, ends, claimed := oldRecord{pos: h.pos}, at+h.before, 1, uint32(0)
	if h.before >= 0 {
		b, err := w.bytes(start, headerSize)
		if err != nil {
			return r, err
		}
		if len(b) == headerSize {
			ends, claimed = 34, binary.BigEndian.Uint32(b[12:])
		}
	}
	for i := range ends { // 0: as the head says, 1: as the envelope says, and then with one bit of that flipped
		length := claimed ^ uint32(uint64(1)<<i>>2)
		end := start + headerSize + int64(length) + trailerSize + h.after
		if i == 0 {
			end, length = h.end, uint32(h.end-h.after-start-headerSize-trailerSize)
		}
		if end <= at || end > w.limit || end-at > maxRecord {
			continue
		}
		if i > 1 && !l.begins(w, end) {
			continue
		}
		if ends > 1 && length <= MaxEnvelope {
			b, err := w.bytes(start, end-h.after-start)
			if err != nil {
				return r, err
			}
			if length != claimed {
				b = slices.Clone(b)
				binary.BigEndian.PutUint32(b[12:], length)
			}
			if _, ok := whole(b); ok {
				return oldRecord{end: end, pos: h.pos, envelope: b, whole: true}, nil
			}
		}
		if i < 2 && r.end == 0 && l.begins(w, end) {
			r.end = end
		}
	}
	if end := r.end - h.after; h.before >= 0 && start < end {
		r.envelope, err = w.bytes(start, end-start)
	}
	return r, err
}

// begins reports whether something that looks like a record begins at an offset, or the file ends there.
func (l *oldLog) begins(w *window, at int64) bool {
	b, err := w.bytes(at+int64(l.format.magicAt), int64(len(l.format.magic)))
	return at == w.limit || err == nil && string(b) == l.format.magic
}

// resync searches for the next record after damage at offset at. It returns 0 if there is none.
func (l *oldLog) resync(ctx context.Context, w *window, at int64, want uint64) (int64, error) {
	for at++; ; {
		b, err := w.bytes(at, readAhead)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		overlap := l.format.magicAt + len(l.format.magic) - 1
		if len(b) <= overlap {
			return 0, nil
		}
		i := bytes.Index(b[l.format.magicAt:], []byte(l.format.magic))
		if i < 0 {
			at += int64(len(b) - overlap)
			continue
		}
		at += int64(i)
		if r, err := l.record(w, at, want); err != nil || r.whole && r.pos > 0 {
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
	begin := len(l.places) - 1
	for l.places[begin].pos > from {
		begin--
	}
	end, err := l.scan(ctx, l.places[begin], func(envelope []byte, after place) error {
		if after.pos <= from {
			return nil
		}
		return each(after.pos-1, envelope)
	}, lost)
	if err == nil && end.pos < l.next {
		d := Damage{Last: l.next - 1, Err: errTail} // it could be read before
		if l.end != nil {
			d = *l.end
		}
		d.First = end.pos
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
