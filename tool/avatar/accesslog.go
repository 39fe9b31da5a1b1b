package avatar

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// An AccessLog writes a line of JSON for each request, later: a request leaves a
// binary record in one of several rings and goes on, in 40 ns and without
// allocating; writing it takes another 100 (BenchmarkAccessLog). When a ring is
// full its records are dropped and counted; no request ever waits for the log.
// Fill the fields, then use it; Close it when the last request has ended.
//
// A line has time (when the request's head had been read), method, uri, proto,
// status, bytes (of the body), us (how long it took), remote and cache: hit,
// made, 304, or nothing for anything other than a picture. "of":N stands in a line that
// stands for N requests, "cut":true beside a uri that was longer than 160 bytes.
type AccessLog struct {
	To io.Writer // required; it is used by one goroutine at a time

	// Sample keeps one in so many ordinary requests. Errors (a status from 400
	// up) and what took Slow or longer are always kept. 0 and 1: all.
	Sample int
	// Slow is from when on a request is not ordinary. 0: 100 ms.
	Slow time.Duration
	// Bytes is how much a ring holds until it is written; a record takes 32 bytes
	// and its texts. 0: 256 KiB.
	Bytes int

	once    sync.Once
	rings   [ringCount]ring
	wake    chan struct{} // something is there
	hurry   chan struct{} // there is much
	quit    chan struct{}
	ended   chan struct{}
	clock   clockText // the writer's
	written atomic.Uint64
	skipped atomic.Uint64
	failed  atomic.Uint64
}

// LogStats are what an AccessLog has counted.
type LogStats struct {
	Written uint64 // lines
	Skipped uint64 // ordinary requests that were not chosen
	Dropped uint64 // records for which there was no room
	Failed  uint64 // lines that could not be written
}

const (
	ringCount = 4 // a power of two
	// gather is how long records wait for others, so that one write has many.
	gather = 100 * time.Millisecond
	// enough is how much is written at once.
	enough = 64 << 10
	// soon is at how much in one ring the writer does not wait any longer: what is
	// read again while it is still in the processor's cache costs a tenth.
	soon = 4 << 10
)

// record is one request. In a ring it is head bytes and behind them its texts.
type record struct {
	wall   int64  // ns since 1970
	took   int64  // ns
	bytes  uint32 // of the body
	of     uint32 // requests that it stands for
	status uint16
	cache  outcome
	cut    bool
	http2  bool

	method, remote, uri []byte
}

const (
	head      = 8 + 8 + 4 + 4 + 2 + 1 + 1 + 1 + 3
	uriMost   = 160
	otherMost = 64 // of method and remote
)

// ring is filled by requests and emptied by the writer, who leaves an empty one
// in exchange.
type ring struct {
	mu      sync.Mutex
	records []byte
	dropped uint64
	_       [64]byte // the next one's cache line
}

func (l *AccessLog) start() {
	l.once.Do(func() {
		fill(&l.Bytes, 256<<10)
		fill(&l.Slow, 100*time.Millisecond)
		fill(&l.Sample, 1)
		for i := range l.rings {
			l.rings[i].records = make([]byte, 0, l.Bytes)
		}
		l.wake, l.hurry = make(chan struct{}, 1), make(chan struct{}, 1)
		l.quit, l.ended = make(chan struct{}), make(chan struct{})
		go l.run()
	})
}

// add notes a request that has been answered.
func (l *AccessLog) add(r *http.Request, at time.Time, took time.Duration, v *visit) {
	l.start()
	of := uint32(1)
	chance := rand.Uint32()
	if l.Sample > 1 && v.status < 400 && took < l.Slow {
		if chance%uint32(l.Sample) != 0 {
			l.skipped.Add(1)
			return
		}
		of = uint32(l.Sample)
	}
	g := &l.rings[chance>>16%ringCount]
	method, remote := cutBytes(r.Method, otherMost), cutBytes(r.RemoteAddr, otherMost)
	uri := r.RequestURI[:min(len(r.RequestURI), uriMost)]
	g.mu.Lock()
	n := len(g.records)
	if n+head+len(method)+len(remote)+len(uri) > cap(g.records) {
		g.dropped++
		g.mu.Unlock()
		return
	}
	b := g.records[:n+head]
	rec := b[n:]
	binary.LittleEndian.PutUint64(rec[0:], uint64(at.UnixNano()))
	binary.LittleEndian.PutUint64(rec[8:], uint64(took))
	binary.LittleEndian.PutUint32(rec[16:], uint32(v.bytes))
	binary.LittleEndian.PutUint32(rec[20:], of)
	binary.LittleEndian.PutUint16(rec[24:], uint16(v.status))
	flags := byte(v.cache)
	if len(r.RequestURI) > uriMost {
		flags |= isCut
	}
	if r.ProtoMajor == 2 {
		flags |= isHTTP2
	}
	rec[26], rec[27], rec[28], rec[29] = flags, byte(len(method)), byte(len(remote)), byte(len(uri))
	g.records = append(append(append(b, method...), remote...), uri...)
	now := len(g.records)
	g.mu.Unlock()
	switch {
	case n == 0:
		signal(l.wake)
	case n < soon && now >= soon:
		signal(l.hurry)
	}
}

// signal leaves a word in a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// The flags beside the outcome, of which there are four.
const (
	isCut   = 1 << 6
	isHTTP2 = 1 << 7
)

