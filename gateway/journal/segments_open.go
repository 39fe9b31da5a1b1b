package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// OpenReader opens the log in the folder dir for reading. It needs no lock and changes nothing, so another
// process may append meanwhile: the log has the envelopes of the time of the call. logger gets what is damaged; nil
// means no logging.
func OpenReader(dir string, logger *slog.Logger) (Reader, error) {
	if err := refuseEmpty(dir); err != nil {
		return nil, err
	}
	return openSegments(dir, SegmentsOptions{Logger: logger}, true)
}

// refuseEmpty returns a *Refusal if the folder dir does not exist, or has no log.
func refuseEmpty(dir string) error {
	const repair = "give the folder of a log"
	has, err := holdsLog(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Refusal{What: "there is no folder " + dir, Repair: repair}
	case err == nil && !has:
		return &Refusal{What: dir + " has no log", Repair: repair}
	}
	return err
}

func (l *Segments) open() error {
	if err := l.enter(1); err != nil {
		return err
	}
	if err := l.find(); err != nil {
		return err
	}
	if err := l.checkMark(); err != nil || l.readOnly {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	l.jobs, l.results = make(chan []byte), make(chan error, 1)
	l.writing.Go(func() {
		for envelope := range l.jobs {
			l.results <- l.store(envelope)
		}
	})
	l.mark.Run(l.keep)
	return nil
}

// enter locks the folder, and creates the log if there has never been one. Then it begins at position first.
func (l *Segments) enter(first uint64) (err error) {
	if l.readOnly {
		if l.mark, l.unmarked = writer.OpenMark(l.path(writer.MarkName), true); l.unmarked != nil {
			l.mark = new(writer.Mark)
			l.o.Logger.Error("the log has lost its high-water mark: envelopes may be missing at its end", "err", l.unmarked)
		}
		return refuseUnfinished(l.dir)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if l.folder, err = writer.LockFolder(l.dir, l.o.LockTime); err != nil {
		return err
	}
	if _, err := holdsLog(l.dir); err != nil { // nothing is written until then
		return err
	}
	if l.lock, err = writer.Lock(l.path(writer.LockName), l.o.LockTime); err != nil {
		return err
	}
	if l.id == (logID{}) { // else Backup completes it
		if err := refuseUnfinished(l.dir); err != nil {
			return err
		}
		copied, err := os.ReadFile(l.path(copiedName))
		if err == nil && len(copied) == 8 {
			l.copied = binary.BigEndian.Uint64(copied)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return &Refusal{What: l.path(copiedName) + " cannot be read", Repair: "repeat the honed backup that made it", Err: err}
		}
	}
	if _, err := os.Lstat(l.path(writer.MarkName)); errors.Is(err, fs.ErrNotExist) {
		if err := l.create(first); err != nil {
			return err
		}
	}
	if l.mark, err = writer.OpenMark(l.path(writer.MarkName), false); err == nil {
		err = writer.Exclude(l.mark.File, l.path(writer.LockName), l.o.LockTime)
	}
	return err
}

// create makes an empty log that begins at position first. Its mark comes last, so a folder without
// one and without envelopes is what an interrupted create left.
func (l *Segments) create(first uint64) error {
	paths, err := l.segments()
	if err != nil {
		return err
	}
	for _, s := range paths {
		if s.size > segmentHead {
			return &Refusal{What: fmt.Sprintf("%s has a log but no file %s", l.dir, writer.MarkName), Repair: writer.WithoutMark}
		}
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	if l.id == (logID{}) {
		rand.Read(l.id[:])
	} else if err := writer.WriteSynced(l.path(copyingName), nil); err != nil { // it is a copy
		return err
	}
	if err := writer.WriteSynced(l.path(segmentName(first)), l.id.header(first, 0)); err != nil {
		return err
	}
	made := l.path(writer.MarkName + newSuffix)
	if err := writer.CreateMark(made); err != nil {
		return err
	}
	// dir may be a new entry in its parent.
	return errors.Join(os.Rename(made, l.path(writer.MarkName)), writer.SyncFolder(l.dir), writer.SyncFolder(filepath.Dir(filepath.Clean(l.dir))))
}

func (l *Segments) segments() (all []*segment, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // sorted, and so are the positions
		first := firstOf(e.Name())
		if first == 0 {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // trimmed by the process that writes to it, and so are those before
			all = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, &segment{path: l.path(e.Name()), first: first, size: info.Size()})
	}
	return all, nil
}

// list reads the headers and the trailers of all segments, and the frames of the last one if it is
// not sealed.
func (l *Segments) list() (kept []*segment, err error) {
	all, err := l.segments()
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		last := i == len(all)-1
		switch err := l.findOne(s, last, kept); {
		case errors.Is(err, fs.ErrNotExist): // trimmed meanwhile: the oldest goes first
			kept = nil
			continue
		case l.readOnly && errors.Is(err, errElsewhere): // its positions count as missing
			l.o.Logger.Error("a segment has another one's name", "err", err)
			continue
		case err != nil:
			return nil, err
		}
		kept = append(kept, s)
	}
	return kept, nil
}

// find lists the segments, and learns from the last one where the log ends.
func (l *Segments) find() error {
	kept, err := l.list()
	for tries := 0; err == nil && len(kept) == 0 && l.readOnly && tries < 100; tries++ { // all of them were trimmed meanwhile
		kept, err = l.list()
	}
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return &Refusal{
			What:   fmt.Sprintf("%s has a file %s but no segments", l.dir, writer.MarkName),
			Repair: "restore the folder from a backup; acknowledged messages are missing",
		}
	}
	for i, s := range kept[:len(kept)-1] {
		following := kept[i+1].first
		if s.next > following { // of an unsealed one, next is 0
			return l.foreign(kept[i+1], fmt.Errorf("%s goes up to position %d", s.path, s.next-1))
		}
		if s.sealed && s.next < following {
			l.missing = append(l.missing, &Damage{First: s.next, Last: following - 1, Err: errors.New("their segments are missing")})
		}
		if !s.sealed {
			s.lost = errors.New("its trailer is damaged")
		}
		if s.next == 0 {
			s.next = following
		}
	}
	l.all, l.next = kept, kept[len(kept)-1].next
	size := int64(0)
	for _, s := range kept {
		if size += s.size; s.lost != nil {
			l.o.Logger.Error("a segment of the log is damaged", "file", s.path, "err", s.lost)
		}
	}
	for _, d := range l.missing {
		l.o.Logger.Error("envelopes are missing", "err", d)
	}
	l.size.Store(size)
	return nil
}

