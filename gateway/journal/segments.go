package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/gateway/internal/writer"
)

// SegmentsOptions are the settings of a log of segments. The zero value works.
type SegmentsOptions struct {
	// Reserve is how many bytes Append leaves free on the disk. It returns ErrNoSpace
	// rather than use them. 0 means 64 MiB.
	Reserve int64
	// MaxBytes is the size limit of the log. 0 means that only Reserve limits it.
	MaxBytes int64
	// SegmentTime ends a segment with the first Append after it, whatever the segment's size. 0: size alone does.
	SegmentTime time.Duration
	// AcceptLoss are positions whose loss an operator has accepted: if the log should end with
	// them and does not, it goes on after them.
	AcceptLoss Range
	// LockTime is how long to wait for a process that has the log to close it. 0: one second, in which one that was
	// killed ends.
	LockTime time.Duration
	// Logger gets what was found damaged or torn at the start. nil means no logging.
	Logger *slog.Logger

	size int64 // of a segment; 0: segmentBytes
	off  segmentGuards
}

// segmentGuards are safety checks that tests switch off, to show that each is needed.
type segmentGuards struct{ fsync, folders, resync, mark bool }

// tornPrefix begins the names of copies of torn ends that a start cut off.
const tornPrefix = "torn-"

// Segments is a Log on one machine, in a folder of files of 64 MiB. Append fsyncs each envelope
// before it returns. A start reads the last file, or none after a clean stop; damage in the others
// is found when they are read.
type Segments struct {
	dir       string
	o         SegmentsOptions
	id        logID
	readOnly  bool
	lock      *os.File
	folder    *os.File // dir, locked
	mark      *writer.Mark
	sequencer writer.Sequencer
	jobs      chan []byte // envelopes to store
	results   chan error
	writing   sync.WaitGroup
	size      atomic.Int64
	copied    uint64 // Status.Copied

	frame []byte // of Append's worker
	zeros int64  // how far the last segment's file has zeros on the disk that may not be in memory
	spare spare

	mu    sync.Mutex
	file  *os.File   // of the last segment; only Append's worker writes to it and replaces it
	all   []*segment // ascending
	slots []slot     // of the last segment, unless it is sealed
	next  uint64
	read  []index   // of the sealed segments that were read last
	began time.Time // when the last segment did, or this process

	missing  []*Damage // found at the start
	unmarked error     // why the mark cannot be read
	trimming sync.Mutex
}

// OpenSegments opens the log in the folder dir, or creates one if dir is empty or does not exist. It writes nothing to
// a folder that has no segments but other files, and returns a *Refusal that names them.
func OpenSegments(dir string, o SegmentsOptions) (*Segments, error) {
	return openSegments(dir, o, false)
}

// openSegments opens a log. A log that is open for reading only may be damaged, and another process
// may write to it: it has the envelopes of when it was opened, and locks and changes nothing.
func openSegments(dir string, o SegmentsOptions, readOnly bool) (*Segments, error) {
	o.Reserve, o.size = cmp.Or(o.Reserve, defaultReserve), cmp.Or(o.size, segmentBytes)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	l := &Segments{dir: dir, o: o, readOnly: readOnly}
	err := l.open()
	if err == nil {
		ended := error(nil)
		if readOnly {
			ended = errReadOnly
		}
		l.sequencer.Tell(l.next, ended)
		return l, nil
	}
	l.release()
	return nil, writer.About(dir, err)
}

func (l *Segments) path(name string) string { return filepath.Join(l.dir, name) }

// begin creates the segment after last and makes its name durable. The file gets its name once its header is on the disk.
func (l *Segments) begin(last *segment) error {
	s := &segment{path: l.path(segmentName(last.next)), first: last.next, next: last.next, size: segmentHead, end: segmentHead}
	f, err := l.spare.take(), error(nil)
	if l.zeros = 0; f != nil {
		l.zeros = l.spare.size
	} else if f, err = os.OpenFile(s.path+newSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(l.id.header(s.first, last.sum), 0); err != nil {
		return err
	}
	if _, err := s.readHeader(f, &l.id); err != nil {
		return err
	}
	if err := l.sync(f); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), s.path); err != nil {
		return err
	}
	if f, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil { // with its new name, which keep compares
		return err
	}
	if !l.o.off.folders {
		err = writer.SyncFolder(l.dir)
	}
	l.size.Add(segmentHead)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	l.all, l.slots = append(slices.Clip(l.all), s), nil
	l.spare.tried, l.began = false, time.Now()
	return err
}

