package http1

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/hone-go/hone/engine"
)

// The types of HTTP/2's frames, and the flags that matter here (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings byte = 0, 1, 3, 4
	frameGoAway, frameWindow, frameContinuation        byte = 7, 8, 9

	flagEnd, flagAck, flagEndHeaders, flagPadded byte = 1, 1, 4, 8
)

// What a client's frames may cost beyond the work that they ask for. The refill is 0.5% of a core at
// the 25 µs that a reset request takes; nghttp2 stops resets at 1,000 and 33 a second.
const (
	dueBurst = 2000                 // so much at once
	refill   = 5 * time.Millisecond // and one more in this time
	dueSaved = 1 << 20              // what answers have earned counts up to this much
)

// A connection whose frames make more work than lightWork, and one more each refill, is worked for in turns,
// as many at once as there are processors: 500 of them would else fill the scheduler's line with their
// goroutines, and each of everybody else's would wait at its end. A frame makes 1, and a head more by its size.
const (
	lightWork = 12
	workBytes = 64 // of a block of fields
)

// bucket is a level that falls by one each refill, down to zero.
type bucket struct {
	level int
	at    time.Time // it is as of then
}

// add raises the level, or lowers it.
func (b *bucket) add(n int) {
	if n > 0 {
		back := time.Since(b.at) / refill
		b.at = b.at.Add(back * refill)
		b.level = max(min(b.level, 0), b.level-int(min(back, dueBurst)))
	}
	b.level = max(min(b.level+n, dueBurst+1), -dueSaved)
}

// What is counted in Limits.TotalInput of what a connection makes net/http hold.
const (
	streamHolds = 16 << 10 // a stream that waits for its client: a goroutine, a request, a buffer
	usualHead   = 256      // the bytes of its head that come with that
	fieldHolds  = 32       // each byte more can be a field
	mostFields  = h2HeaderList
	resetHolds  = 16 << 10 // a handler that goes on after its stream was reset, beyond usualResets
	usualResets = 16
	fewHandlers = 100 // run at once, where net/http lets others wait in line
	holdStep    = 32 << 10
)

// Frames that are inserted into what the client sends, so that net/http acts on them.
const (
	// h2Leaves is GOAWAY: net/http answers what it has and closes.
	h2Leaves = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	// h2Resets, a stream's number and four zeros open its window by nothing: net/http resets the
	// stream and ends the handler's context, and the handler's reads and writes fail.
	h2Resets = "\x00\x00\x04\x08\x00"
)

// The two sides of a connection.
const fromClient, fromServer = 0, 1

// h2side is what one side sends.
type h2side struct {
	head  [9]byte
	have  int     // bytes of the head
	left  int     // bytes of the payload that follow
	word  [6]byte // a setting, a number, or how a block of header fields begins
	got   int     // bytes of word
	first int     // what this side may send of a new stream
}

// rest is what is left of the head or of the payload.
func (s *h2side) rest() int { return cmp.Or(s.left, len(s.head)-s.have) }

func (s *h2side) kind() byte { return s.head[3] }

func (s *h2side) has(flag byte) bool { return s.head[4]&flag != 0 }

func (s *h2side) stream() uint32 { return binary.BigEndian.Uint32(s.head[5:]) &^ (1 << 31) }

// between reports whether a frame has ended, and no CONTINUATION must follow.
func (s *h2side) between() bool {
	open := (s.kind() == frameHeaders || s.kind() == frameContinuation) && !s.has(flagEndHeaders)
	return s.have == 0 && s.left == 0 && !open
}

// h2lag is how far somebody lags behind the least rate.
type h2lag struct {
	bytes int // since the last look
	owed  time.Duration
}

// look counts a time, in which somebody waited for bytes that may take each. It returns waited.
func (g *h2lag) look(waited bool, d, each time.Duration) bool {
	g.owed = max(0, g.owed+d-time.Duration(min(float64(g.bytes)*float64(each), float64(endless))))
	if g.bytes = 0; !waited {
		g.owed = 0
	}
	return waited
}

// h2stream is a request whose answer has not ended.
type h2stream struct {
	window   [2]int   // what each side may send
	lag      [2]h2lag // of the body, and of the answer
	whole    bool     // the body has ended
	begun    bool     // there was a head of an answer, perhaps of 1xx
	answered bool     // there was another: from here on this may be a conversation
	heads    int      // blocks of fields: a head, and a trailer
	head     int      // bytes of theirs
	holds    int
}

// h2watch judges an HTTP/2 connection by its frames. It holds no payload.
//
// Each frame that asks for no answer costs one: a reset of either side (a client can provoke those of
// the server), PING, WINDOW_UPDATE, PRIORITY, CONTINUATION, DATA without data, unknown ones; SETTINGS
// cost 8, and one for each value. Answers earn: a client that reads may update its windows, and one
// that is answered may reset.
type h2watch struct {
	sides    [2]h2side
	streams  map[uint32]*h2stream
	conn     h2stream // number 0: its lag is that of a frame that has not ended
	ended    h2stream // all others
	newest   uint32
	settings int           // SETTINGS of the client
	found    engine.Reason // why the connection must end
	insert   string        // what net/http gets before the client's next frame
	due      bucket
	work     bucket
	holds    int // of all streams
	handlers int // that run
	gone     int // streams that were reset, whose handlers may go on or begin yet
}

func newWatch() h2watch {
	const first = 65535
	now := bucket{at: time.Now()}
	return h2watch{sides: [2]h2side{{first: first}, {first: first}}, conn: h2stream{window: [2]int{first, first}}, streams: map[uint32]*h2stream{}, due: now, work: now}
}