// read takes the first record off b.
func (rec *record) read(b []byte) (rest []byte) {
	rec.wall = int64(binary.LittleEndian.Uint64(b[0:]))
	rec.took = int64(binary.LittleEndian.Uint64(b[8:]))
	rec.bytes = binary.LittleEndian.Uint32(b[16:])
	rec.of = binary.LittleEndian.Uint32(b[20:])
	rec.status = binary.LittleEndian.Uint16(b[24:])
	rec.cache, rec.cut, rec.http2 = outcome(b[26]&3), b[26]&isCut != 0, b[26]&isHTTP2 != 0
	m, r, u := int(b[27]), int(b[28]), int(b[29])
	b = b[head:]
	rec.method, rec.remote, rec.uri = b[:m], b[m:][:r], b[m+r:][:u]
	return b[m+r+u:]
}

// run writes until the log is closed. While nothing happens, neither does this.
func (l *AccessLog) run() {
	defer close(l.ended)
	spare := make([]byte, 0, l.Bytes)
	line := make([]byte, 0, enough+1024)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-l.wake:
		case <-l.quit:
			l.drain(spare, line)
			return
		}
		timer.Reset(gather)
		select {
		case <-timer.C:
		case <-l.hurry:
		case <-l.quit:
		}
		spare = l.drain(spare, line)
	}
}

// drain writes what the rings have, and returns the last one's memory as spare.
func (l *AccessLog) drain(spare, line []byte) []byte {
	lines := uint64(0)
	var rec record
	for i := range l.rings {
		g := &l.rings[i]
		g.mu.Lock()
		full := g.records
		g.records = spare[:0]
		g.mu.Unlock()
		for left := full; len(left) > 0; {
			left = rec.read(left)
			line, lines = rec.appendTo(line, &l.clock), lines+1
			if len(line) >= enough {
				line, lines = l.flush(line, lines)
			}
		}
		spare = full
	}
	l.flush(line, lines)
	return spare
}

func (l *AccessLog) flush(line []byte, lines uint64) ([]byte, uint64) {
	if lines > 0 {
		if _, err := l.To.Write(line); err != nil {
			l.failed.Add(lines)
		} else {
			l.written.Add(lines)
		}
	}
	return line[:0], 0
}

// Close writes what is left. Requests that end afterwards are not logged.
func (l *AccessLog) Close() {
	l.start()
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	<-l.ended
}

// Stats reads the counters.
func (l *AccessLog) Stats() LogStats {
	st := LogStats{Written: l.written.Load(), Skipped: l.skipped.Load(), Failed: l.failed.Load()}
	for i := range l.rings {
		l.rings[i].mu.Lock()
		st.Dropped += l.rings[i].dropped
		l.rings[i].mu.Unlock()
	}
	return st
}

// clockText is a moment as text, of which the second is kept: there are many
// records in one.
type clockText struct {
	second int64
	text   []byte // up to the second's point
}

// appendTo appends a moment, given in ns since 1970.
func (c *clockText) appendTo(dst []byte, wall int64) []byte {
	second := wall / 1e9
	if second != c.second || c.text == nil {
		c.second = second
		c.text = time.Unix(second, 0).UTC().AppendFormat(c.text[:0], "2006-01-02T15:04:05.")
	}
	dst = append(dst, c.text...)
	micros := wall % 1e9 / 1e3
	for unit := int64(1e5); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+micros/unit%10))
	}
	return append(dst, 'Z')
}

// appendTo appends the record as a line of JSON, in 90 ns (BenchmarkAccessLogLine).
func (rec *record) appendTo(dst []byte, clock *clockText) []byte {
	dst = append(dst, `{"time":"`...)
	dst = clock.appendTo(dst, rec.wall)
	dst = append(dst, `","method":"`...)
	dst = appendJSON(dst, rec.method)
	dst = append(dst, `","uri":"`...)
	dst = appendJSON(dst, rec.uri)
	if rec.http2 {
		dst = append(dst, `","proto":"HTTP/2.0","status":`...)
	} else {
		dst = append(dst, `","proto":"HTTP/1.1","status":`...)
	}
	dst = strconv.AppendUint(dst, uint64(rec.status), 10)
	dst = append(dst, `,"bytes":`...)
	dst = strconv.AppendUint(dst, uint64(rec.bytes), 10)
	dst = append(dst, `,"us":`...)
	dst = strconv.AppendInt(dst, rec.took/1e3, 10)
	dst = append(dst, '.', byte('0'+rec.took/100%10))
	dst = append(dst, `,"remote":"`...)
	dst = appendJSON(dst, rec.remote)
	switch rec.cache {
	case nowhere:
		dst = append(dst, '"')
	case fromCache:
		dst = append(dst, `","cache":"hit"`...)
	case made:
		dst = append(dst, `","cache":"made"`...)
	case notModified:
		dst = append(dst, `","cache":"304"`...)
	}
	if rec.of > 1 {
		dst = strconv.AppendUint(append(dst, `,"of":`...), uint64(rec.of), 10)
	}
	if rec.cut {
		dst = append(dst, `,"cut":true`...)
	}
	return append(dst, "}\n"...)
}

// appendJSON appends text within quotes. What a client sent may be anything:
// all but plain ASCII is escaped, byte by byte, so that no line of the log can be
// made to look like two, or to speak to a terminal.
func appendJSON(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	done := 0
	for i, c := range text {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[done:i]...)
		done = i + 1
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(dst, text[done:]...)
}
