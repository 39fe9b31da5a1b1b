package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A segment is one file of a log: a header, a frame for each envelope, and once it is sealed a
// footer with the offset and the checksum of each envelope. docs/log-format.md describes every byte.
//
// All checksums but the envelopes' own begin with the log's random id. So bytes that a client
// sends cannot pass for a frame, and bytes of another log do not either.
const (
	segmentMagic   = "HNSG"
	trailerMagic   = "HNSX"
	segmentVersion = 1
	segmentSuffix  = ".seg"
	segmentHead    = 40 // magic, version, id of the log, first position, sum of the previous trailer, checksum
	segmentTail    = 36 // magic, version, first position, count, end of the frames, checksum of the index, sum of the header, checksum
	frameHead      = 16 // length, position, checksum
	slotSize       = 8  // offset, checksum
	segmentBytes   = 64 << 20
	segmentFrames  = 1 << 18
	readAhead      = 256 << 10
)

// slot is where an envelope is, damaged or not, and its checksum. An offset of 0 means that the file does not
// have it. Lost envelopes in a row between two frames have one slot.
type slot struct{ at, sum uint32 }

// Damage says that envelopes are lost: First to Last cannot be read.
type Damage struct {
	First, Last uint64   // positions
	File        string   // path, "" in a cluster
	Offset      int64    // in File
	Clients     []string // that the damaged bytes seem to name, at most ten
	Err         error    // what is wrong
}

// Error names the positions, the file and the clients.
func (d *Damage) Error() string {
	text := fmt.Sprintf("journal: the envelope at position %d is lost", d.First)
	if d.Last > d.First {
		text = fmt.Sprintf("journal: the envelopes at positions %d to %d are lost", d.First, d.Last)
	}
	if d.File != "" {
		text += fmt.Sprintf(", %s at byte %d", d.File, d.Offset)
	}
	if len(d.Clients) > 0 {
		text += fmt.Sprintf(", with records of %q", d.Clients)
	}
	if d.Err != nil {
		text += ": " + d.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (d *Damage) Unwrap() error { return d.Err }

var (
	errHead      = errors.New("the frame's head is damaged")
	errNoFrame   = errors.New("this is not a frame")
	errEnvelope  = errors.New("the envelope does not match its checksum")
	errElsewhere = errors.New("its header says that it begins")
	errMissing   = errors.New("they are not in the file")
)

// logID tells the files of one log from those of another.
type logID [16]byte

func (id *logID) sum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(id[:], table), table, b)
}

// segment is what is known of one file.
type segment struct {
	path        string
	first, next uint64 // its positions; next is that of the next segment
	size        int64  // of the file
	end         int64  // of the frames
	chain       uint32 // sum of the header
	sum         uint32 // sum of the trailer
	sealed      bool
	lost        error // the header or the trailer is damaged
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// firstOf returns the first position of the segment with a file name; 0: it is not the name of a segment.
func firstOf(name string) uint64 {
	first, err := strconv.ParseUint(strings.TrimSuffix(name, segmentSuffix), 10, 64)
	if err != nil || name != segmentName(first) {
		return 0
	}
	return first
}

// header returns a segment's header. previous is the sum of the segment's before it.
func (id *logID) header(first uint64, previous uint32) []byte {
	b := append(make([]byte, 0, segmentHead), segmentMagic...)
	b = append(b, segmentVersion, 0, 0, 0)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint64(b, first)
	b = binary.BigEndian.AppendUint32(b, previous)
	return binary.BigEndian.AppendUint32(b, id.sum(b))
}

func (id *logID) footer(s *segment, slots []slot) (index, trailer []byte) {
	index = make([]byte, 0, slotSize*len(slots))
	for _, f := range slots {
		index = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(index, f.at), f.sum)
	}
	trailer = append(make([]byte, 0, segmentTail), trailerMagic...)
	trailer = append(trailer, segmentVersion, 0, 0, 0)
	trailer = binary.BigEndian.AppendUint64(trailer, s.first)
	for _, v := range []uint32{uint32(len(slots)), uint32(s.end), id.sum(index), s.chain} {
		trailer = binary.BigEndian.AppendUint32(trailer, v)
	}
	return index, binary.BigEndian.AppendUint32(trailer, id.sum(trailer))
}

// frame writes a frame to b, which has room for it.
func (id *logID) frame(b []byte, pos uint64, envelope []byte) []byte {
	b = binary.BigEndian.AppendUint32(b[:0], uint32(len(envelope)))
	b = binary.BigEndian.AppendUint64(b, pos)
	b = binary.BigEndian.AppendUint32(b, id.sum(b))
	return append(b, envelope...)
}