// of returns a stream.
func (w *h2watch) of(id uint32) *h2stream {
	if id == 0 {
		return &w.conn
	}
	return cmp.Or(w.streams[id], &w.ended)
}

// inserts reports whether insert goes here.
func (w *h2watch) inserts() bool { return w.insert != "" && w.sides[fromClient].between() }

// pass reads p up to the end of a head or of a payload. A late change of the table's size becomes an
// unknown setting in p, because it makes net/http of Go before 1.26.9 write to a map that a goroutine reads.
func (w *h2watch) pass(from int, p []byte) (n int) {
	s := &w.sides[from]
	n = min(s.rest(), len(p))
	w.conn.lag[from].bytes += n
	if s.left > 0 {
		w.payload(from, p[:n])
		s.left -= n
		return n
	}
	copy(s.head[s.have:], p)
	if s.have += n; s.have == len(s.head) {
		s.have, s.got, s.left = 0, 0, int(s.head[0])<<16|int(binary.BigEndian.Uint16(s.head[1:]))
		if w.due.add(w.price(from)); w.due.level > dueBurst {
			w.found = http2Flood
		}
		w.begins(from)
	}
	return n
}

// price is what the frame costs whose head is complete. Less than nothing: it earns.
func (w *h2watch) price(from int) int {
	s := &w.sides[from]
	switch kind := s.kind(); {
	case from == fromServer && kind <= frameHeaders:
		return -4 - s.left/512
	case from == fromServer && kind != frameReset, kind == frameHeaders,
		kind == frameData && (s.has(flagEnd) || s.left > 256 || s.left > 0 && !s.has(flagPadded)):
		return 0
	case kind == frameSettings && !s.has(flagAck):
		if w.settings++; w.settings == 1 {
			return 0
		}
		return 8 + s.left/6
	}
	return 1
}

// begins follows the streams.
func (w *h2watch) begins(from int) {
	s := &w.sides[from]
	id, kind := s.stream(), s.kind()
	if from == fromClient && kind == frameHeaders && id > w.newest {
		w.newest = id
		w.streams[id] = &h2stream{window: [2]int{w.sides[fromClient].first, w.sides[fromServer].first}}
	}
	st := w.of(id)
	defer w.count(st)
	if kind == frameData {
		st.window[from] -= s.left
		w.conn.window[from] -= s.left
		st.answered = st.answered || from == fromServer
	}
	switch {
	case kind == frameReset, from == fromServer && kind <= frameHeaders && s.has(flagEnd):
		if kind == frameReset && w.streams[id] != nil {
			w.gone++
		}
		delete(w.streams, id)
		st.head = 0
	case from == fromServer:
		st.begun = st.begun || kind == frameHeaders
	case kind <= frameHeaders:
		st.whole = s.has(flagEnd)
	}
	if from == fromServer {
		return
	}
	work := 1
	if kind == frameHeaders || kind == frameContinuation {
		work += s.left / workBytes
		if st != &w.ended {
			st.head += s.left
		}
		if kind == frameHeaders {
			st.heads++
		}
	}
	w.work.add(work)
}

// count counts what a stream holds: its head until it is answered, and the rest while it waits for its client.
func (w *h2watch) count(st *h2stream) {
	w.holds -= st.holds
	st.holds = 0
	if st.head > 0 {
		more := max(0, st.head-usualHead)
		st.holds = more + min(fieldHolds*more, st.heads*mostFields)
		if !st.whole && !st.answered || min(st.window[fromServer], w.conn.window[fromServer]) <= 0 {
			st.holds += streamHolds
		}
	}
	w.holds += st.holds
}

// payload reads a part of a payload.
func (w *h2watch) payload(from int, p []byte) {
	s := &w.sides[from]
	if s.kind() == frameData {
		w.of(s.stream()).lag[from].bytes += len(p)
		return
	}
	for i := 0; i < len(p) && s.got < len(s.word); i++ {
		s.word[s.got] = p[i]
		if s.got++; s.got == 2 && from == fromClient && w.settings > 1 && s.kind() == frameSettings && s.word[0] == 0 && p[i] == 1 {
			p[i] = 0xff // SETTINGS_HEADER_TABLE_SIZE becomes a setting that nobody knows
			if w.found == 0 {
				w.found = http2Resized
				w.insert += h2Leaves
			}
		}
		if s.got == len(s.word) || i+1 == s.left {
			w.reads(from)
		}
	}
}

// reads follows the windows, and notices when a handler answers.
func (w *h2watch) reads(from int) {
	s, to, st := &w.sides[from], 1-from, w.of(w.sides[from].stream())
	defer w.count(st)
	switch s.kind() {
	case frameSettings:
		s.got = 0
		if s.word[0] == 0 && s.word[1] == 4 {
			first := int(binary.BigEndian.Uint32(s.word[2:]))
			for _, st := range w.streams {
				st.window[to] += first - w.sides[to].first
			}
			w.sides[to].first = first
		}
	case frameWindow:
		st.window[to] += int(binary.BigEndian.Uint32(s.word[:]) &^ (1 << 31))
	case frameHeaders:
		st.answered = st.answered || from == fromServer && hasKnownStatus(s.word[:s.got])
	}
}

// hasKnownStatus reports whether a block of fields begins with a status that HPACK's table has from the
// start: 200 and a few others. None of them is 1xx, which net/http sends before the handler answers.
func hasKnownStatus(block []byte) bool {
	i := 0
	if block[0]>>5 == 1 { // a new size of the table
		for more := block[0] == 0x3f; more && i+1 < len(block); i++ {
			more = block[i+1] >= 0x80
		}
		i++
	}
	return i < len(block) && block[i] >= 0x88 && block[i] <= 0x8e
}
