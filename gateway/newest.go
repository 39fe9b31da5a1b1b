package gateway

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/hone-go/hone/gateway/journal"
)

// tail are the newest envelopes, so that readers that are not behind need not read the log.
type tail struct {
	envelopes []*recent // of consecutive positions
	free      []*recent
	bytes     int
	end       uint64 // position after the last one
}

// recent is an envelope that was just stored, as readers that take everything get it.
type recent struct {
	pos    uint64
	sum    uint32
	frames []frame
	room   []byte // of their contents
	users  int    // feeders; readers.mu guards it and left
	left   bool   // the tail
}

// frame is the content of a Deliver.
type frame struct {
	first, through uint64
	content        []byte
}

func (t *tail) at(pos uint64) *recent {
	if i := len(t.envelopes) - int(t.end-pos); pos < t.end && i >= 0 {
		return t.envelopes[i]
	}
	return nil
}

// recycle keeps the memory of an envelope that has left the tail and that no feeder uses.
func (t *tail) recycle(from *recent) {
	if from.left && from.users == 0 && len(t.free) < keptPacks {
		t.free = append(t.free, from)
	}
}

// add notes an envelope that the log has stored. With no reader it costs nothing; else a copy.
func (r *readers) add(pos uint64, e journal.Envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	switch {
	case len(r.holders) == 0:
		t.envelopes, t.bytes, t.end = nil, 0, max(t.end, pos+1)
		return
	case pos != t.end: // known, or of a shared log and still to be read
		return
	}
	newest := &recent{}
	if n := len(t.free); n > 0 {
		newest, t.free = t.free[n-1], t.free[:n-1]
	}
	r.mu.Unlock()
	newest.encode(pos, e)
	r.mu.Lock()
	if pos != t.end { // another goroutine was faster
		return
	}
	t.envelopes = append(t.envelopes, newest)
	t.bytes += len(newest.room)
	t.end++
	for t.bytes > tailBytes {
		oldest := t.envelopes[0]
		t.bytes -= len(oldest.room)
		t.envelopes = t.envelopes[:copy(t.envelopes, t.envelopes[1:])]
		oldest.left = true
		t.recycle(oldest)
	}
	r.rouse()
}

// rouse lets feeders look at the holders that had everything; mu is held.
func (r *readers) rouse() {
	for h := range r.holders {
		if h.state == parked {
			h.state = blocked
			r.wake(h)
		}
	}
}

// encode makes the frames of an envelope, once for all readers.
func (from *recent) encode(pos uint64, e journal.Envelope) {
	from.pos, from.sum, from.frames, from.left = pos, e.Sum(), from.frames[:0], false
	first, begins := uint64(0), 0
	room := slices.Grow(from.room[:0], e.Size()+(recordHead-5)*e.Count+deliverHead*(e.Size()/(frameTarget/2)+1))
	cut := func(through uint64) {
		if content := room[begins:len(room):len(room)]; len(content) > 0 {
			from.frames = append(from.frames, frame{first, through, content})
			begins = len(room)
		}
	}
	for number, body := range numbered(pos, e) {
		if len(room)-begins+recordHead+len(body) > frameTarget {
			cut(number - 1)
		}
		if begins == len(room) {
			first = number
			room = beginDeliver(room, from.sum)
		}
		room = appendRecord(room, number, body)
	}
	cut(pos<<indexBits | lastIndex)
	from.room = room
}

// numbered yields the numbers and the bodies of an envelope's records.
func numbered(pos uint64, e journal.Envelope) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		number := pos << indexBits
		for body := range e.RawRecords() {
			if !yield(number, body) {
				return
			}
			number++
		}
	}
}

// records yields the same from the frames.
func (from *recent) records(yield func(uint64, []byte) bool) {
	for _, f := range from.frames {
		for rest := f.content[deliverHead:]; len(rest) > 0; {
			end := recordHead + int(binary.BigEndian.Uint32(rest[8:]))
			if !yield(binary.BigEndian.Uint64(rest), rest[recordHead:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

func beginDeliver(dst []byte, sum uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, deliverRecords), sum)
}

// fetch reads what other servers append to a shared log, while there are readers.
func (s *Server) fetch() {
	r := &s.readers
	for {
		r.mu.Lock()
		for len(r.holders) == 0 && !r.ended {
			r.work.Wait()
		}
		end, ended := r.tail.end, r.ended
		r.mu.Unlock()
		if ended {
			return
		}
		err := s.Log.Wait(r.ctx, end)
		if err == nil {
			err = s.Log.Read(r.ctx, end, decoded(func(pos uint64, e journal.Envelope) error {
				r.add(pos, e)
				return nil
			}))
		}
		next, _ := missing(err)
		switch {
		case next > 0:
			r.skip(next)
		case err != nil && r.ctx.Err() == nil:
			s.log.Warn("cannot read what others have appended", "err", err)
			sleep(r.ctx, s.retry)
		}
	}
}

// skip makes the tail begin at a position.
func (r *readers) skip(end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = tail{end: max(end, r.tail.end)}
	r.rouse()
}