// readHeader reads the header of the segment s and learns its sum. previous is the sum that the header
// has of the segment before it. If id is zero, the header's becomes it.
func (s *segment) readHeader(f io.ReaderAt, id *logID) (previous uint32, err error) {
	var b [segmentHead]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0, fmt.Errorf("its header: %w", err)
	}
	known := *id
	if known == (logID{}) {
		copy(known[:], b[8:])
	}
	switch s.chain = binary.BigEndian.Uint32(b[36:]); {
	case string(b[:4]) != segmentMagic || s.chain != known.sum(b[:36]) || known != logID(b[8:24]):
		return 0, errors.New("its header is damaged, or of another log")
	case b[4] != segmentVersion:
		return 0, otherVersion("%s has version %d; this program reads version %d", s.path, b[4], segmentVersion)
	case binary.BigEndian.Uint64(b[24:]) != s.first:
		return 0, fmt.Errorf("%w at position %d", errElsewhere, binary.BigEndian.Uint64(b[24:]))
	}
	if *id == (logID{}) { // else others may read it
		*id = known
	}
	return binary.BigEndian.Uint32(b[32:]), nil
}

func (s *segment) readTrailer(f io.ReaderAt, id *logID) bool {
	var b [segmentTail]byte
	if s.size < segmentHead+segmentTail {
		return false
	}
	if _, err := f.ReadAt(b[:], s.size-segmentTail); err != nil {
		return false
	}
	count, end := binary.BigEndian.Uint32(b[16:]), int64(binary.BigEndian.Uint32(b[20:]))
	sum := binary.BigEndian.Uint32(b[32:])
	if string(b[:4]) != trailerMagic || id.sum(b[:32]) != sum || binary.BigEndian.Uint64(b[8:]) != s.first ||
		end+int64(count)*slotSize+segmentTail != s.size {
		return false
	}
	s.next, s.end, s.sum, s.sealed = s.first+uint64(count), end, sum, true
	return true
}

// readIndex returns the slots of a sealed segment. It scans the frames if the index is damaged.
func (s *segment) readIndex(f *os.File, id *logID) (slots []slot, damaged bool, err error) {
	if s.sealed {
		b := make([]byte, s.size-s.end) // the index and the trailer
		if _, err := f.ReadAt(b, s.end); err == nil {
			index, trailer := b[:len(b)-segmentTail], b[len(b)-segmentTail:]
			if id.sum(index) == binary.BigEndian.Uint32(trailer[24:]) {
				slots = make([]slot, len(index)/slotSize)
				for i := range slots {
					slots[i] = slot{binary.BigEndian.Uint32(index[i*slotSize:]), binary.BigEndian.Uint32(index[i*slotSize+4:])}
				}
				return slots, false, nil
			}
		}
	}
	found, err := s.scan(f, id)
	if err != nil {
		return nil, true, err
	}
	slots = found.slots
	for uint64(len(slots)) < s.next-s.first {
		slots = append(slots, slot{})
	}
	return slots[:s.next-s.first], true, nil
}

// whole returns an error unless b is an envelope that matches its checksum.
func whole(b []byte) error {
	_, err := header(b)
	if err == nil && checksum(b[:len(b)-trailerSize]) != sumOf(b) {
		err = errEnvelope
	}
	return err
}

func sumOf(envelope []byte) uint32 {
	return binary.BigEndian.Uint32(envelope[len(envelope)-trailerSize:])
}

// window reads a file forwards, up to limit.
type window struct {
	f     io.ReaderAt
	limit int64
	at    int64
	buf   []byte
}

