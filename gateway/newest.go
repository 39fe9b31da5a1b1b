package gateway

import (
	"github.com/hone-go/hone/gateway/internal/delivery"
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
	if e.left && e.users == 0 && len(t.free) < keptEnvelopes {
		e.left = false
		t.free = append(t.free, e)
	}
}

// keptEnvelopes is how many envelopes that have left the tail are kept for their memory.
const keptEnvelopes = 16