// findOne reads what the segment s says of itself, and compares it with those before.
func (l *Segments) findOne(s *segment, last bool, before []*segment) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	previous, err := s.readHeader(f, &l.id)
	switch {
	case errors.Is(err, errElsewhere):
		return l.foreign(s, err)
	case errors.As(err, new(*Refusal)): // it has another version
		return err
	}
	s.lost = err
	if !s.readTrailer(f, &l.id) && last {
		if s.lost != nil && l.id == (logID{}) {
			return l.foreign(s, s.lost)
		}
		if l.slots, err = l.scanOpen(s, f); err != nil {
			return err
		}
	}
	if n := len(before); err == nil && s.lost == nil && n > 0 && before[n-1].sealed && before[n-1].next == s.first && before[n-1].sum != previous {
		return l.foreign(s, fmt.Errorf("it does not continue %s", before[n-1].path))
	}
	return nil
}

// foreign refuses a segment that is not the one that was written under its name.
func (l *Segments) foreign(s *segment, err error) error {
	return &Refusal{
		What:   fmt.Sprintf("%s is not the segment that was written there", s.path),
		Repair: "restore it from a backup; it holds the envelopes from position " + strconv.FormatUint(s.first, 10),
		Err:    err,
	}
}

// scanOpen finds the frames of the last segment, which is not sealed. What a process was writing when
// it died is not part of it.
func (l *Segments) scanOpen(s *segment, f *os.File) ([]slot, error) {
	used, err := s.used(f)
	if err != nil {
		return nil, err
	}
	written := *s // the last frame may end with zeros, too
	written.size = min(s.size, used+frameHead+MaxEnvelope)
	found, err := written.scan(f, &l.id)
	if err != nil {
		return nil, err
	}
	slots := found.slots
	s.end, s.next = found.end, s.first+uint64(len(slots))
	// Only the last frame may be torn, and none that was acknowledged long enough ago.
	if n := len(found.holes); n > 0 {
		if d := found.holes[n-1]; d.Last == s.next-1 && d.First == d.Last && d.First > l.mark.Written {
			s.end, s.next, slots = d.Offset, d.First, slots[:len(slots)-1]
			found.holes = found.holes[:n-1]
		}
	}
	s.size = max(used, s.end)
	if s.size-s.end > frameHead+MaxEnvelope && s.size-s.end > int64(len(slots))*slotSize+segmentTail {
		return nil, &Refusal{
			What:   fmt.Sprintf("%s is damaged from byte %d on: %d bytes cannot be read", s.path, s.end, s.size-s.end),
			Repair: "restore it from a backup",
		}
	}
	for _, d := range found.holes {
		l.o.Logger.Error("the log is damaged", "err", d)
	}
	if found.heads > 0 {
		l.o.Logger.Error("frame heads of the log are damaged; their envelopes are not", "file", s.path, "count", found.heads)
	}
	return slots, nil
}