// seal writes the footer of the last segment, which then never changes again. The trailer is written
// when the index is durable: a segment with a trailer whose index does not match is damaged, not torn.
func (l *Segments) seal() (*segment, error) {
	last := l.last()
	sealed := *last
	if err := l.file.Truncate(sealed.end); err != nil { // the zeros of a spare
		return nil, err
	}
	index, trailer := l.id.footer(&sealed, l.slots)
	for _, b := range [][]byte{index, trailer} {
		if _, err := l.file.WriteAt(b, sealed.size); err != nil {
			return nil, err
		}
		if err := l.sync(l.file); err != nil {
			return nil, err
		}
		sealed.size += int64(len(b))
	}
	if !sealed.readTrailer(l.file, &l.id) {
		return nil, fmt.Errorf("%s: the trailer that was written cannot be read", sealed.path)
	}
	l.size.Add(int64(len(index) + len(trailer)))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(slices.Clone(l.all[:len(l.all)-1]), &sealed)
	return &sealed, nil
}

func (l *Segments) last() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[len(l.all)-1]
}

func (l *Segments) sync(f *os.File) error {
	if l.o.off.fsync {
		return nil
	}
	return writer.DataSync(f)
}

// Append writes one envelope and waits until it is on the disk.
func (l *Segments) Append(ctx context.Context, envelope []byte) (uint64, error) {
	return l.append(ctx, envelope, l.room)
}

// AppendReserved is Append that may exceed MaxBytes and use half of the reserve.
func (l *Segments) AppendReserved(ctx context.Context, envelope []byte) (uint64, error) {
	return l.append(ctx, envelope, l.reserved)
}

// reserved refuses an envelope that would use more than half of the disk's reserve.
func (l *Segments) reserved(size int64) error {
	return space{l.dir, l.o.Reserve / 2, 0}.check(0, size+segmentTail+segmentHead)
}

func (l *Segments) append(ctx context.Context, envelope []byte, room func(size int64) error) (uint64, error) {
	if err := CheckHeader(envelope); err != nil {
		return 0, err
	}
	return l.sequencer.Append(ctx, func() (uint64, error) { return l.appendNext(ctx, envelope, room) })
}

func (l *Segments) appendNext(ctx context.Context, envelope []byte, room func(size int64) error) (uint64, error) {
	if err := l.mark.Err(); err != nil {
		return 0, l.sequencer.Breaks(err)
	}
	err := room(int64(len(envelope)))
	switch {
	case errors.Is(err, ErrNoSpace):
		return 0, err
	case err != nil:
		return 0, l.sequencer.Breaks(err)
	}
	pos := l.next // without l.mu: only store writes it
	l.jobs <- envelope
	select {
	case err = <-l.results:
	case <-ctx.Done(): // the disk hangs
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, l.sequencer.Breaks(err)
	}
	l.mark.Position.Store(pos)
	return pos, nil
}

var errReadOnly = errors.New("journal: the log is open for reading only")

// store writes one envelope. Until it returns, its bytes may or may not be in the log.
func (l *Segments) store(envelope []byte) error {
	last := l.last()
	aged := l.o.SegmentTime > 0 && time.Since(l.began) >= l.o.SegmentTime
	if n := int64(len(l.slots)); n > 0 && (aged || n >= segmentFrames || last.end+frameHead+int64(len(envelope)) > l.o.size) {
		sealed, err := l.seal()
		if err == nil {
			err = l.begin(sealed)
		}
		if err != nil {
			return err
		}
		last = l.last()
	}
	if !l.spare.tried && last.end > l.o.size/4 { // a small log needs none
		l.spare.prepare()
	}
	l.frame = l.id.frame(l.frame, l.next, envelope)
	if err := l.write(last.end); err != nil {
		return err
	}
	if err := l.sync(l.file); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = append(l.slots, slot{uint32(last.end), sumOf(envelope)})
	last.end += int64(len(l.frame))
	last.size = last.end
	l.next++
	last.next = l.next
	l.size.Add(int64(len(l.frame)))
	l.sequencer.Tell(l.next, nil)
	return nil
}

