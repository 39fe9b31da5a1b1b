package gateway

import (
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
)

// tail are the newest envelopes, so that readers that are not behind need not read the log.
type tail struct {
	envelopes []*recent // of consecutive positions
	free      []*recent
	bytes     int
	end       uint64 // position after the last one
}

// recent is an envelope of the tail; readers.mu guards users and left.
type recent struct {
	delivery.Envelope
	users int  // feeders
	left  bool // the tail
}

// use returns the envelope at a position to a feeder; nil: it is not in the tail.
func (t *tail) use(pos uint64) *recent {
	i := len(t.envelopes) - int(t.end-pos)
	if pos >= t.end || i < 0 {
		return nil
	}
	t.envelopes[i].users++
	return t.envelopes[i]
}

// recycle keeps the memory of an envelope that has left the tail and that no feeder uses.
func (t *tail) recycle(e *recent) {
	if e.left && e.users == 0 && len(t.free) < keptPacks {
		e.left = false
		t.free = append(t.free, e)
	}
}

// add notes an envelope that the log has stored. With no reader it costs nothing; else a copy.
func (r *readers) add(pos uint64, envelope []byte) {
	newest := r.room(pos)
	if newest == nil {
		return
	}
	from := journal.Trust(envelope)
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
		oldest := t.envelopes[0]
		t.bytes -= oldest.Size()
		t.envelopes = t.envelopes[:copy(t.envelopes, t.envelopes[1:])]
		oldest.left = true
		t.recycle(oldest)
	}
	r.rouse()
}

// room returns memory for an envelope; nil: it is not to be added. There is no reader, or it is known, or of a shared log of
// which more is still to be read.
func (r *readers) room(pos uint64) *recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tail
	switch n := len(t.free); {
	case len(r.holders) == 0:
		*t = tail{end: max(t.end, pos+1)}
		return nil
	case pos != t.end:
		return nil
	case n > 0:
		newest := t.free[n-1]
		t.free = t.free[:n-1]
		return newest
	}
	return new(recent)
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
