package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stream holds the events and their readers. Events are stored encoded, so that another
// reader costs one copy.
type stream struct {
	mu      sync.Mutex
	run     string // of this process: event ids of another run mean nothing here
	hello   []byte
	latest  []byte // the state: only the newest matters
	states  uint64 // number of states so far
	first   uint64 // the number of events[0]
	events  []event
	bytes   int
	readers map[*reader]bool
	closed  bool
}

// reader holds one of the places.
type reader struct {
	wake chan struct{} // there is something to read
	lost chan struct{} // closed when a newcomer has displaced it
	came time.Time
}

type event struct {
	at   time.Time
	text []byte
}

// encode encodes an event without its id.
func encode(kind string, v any) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + kind + "\ndata: ")
	lines := json.NewEncoder(&b)
	if err := lines.Encode(v); err != nil { // cannot fail: plain values only
		panic("page: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func (s *stream) begin(run string, hello []byte) {
	s.run, s.hello, s.first, s.readers = run, hello, 1, map[*reader]bool{}
}

// add appends an event and wakes the readers.
func (s *stream) add(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	number := s.first + uint64(len(s.events))
	text = append(fmt.Appendf(nil, "id: %s-%d\n", s.run, number), text...)
	s.events = append(s.events, event{now, text})
	s.bytes += len(text)
	drop := 0
	for drop < len(s.events) && (now.Sub(s.events[drop].at) > keptFor || s.bytes > keptBytes) {
		s.bytes -= len(s.events[drop].text)
		drop++
	}
	if drop > 0 {
		s.events = append([]event(nil), s.events[drop:]...)
		s.first += uint64(drop)
	}
	s.wake()
}

// replace makes text the state.
func (s *stream) replace(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = text
	s.states++
	s.wake()
}

// wake wakes every reader; a reader that is already signalled needs no second signal.
func (s *stream) wake() {
	for r := range s.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

// join adds a reader; nil if there are too many. When all places are taken, the reader
// that has had its place for longest loses it, but not within placeTime. A connection
// that nobody reads cannot be distinguished from a live one: the kernel buffers megabytes
// for it, and no write blocks for hours. A browser that loses its place reconnects and
// continues after the last event that it has.
func (s *stream) join(now time.Time) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.readers) >= mostReaders && !s.makeRoom(now) {
		return nil
	}
	r := &reader{wake: make(chan struct{}, 1), lost: make(chan struct{}), came: now}
	r.wake <- struct{}{}
	s.readers[r] = true
	return r
}

// makeRoom displaces a reader and reports whether it could.
func (s *stream) makeRoom(now time.Time) bool {
	var first *reader
	for r := range s.readers {
		if first == nil || r.came.Before(first.came) {
			first = r
		}
	}
	if now.Sub(first.came) < placeTime {
		return false
	}
	delete(s.readers, first)
	close(first.lost)
	return true
}

func (s *stream) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, r)
}

// position is how far a reader is: the numbers of the next event and of the state that it
// has. The zero value has seen nothing.
type position struct{ next, state uint64 }

// after returns the position after the event with this id.
func (s *stream) after(id string) position {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, digits, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || run != s.run || number >= s.first+uint64(len(s.events)) {
		return position{}
	}
	return position{next: number + 1}
}

// read appends what a reader at this position has not seen. A reader that has missed
// events gets everything from the start.
func (s *stream) read(dst []byte, at position) ([]byte, position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.next < s.first {
		dst = append(append(dst, "retry: 2000\n"...), s.hello...)
		at = position{next: s.first}
	}
	for _, e := range s.events[at.next-s.first:] {
		dst = append(dst, e.text...)
	}
	at.next = s.first + uint64(len(s.events))
	if at.state != s.states {
		dst = append(dst, s.latest...)
		at.state = s.states
	}
	if s.closed {
		dst = append(dst, encode("bye", struct{}{})...)
	}
	return dst, at, s.closed
}

// serveEvents streams until the reader leaves, is too slow, loses its place, or the page
// closes.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	reader := p.stream.join(time.Now())
	if reader == nil {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Retry-After", strconv.Itoa(int(placeTime/time.Second)))
		http.Error(w, fmt.Sprintf("%d readers connected within %v; try again later", mostReaders, placeTime), http.StatusServiceUnavailable)
		return
	}
	defer p.stream.leave(reader)
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{}) // the server's deadline would end the stream
	at := p.stream.after(r.Header.Get("Last-Event-ID"))
	alive := time.NewTicker(aliveTime)
	defer alive.Stop()
	var text []byte
	for ended := false; !ended; {
		select {
		case <-reader.wake:
			text, at, ended = p.stream.read(text[:0], at)
		case <-alive.C:
			text = append(text[:0], ": still here\n\n"...)
		case <-reader.lost:
			return
		case <-r.Context().Done():
			return
		}
		control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := w.Write(text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		if cap(text) > 1<<20 {
			text = nil // do not keep the large buffer of the replay
		}
	}
}
