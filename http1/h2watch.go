package http1

import (
	"encoding/binary"
	"time"
)

// The types of HTTP/2's frames, and the flags that matter here (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings byte = 0, 1, 3, 4
	frameGoAway                                        byte = 7

	flagEnd, flagAck, flagPadded byte = 1, 1, 8
)

// What a client's frames may cost beyond the work that they ask for. The refill is 0.5% of a core at
// the 25 µs that a reset request takes; nghttp2 stops resets at 1,000 and 33 a second.
const (
	dueBurst  = 2000                 // so much at once
	dueRefill = 5 * time.Millisecond // and one more in this time
	dueSaved  = 1 << 20              // what answers have earned counts up to this much
)

// h2frames reads the heads of one direction's frames.
type h2frames struct {
	head [9]byte
	have int // bytes of the head
	left int // bytes of the payload that follow
}

// next reads p up to the end of a head or of a payload. begun reports that a head is complete.
func (f *h2frames) next(p []byte) (n int, begun bool) {
	if f.left > 0 {
		n = min(f.left, len(p))
		f.left -= n
		return n, false
	}
	n = copy(f.head[f.have:], p)
	if f.have += n; f.have < len(f.head) {
		return n, false
	}
	f.have, f.left = 0, f.size()
	return n, true
}

func (f *h2frames) size() int {
	return int(f.head[0])<<16 | int(binary.BigEndian.Uint16(f.head[1:]))
}

func (f *h2frames) kind() byte { return f.head[3] }

func (f *h2frames) has(flag byte) bool { return f.head[4]&flag != 0 }

// between reports whether a frame may be inserted here.
func (f *h2frames) between() bool { return f.have == 0 && f.left == 0 }

// h2verdict is what h2watch says of a connection.
type h2verdict uint8

const (
	h2Fine     h2verdict = iota
	h2Resized            // the client has changed the size of its header table after its first SETTINGS
	h2Flooding           // its frames cost more than dueBurst allows
)

// h2watch judges an HTTP/2 connection by the heads of its frames. It holds no payload.
//
// Each frame that asks for no answer costs one: a reset of either side (a client can provoke those of
// the server), PING, WINDOW_UPDATE, PRIORITY, CONTINUATION, DATA without data, unknown ones; SETTINGS
// cost 8, and one for each value. Answers earn: a client that reads may update its windows, and one
// that is answered may reset.
type h2watch struct {
	in, out h2frames
	begun   bool // the first SETTINGS have arrived
	entry   int  // bytes of the current entry of SETTINGS
	high    byte // the first of them
	found   h2verdict
	due     int
	at      time.Time // due is as of then
}

// received judges what the client has sent. n is less than len(p) if the connection must end
// after p[:n], which is the end of a frame. A late change of the table's size becomes an unknown
// setting in p, because it makes net/http of Go before 1.26.9 write to a map that a goroutine reads.
func (w *h2watch) received(p []byte, now time.Time) (n int, v h2verdict) {
	for n < len(p) {
		m, begun := w.in.next(p[n:])
		if begun {
			w.begins(now)
		} else if w.in.kind() == frameSettings && w.in.have == 0 {
			w.entries(p[n : n+m])
		}
		n += m
		if w.found != h2Fine && w.in.between() {
			v, w.found = w.found, h2Fine
			return n, v
		}
	}
	return n, h2Fine
}

// begins counts the client's frame whose head is complete.
func (w *h2watch) begins(now time.Time) {
	f, cost := &w.in, 1
	switch f.kind() {
	case frameHeaders:
		cost = 0
	case frameData:
		if f.has(flagEnd) || f.size() > 256 || f.size() > 0 && !f.has(flagPadded) {
			cost = 0
		}
	case frameSettings:
		if w.entry = 0; f.has(flagAck) {
			break
		}
		if cost = 8 + f.size()/6; !w.begun {
			w.begun, cost, w.entry = true, 0, firstSettings
		}
	}
	if cost == 0 {
		return
	}
	back := now.Sub(w.at) / dueRefill
	w.at = w.at.Add(back * dueRefill)
	w.due = max(min(w.due, 0), w.due-int(min(back, dueBurst)))
	w.costs(cost)
}

// firstSettings is a value of entry at which SETTINGS may say what they like.
const firstSettings = -1 << 30

func (w *h2watch) costs(n int) {
	if w.due += n; w.due > dueBurst {
		w.found = h2Flooding
	}
}

// entries looks for a change of the table's size.
func (w *h2watch) entries(p []byte) {
	if w.entry < 0 {
		return
	}
	for i, b := range p {
		switch w.entry % 6 {
		case 0:
			w.high = b
		case 1:
			if w.high == 0 && b == 1 {
				p[i] = 0xff // SETTINGS_HEADER_TABLE_SIZE becomes a setting that nobody knows
				w.found = max(w.found, h2Resized)
			}
		}
		w.entry++
	}
}

// sent counts what the server sends.
func (w *h2watch) sent(p []byte) {
	for len(p) > 0 {
		n, begun := w.out.next(p)
		p = p[n:]
		if !begun {
			continue
		}
		earned := 0
		switch w.out.kind() {
		case frameReset:
			w.costs(1)
		case frameHeaders:
			earned = 4
		case frameData:
			earned = 4 + w.out.size()/512
		}
		w.due = max(w.due-earned, -dueSaved)
	}
}

// Frames that are inserted into what the client sends, so that net/http ends the connection.
const (
	// h2Leaves is GOAWAY: net/http answers what it has and closes.
	h2Leaves = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	// h2Breaks is a PING on a stream: net/http sends GOAWAY, and closes a second later.
	h2Breaks = "\x00\x00\x08\x06\x00\x00\x00\x00\x01" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
)