func (l *Segments) write(at int64) error {
	n := len(l.frame)
	padded := l.frame
	if end := at + int64(n); end < l.zeros { // the last page whole, so that the kernel need not read it
		padded = append(padded, make([]byte, -end&4095)...)
	}
	l.frame = padded[:n]
	_, err := l.file.WriteAt(padded, at)
	return err
}

// Status returns the size of the log, and what limits it.
func (l *Segments) Status() Status {
	st := Status{Size: l.size.Load(), Copied: l.copied}
	if st.Left = l.space().left(st.Size); st.Left == 0 {
		st.Full = l.space().check(st.Size, 1)
	}
	return st
}

func (l *Segments) space() space { return space{l.dir, l.o.Reserve, l.o.MaxBytes} }

// room refuses an envelope that would exceed MaxBytes or use the disk's reserve. It may be the first
// of a segment.
func (l *Segments) room(size int64) error {
	size += frameHead + segmentHead + segmentTail + int64(len(l.slots))*slotSize
	err := l.space().check(l.size.Load(), size)
	if errors.Is(err, ErrNoSpace) && l.spare.drop() {
		err = l.space().check(l.size.Load(), size)
	}
	return err
}

// Bounds returns the first position and the next one.
func (l *Segments) Bounds() (first, next uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sequencer.Over() == ErrClosed {
		return 0, 0, ErrClosed
	}
	return l.all[0].first, l.next, nil
}

// Wait returns when the envelope at position pos is stored.
func (l *Segments) Wait(ctx context.Context, pos uint64) error {
	return l.sequencer.Wait(ctx, pos)
}

// Trim deletes the oldest segments that have no position from to on. It does not hold up Append, and
// makes each deletion durable before the next, so that a crash leaves no gap.
func (l *Segments) Trim(ctx context.Context, to uint64) error {
	l.trimming.Lock()
	defer l.trimming.Unlock()
	if l.readOnly {
		return errReadOnly
	}
	for ctx.Err() == nil {
		l.mu.Lock()
		oldest := l.all[0]
		if l.sequencer.Over() != nil || len(l.all) == 1 || l.all[1].first > to {
			l.mu.Unlock()
			return nil
		}
		l.all = l.all[1:]
		l.mu.Unlock()
		if err := os.Remove(oldest.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.mu.Lock()
			l.all = append([]*segment{oldest}, l.all...) // else the next Trim leaves a gap
			l.mu.Unlock()
			return fmt.Errorf("journal: trim: %w", err)
		}
		if err := writer.SyncFolder(l.dir); err != nil {
			return fmt.Errorf("journal: trim: %w", err)
		}
		l.size.Add(-oldest.size)
	}
	return ctx.Err()
}

// Failed returns a channel that receives an error if the log fails between two Appends: its files
// were deleted or replaced, or the high-water mark cannot be written.
func (l *Segments) Failed() <-chan error { return l.mark.Ended }

// keep checks that the folder, the mark and the last segment are still those that this process uses.
func (l *Segments) keep() error {
	l.mu.Lock() // begin does not close the file meanwhile
	defer l.mu.Unlock()
	return cmp.Or(writer.Replaced(l.folder), writer.Replaced(l.mark.File), writer.Replaced(l.file))
}

// Close seals the last segment, so that the next start need not read it, and writes the high-water
// mark.
func (l *Segments) Close() error {
	ended := l.sequencer.Shut()
	if ended == ErrClosed {
		return nil
	}
	if l.readOnly {
		l.release()
		return nil
	}
	close(l.jobs)
	var err error
	if ended == nil {
		l.writing.Wait()
		l.spare.end()
		if len(l.slots) > 0 && l.reserved(0) == nil { // also at MaxBytes: Trim deletes only what is sealed
			_, err = l.seal()
		}
	}
	err = cmp.Or(err, l.mark.Halt())
	l.mark = nil
	l.release()
	return err
}

// release releases the resources of a log, which may be partly opened.
func (l *Segments) release() {
	l.spare.end()
	if l.mark != nil {
		l.mark.File.Close()
	}
	for _, f := range []*os.File{l.file, l.lock, l.folder} { // nil: it was not opened
		f.Close()
	}
}
