package gateway

import (
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
)

// tail are the newest envelopes, so that readers that are not behind need not read the log.
type tail struct {
	envelopes []*delivery.Envelope // of consecutive positions
	bytes     int
	end       uint64 // position after the last one
}

// at returns the envelope at a position; nil: it is not in the tail.
func (t *tail) at(pos uint64) *delivery.Envelope {
	if i := len(t.envelopes) - int(t.end-pos); pos < t.end && i >= 0 {
		return t.envelopes[i]
	}
	return nil
}

// add notes an envelope that the log has stored. With no reader it costs nothing; else a copy.
func (r *readers) add(pos uint64, envelope []byte) {
	if !r.expects(pos) {
		return
	}
	from, newest := journal.Trust(envelope), new(delivery.Envelope)
	newest.Set(pos, from.Sum(), from.Size(), from.Count, from.RawRecords())
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	if pos != t.end { // another goroutine was faster
		return
	}
	t.envelopes = append(t.envelopes, newest)
	t.bytes += newest.Size()
	t.end++
	for t.bytes > tailBytes {
		t.bytes -= t.envelopes[0].Size()
		t.envelopes = append(t.envelopes[:0], t.envelopes[1:]...)
	}
	r.rouse()
}

// expects reports whether an envelope is to be added: there are readers, and it is neither known, nor of a shared log of
// which more is still to be read.
func (r *readers) expects(pos uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	if len(r.holders) == 0 {
		*t = tail{end: max(t.end, pos+1)}
		return false
	}
	return pos == t.end
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