// used returns the size of a segment without the zeros at its end, which are there before the frames.
func (s *segment) used(f *os.File) (int64, error) {
	b := make([]byte, readAhead)
	for at := s.size; at > segmentHead; {
		n := min(int64(len(b)), at-segmentHead)
		got, err := f.ReadAt(b[:n], at-n)
		if err != nil && err != io.EOF { // it may be sealed meanwhile, and is shorter then
			return 0, err
		}
		if rest := bytes.TrimRight(b[:got], "\x00"); len(rest) > 0 {
			return at - n + int64(len(rest)), nil
		}
		at -= n
	}
	return segmentHead, nil
}

// checkMark compares the end of the log with the mark. Positions whose loss was accepted count as
// lost from now on.
func (l *Segments) checkMark() error {
	reached := l.mark.Written
	if l.next > reached || l.o.off.mark {
		return nil
	}
	accepted, last := l.o.AcceptLoss, l.all[len(l.all)-1]
	if accepted.Has(&Damage{First: l.next, Last: reached}) && !last.sealed && !l.readOnly {
		for ; l.next <= reached; l.next++ {
			l.slots = append(l.slots, slot{})
		}
		last.next = l.next
		return nil
	}
	return &Refusal{
		What:   fmt.Sprintf("the log in %s ends at position %d but has reached %d before", l.dir, l.next-1, reached),
		Repair: fmt.Sprintf("restore the folder from a backup, since acknowledged messages are missing, or start once with --accept-loss %d-%d", l.next, reached),
	}
}

// prepare makes the log's end ready for Append.
func (l *Segments) prepare() error {
	last := l.all[len(l.all)-1]
	l.began = time.Now()
	l.spare.path, l.spare.size, l.spare.space = l.path(spareName), l.o.size, l.space()
	if err := os.Remove(l.spare.path); err != nil && !errors.Is(err, fs.ErrNotExist) { // a killed process left it
		return err
	}
	f, err := os.OpenFile(last.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	l.file = f
	if !last.sealed && last.end < last.size {
		if err := l.cut(last); err != nil {
			return err
		}
	}
	// A killed process may have written an envelope without syncing it. After this start its
	// records count as stored and are acknowledged, so make them durable now.
	if !l.o.off.resync {
		if err := l.rewrite(last); err != nil {
			return err
		}
		if err := l.sync(f); err != nil {
			return err
		}
	}
	if last.sealed {
		return l.begin(last)
	}
	if l.o.off.resync {
		return nil
	}
	if err := writer.SyncFolder(l.dir); err != nil {
		return err
	}
	l.mark.Position.Store(l.next - 1)
	return l.mark.Save()
}

// rewrite writes again what the last segment has behind the mark. If an fsync has failed before this start, the
// kernel takes those bytes for clean, and another fsync alone would not bring them to the disk.
func (l *Segments) rewrite(last *segment) error {
	slots := l.slots
	switch {
	case last.sealed && l.mark.Written+1 >= last.next:
		return nil // only of its footer
	case last.sealed:
		var err error
		if slots, err = l.indexOf(last, l.file); err != nil {
			return err
		}
	}
	at := int64(0)
	if durable := l.mark.Written + 1; durable > last.first {
		slots, at = slots[min(durable-last.first, uint64(len(slots))):], last.end
	}
	if i := slices.IndexFunc(slots, func(s slot) bool { return s.at > 0 }); at > 0 && i >= 0 {
		at = int64(slots[i].at)
	}
	b := make([]byte, min(last.size-at, zeroBytes))
	for at < last.size {
		n, err := l.file.ReadAt(b[:min(int64(len(b)), last.size-at)], at)
		if n == 0 {
			if err == io.EOF { // a header that was lost
				return nil
			}
			return err
		}
		if _, err := l.file.WriteAt(b[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// cut removes a torn write from the end of the last segment, and keeps its bytes in a file.
func (l *Segments) cut(last *segment) error {
	torn := make([]byte, last.size-last.end)
	if _, err := l.file.ReadAt(torn, last.end); err != nil {
		return err
	}
	kept := l.path(tornPrefix + strconv.FormatUint(last.next, 10))
	if err := writer.WriteSynced(kept, torn); err != nil {
		return err
	}
	if err := l.file.Truncate(last.end); err != nil {
		return err
	}
	l.o.Logger.Warn("the end of the log cannot be read and is cut off: a write that was interrupted, or damage of the last second before", "position", last.next,
		"file", last.path, "offset", last.end, "bytes", len(torn), "clients", clientsIn(torn[min(frameHead, len(torn)):]), "kept", kept)
	l.size.Add(-int64(len(torn)))
	last.size = last.end
	return nil
}