// bytes returns n bytes from offset at, or fewer at the end. They are valid until the next call.
func (w *window) bytes(at, n int64) ([]byte, error) {
	n = max(min(n, w.limit-at), 0)
	if at < w.at || at > w.at+int64(len(w.buf)) {
		w.at, w.buf = at, w.buf[:0]
	}
	if at+n > w.at+int64(len(w.buf)) {
		kept := copy(w.buf, w.buf[at-w.at:])
		want := int(min(max(n, readAhead), w.limit-at))
		if w.buf = w.buf[:kept]; cap(w.buf) < want {
			w.buf = append(make([]byte, 0, max(want, 2*cap(w.buf))), w.buf...)
		}
		w.at = at
		got, err := w.f.ReadAt(w.buf[kept:want], at+int64(kept))
		w.buf = w.buf[:kept+got]
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
	from := at - w.at
	return w.buf[from:min(from+n, int64(len(w.buf)))], nil
}

// scanned is what a scan finds.
type scanned struct {
	slots []slot
	end   int64     // of the last frame
	holes []*Damage // frames whose envelopes are lost
	heads int       // damaged frame heads whose envelopes are not lost
}

// scan finds the frames of a segment by reading all of it. What follows the last frame is a torn
// write, a footer, or damage.
func (s *segment) scan(f io.ReaderAt, id *logID) (*scanned, error) {
	limit := s.size
	if s.sealed {
		limit = s.end
	}
	w, found, pos := &window{f: f, limit: limit}, &scanned{end: segmentHead}, s.first
	again := int64(0) // offset that was read a second time
	for found.end < limit {
		envelope, err := w.frame(found.end, pos, id)
		switch {
		case errors.As(err, new(*Refusal)): // it has another version
			return nil, err
		case err != nil && err != errHead && err != errEnvelope: // read error, or nothing that looks like a frame
			at, next, err := w.nextFrame(found.end, pos, id)
			if err != nil {
				return nil, err
			}
			if at == 0 {
				return found, nil
			}
			if again != found.end { // of a live log: it may have been written since it was read, and what follows too
				again, w.at, w.buf = found.end, found.end, w.buf[:0]
				continue
			}
			d, lost := &Damage{First: pos, Last: next - 1, File: s.path, Offset: found.end, Err: errHead}, slot{at: uint32(found.end)}
			if at == found.end { // their loss was accepted
				d.Err, lost = errMissing, slot{}
			}
			found.holes = append(found.holes, d)
			found.slots = append(found.slots, slices.Repeat([]slot{lost}, int(next-pos))...)
			found.end, pos = at, next
			continue
		case err == errEnvelope && again != found.end: // likewise
			again, w.at, w.buf = found.end, found.end, w.buf[:0]
			continue
		case err == errEnvelope:
			found.holes = append(found.holes, &Damage{First: pos, Last: pos, File: s.path, Offset: found.end, Clients: clientsIn(envelope), Err: err})
		case err == errHead:
			found.heads++
		}
		found.slots = append(found.slots, slot{uint32(found.end), sumOf(envelope)})
		found.end += frameHead + int64(len(envelope))
		pos++
	}
	return found, nil
}

// frame returns the envelope of the frame at offset at. errHead means that only the frame's head is damaged,
// errEnvelope that only the envelope is. With errNoFrame it returns what there is.
func (w *window) frame(at int64, pos uint64, id *logID) (envelope []byte, err error) {
	b, err := w.bytes(at, frameHead+headerSize)
	if err != nil {
		return nil, err
	}
	if len(b) < frameHead+headerSize {
		return nil, errMissing
	}
	var head error
	length := int(binary.BigEndian.Uint32(b))
	switch {
	case id.sum(b[:12]) != binary.BigEndian.Uint32(b[12:]):
		head = errHead
		length = headerSize + int(binary.BigEndian.Uint32(b[frameHead+12:])) + trailerSize
	case binary.BigEndian.Uint64(b[4:]) != pos: // those between were lost, and the log went on after them
		return nil, errNoFrame
	}
	if length < headerSize+trailerSize || length > MaxEnvelope {
		return nil, errNoFrame
	}
	if b, err = w.bytes(at+frameHead, int64(length)); err != nil {
		return nil, err
	}
	err = whole(b)
	switch {
	case err == nil:
		return b, head
	case errors.As(err, new(*Refusal)):
		return b, err
	case head != nil || len(b) < length:
		return b, errNoFrame
	}
	return b, errEnvelope
}

// nextFrame searches for the head of a frame after position pos, from offset at. It returns offset 0
// if there is none.
func (w *window) nextFrame(at int64, pos uint64, id *logID) (found int64, next uint64, err error) {
	for at+frameHead <= w.limit {
		b, err := w.bytes(at, readAhead)
		if err != nil || len(b) < frameHead {
			return 0, 0, err
		}
		for ; len(b) >= frameHead; b = b[1:] {
			next := binary.BigEndian.Uint64(b[4:])
			if next > pos && next-pos <= segmentFrames && id.sum(b[:12]) == binary.BigEndian.Uint32(b[12:]) {
				return at, next, nil
			}
			at++
		}
	}
	return 0, 0, nil
}

// clientsIn returns the clients that a damaged envelope seems to name.
func clientsIn(b []byte) []string {
	if len(b) < headerSize+trailerSize {
		return nil
	}
	b = append([]byte(nil), b...)
	body := b[:len(b)-trailerSize]
	binary.BigEndian.PutUint32(b[len(body):], checksum(body))
	e, err := Decode(b)
	if err != nil {
		return nil
	}
	var names []string
	for r := range e.Records() {
		if len(names) < 10 && !slices.Contains(names, r.Client) {
			names = append(names, r.Client)
		}
	}
	return names
}
