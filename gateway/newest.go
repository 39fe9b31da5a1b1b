package gateway

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/hone-go/hone/gateway/journal"
)

// tail are the newest envelopes, so that readers that are not behind need not read the log.
type tail struct {
	envelopes [][]byte // of consecutive positions
	bytes     int
	end       uint64 // position after the last one
}

// at returns the envelope at a position; nil: it is not in the tail.
func (t *tail) at(pos uint64) []byte {
	if i := len(t.envelopes) - int(t.end-pos); pos < t.end && i >= 0 {
		return t.envelopes[i]
	}
	return nil
}

// add notes an envelope that the log has stored. With no reader it costs nothing; else a copy.
func (r *readers) add(pos uint64, envelope []byte) {
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
	t.envelopes = append(t.envelopes, bytes.Clone(envelope))
	t.bytes += len(envelope)
	t.end++
	for t.bytes > tailBytes {
		t.bytes -= len(t.envelopes[0])
		t.envelopes = append(t.envelopes[:0], t.envelopes[1:]...)
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
			err = s.Log.Read(r.ctx, end, func(pos uint64, envelope []byte) error {
				if _, err := journal.DecodeAt(pos, envelope); err != nil {
					return err
				}
				r.add(pos, envelope)
				return nil
			})
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
