package codec

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load/traffic"
)

// httpCodec sends the target's request, and parses answers incrementally: it buffers no more than
// the beginning of a line. It is strict where HTTP allows to be lenient, because a doubt about
// where an answer ends is a doubt about every later answer: no folded headers, no second length,
// no length with chunks, no transfer coding other than chunked, no transfer coding in HTTP/1.0, no
// bare line feeds within chunks.
type httpCodec struct {
	target *httpTarget
	asked  Queue[httpAsked] // unanswered requests, in order
	failed error            // the last failure, reused for an equal one so that it allocates nothing

	state    httpState
	headLeft int   // bytes that heads and trailers may still have
	bodyLeft int64 // bytes that the body may still have
	part     int64 // bytes of the body or chunk still to come
	size     int64 // bytes of the body so far
	head     httpHead
	known    knownHead

	keptHead, keptBody []byte // of the answer, if its request needs them
	seen               traffic.Answer
}

// httpAsked is an unanswered request.
type httpAsked struct {
	id      uint64
	request *httpRequest
}

// httpHead holds the parts of an answer's head that matter here.
type httpHead struct {
	status    int
	old       bool  // HTTP/1.0
	length    int64 // of the body; with hasLength
	hasLength bool
	chunked   bool
	closes    bool // Connection: close
	stays     bool // Connection: keep-alive
	last      bool
}

type httpState uint8

// The parser's states.
const (
	statusLine httpState = iota
	headerLine
	fixedBody
	chunkSize
	chunkBytes
	chunkEnd
	trailerLine
	bodyTillEnd
	allThere
)

// Status is the error for a status code that does not count as success.
type Status int

// Error names the status.
func (s Status) Error() string { return fmt.Sprintf("HTTP %d %s", int(s), http.StatusText(int(s))) }

func (c *httpCodec) AppendRequest(dst []byte, id uint64, _ []byte, s *traffic.Session) []byte {
	if s == nil {
		c.asked.Push(httpAsked{id, &c.target.plain})
		return append(dst, c.target.plain.whole...)
	}
	r := &c.target.steps[s.Request().Index]
	c.asked.Push(httpAsked{id, r})
	if r.whole != nil && !c.target.cookies {
		return append(dst, r.whole...)
	}
	return r.append(dst, s)
}

// Forget returns false: answers come in order.
func (c *httpCodec) Forget(uint64) bool { return false }

// Repeats reports whether the request is idempotent, and no byte of its answer has come.
func (c *httpCodec) Repeats(id uint64) bool {
	untouched := c.state == statusLine && c.headLeft == mostHead
	for i := range c.asked.Len() {
		if asked := c.asked.At(i); asked.id == id {
			return asked.request.repeats && (untouched || i > 0)
		}
	}
	return false
}

func (c *httpCodec) Decode(a *Answer, in []byte) (used int, err error) {
	if len(in) == 0 {
		return 0, c.end(a)
	}
	whole := c.state == statusLine && c.asked.Len() > 0 && !c.asked.First().request.wantsHead // in begins with a head
	if whole {
		if used, err = c.takeKnown(in); err != nil {
			return used, err
		}
		whole = used == 0
	}
	for used < len(in) && c.state != allThere {
		n, err := c.step(in[used:])
		if err != nil {
			return used, err
		}
		if n == 0 {
			break
		}
		if used += n; whole && c.state > headerLine {
			c.known.learn(in[:used], c.head)
			whole = false
		}
	}
	if c.state == allThere {
		c.answer(a)
	}
	return used, nil
}

// httpLength is the error for a body of an unexpected length.
type httpLength struct{ got, want int64 }

func (l httpLength) Error() string {
	return fmt.Sprintf("a body of %d bytes, not of %d", l.got, l.want)
}

// step parses one line, or a part of a body; it returns 0 when it needs more input.
func (c *httpCodec) step(in []byte) (int, error) {
	switch c.state {
	case statusLine:
		if c.asked.Len() == 0 {
			return 0, unasked("HTTP")
		}
		c.keptHead, c.keptBody = c.keptHead[:0], c.keptBody[:0]
		n, err := c.readStatus(in)
		return c.keepHead(in, n, err)
	case headerLine:
		n, err := c.readHeader(in)
		return c.keepHead(in, n, err)
	case chunkSize:
		return c.readChunkSize(in)
	case chunkEnd:
		return c.readChunkEnd(in)
	case trailerLine:
		return c.readTrailer(in)
	case bodyTillEnd:
		c.size += int64(len(in))
		c.keepBody(in)
		return len(in), c.takeBody(int64(len(in)))
	}
	n := min(int64(len(in)), c.part) // state fixedBody or chunkBytes
	c.part -= n
	c.size += n
	c.keepBody(in[:n])
	switch {
	case c.part > 0:
	case c.state == fixedBody:
		c.state = allThere
	default:
		c.state = chunkEnd
	}
	return int(n), nil
}

// keepHead keeps a line of the head if the request needs it. The fast path for known heads is not
// used then.
func (c *httpCodec) keepHead(in []byte, n int, err error) (int, error) {
	if n > 0 && err == nil && c.asked.First().request.wantsHead {
		c.keptHead = append(c.keptHead, in[:n]...)
	}
	return n, err
}

// keepBody keeps a piece of the body if the request needs it.
func (c *httpCodec) keepBody(in []byte) {
	if room := traffic.MostBody - len(c.keptBody); room > 0 && c.asked.First().request.wantsBody {
		c.keptBody = append(c.keptBody, in[:min(len(in), room)]...)
	}
}

// takeBody counts bytes of the body.
func (c *httpCodec) takeBody(n int64) error {
	if c.bodyLeft -= n; c.bodyLeft < 0 {
		return c.tooLong()
	}
	return nil
}

func (c *httpCodec) tooLong() error {
	return &Error{
		Kind: Garbage, What: fmt.Sprintf("the body of an answer is longer than the limit of %d bytes", c.target.limit),
		Try: "raise the limit of an answer, or ask for less",
	}
}

// headLine cuts off a line, without its end; n is 0 when the line is incomplete.
func (c *httpCodec) headLine(in []byte) (line []byte, n int, err error) {
	n = bytes.IndexByte(in, '\n') + 1
	if c.headLeft < max(n, 1) || n == 0 && len(in) > c.headLeft {
		return nil, 0, malformed("the head is longer than %d bytes", mostHead)
	}
	if n == 0 {
		return nil, 0, nil
	}
	c.headLeft -= n
	line = in[:n-1]
	if last := len(line) - 1; last >= 0 && line[last] == '\r' {
		line = line[:last]
	}
	return line, n, nil
}

// readStatus parses a line such as HTTP/1.1 200 OK.
func (c *httpCodec) readStatus(in []byte) (int, error) {
	const version = "HTTP/1."
	if begin := in[:min(len(in), len(version))]; string(begin) != version[:len(begin)] {
		return 0, notHTTP(in)
	}
	line, n, err := c.headLine(in)
	if n == 0 || err != nil {
		return 0, err
	}
	const least = len(version + "1 200")
	if len(line) < least || line[7] != '0' && line[7] != '1' || line[8] != ' ' || len(line) > least && line[least] != ' ' {
		return 0, malformed("it begins with %.60q", line)
	}
	status, err := strconv.ParseUint(string(line[9:least]), 10, 16)
	if err != nil || status < leastStatus {
		return 0, malformed("it begins with %.60q", line)
	}
	c.head, c.size = httpHead{status: int(status), old: line[7] == '0'}, 0
	c.state = headerLine
	return n, nil
}

// readHeader parses one header, or the empty line after the last one.
func (c *httpCodec) readHeader(in []byte) (int, error) {
	line, n, err := c.headLine(in)
	if n == 0 || err != nil {
		return 0, err
	}
	if len(line) == 0 {
		return n, c.beginBody()
	}
	name, value, err := field(line)
	if err != nil {
		return 0, err
	}
	switch len(name) {
	case len("connection"):
		if isNamed(name, "connection") {
			c.head.connection(value)
		}
	case len("content-length"):
		if isNamed(name, "content-length") {
			err = c.head.contentLength(value)
		}
	case len("transfer-encoding"):
		if isNamed(name, "transfer-encoding") {
			err = c.head.transferEncoding(value)
		}
	}
	return n, err
}

// field splits a header. It is strict, so that no reader can find another name in it.
func field(line []byte) (name, value []byte, err error) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || isBlank(line[0]) || isBlank(line[colon-1]) {
		return nil, nil, malformed("%.60q is no header", line)
	}
	return line[:colon], trimmed(line[colon+1:]), nil
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func trimmed(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// isNamed compares b with a name of ASCII letters, ignoring case. The lengths rule out the letters of
// more than one byte that fold to ASCII.
func isNamed(b []byte, name string) bool {
	return len(b) == len(name) && strings.EqualFold(string(b), name)
}

func (h *httpHead) connection(value []byte) {
	for more := true; more; {
		var option []byte
		option, value, more = bytes.Cut(value, []byte(","))
		option = trimmed(option)
		h.closes = h.closes || isNamed(option, "close")
		h.stays = h.stays || isNamed(option, "keep-alive")
	}
}

func (h *httpHead) contentLength(value []byte) error {
	if h.hasLength {
		return malformed("it has two headers Content-Length")
	}
	const mostDigits = 18 // always fits into an int64
	length, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil || len(value) > mostDigits {
		return malformed("its Content-Length is %.60q", value)
	}
	h.hasLength, h.length = true, int64(length)
	return nil
}

func (h *httpHead) transferEncoding(value []byte) error {
	if h.chunked || !isNamed(value, "chunked") {
		return malformed("its Transfer-Encoding is %.60q, where only one chunked was allowed", value)
	}
	h.chunked = true
	return nil
}

// beginBody runs after the empty line that ends the head.
func (c *httpCodec) beginBody() error {
	h := &c.head
	switch {
	case h.status == http.StatusSwitchingProtocols:
		return malformed("it switches protocols, and nobody has asked for that")
	case h.chunked && h.hasLength:
		return malformed("it has a Content-Length and is chunked")
	case h.chunked && h.old:
		return malformed("it is chunked, in HTTP/1.0")
	case h.status < 200:
		c.state = statusLine // a 1xx: the final answer is still to come
		return nil
	}
	h.last = h.closes || h.old && !h.stays || c.asked.First().request.closes
	switch {
	case c.asked.First().request.bodiless, h.status == http.StatusNoContent, h.status == http.StatusNotModified:
		c.state = allThere
	case h.chunked:
		c.state = chunkSize
	case !h.hasLength:
		c.state, h.last = bodyTillEnd, true
	case h.length == 0:
		c.state = allThere
	default:
		c.state, c.part = fixedBody, h.length
		return c.takeBody(h.length)
	}
	return nil
}

// mostChunkLine is the longest first line of a chunk.
const mostChunkLine = 4 << 10

// readChunkSize parses a chunk's first line. The claimed size counts against the limit at once.
func (c *httpCodec) readChunkSize(in []byte) (int, error) {
	n := bytes.IndexByte(in[:min(len(in), mostChunkLine)], '\n') + 1
	if n == 0 && len(in) < mostChunkLine {
		return 0, nil
	}
	if n < 2 || bytes.IndexByte(in[:n], '\r') != n-2 {
		return 0, malformed("a chunk begins with %.60q", in[:max(n, min(len(in), 60))])
	}
	digits, _, _ := bytes.Cut(in[:n-2], []byte(";"))
	size, ok := hexadecimal(bytes.TrimRight(digits, " \t"))
	if !ok {
		return 0, malformed("a chunk's size is %.60q", digits)
	}
	if size == 0 {
		c.state = trailerLine
		return n, c.takeBody(int64(n))
	}
	c.state, c.part = chunkBytes, size
	return n, c.takeBody(int64(n) + size + int64(len("\r\n")))
}

// hexadecimal takes 10 ns less than strconv.ParseUint.
func hexadecimal(digits []byte) (v int64, ok bool) {
	const most = 15 // hexadecimal digits that always fit into an int64
	for _, d := range digits {
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | int64(d)
	}
	return v, len(digits) > 0 && len(digits) <= most
}

func (c *httpCodec) readChunkEnd(in []byte) (int, error) {
	const end = "\r\n"
	if begin := in[:min(len(in), len(end))]; string(begin) != end[:len(begin)] {
		return 0, malformed("a chunk is longer than its size")
	}
	if len(in) < len(end) {
		return 0, nil
	}
	c.state = chunkSize
	return len(end), nil
}

// readTrailer skips the trailer after the last chunk.
func (c *httpCodec) readTrailer(in []byte) (int, error) {
	line, n, err := c.headLine(in)
	if n == 0 || err != nil {
		return 0, err
	}
	if len(line)+len("\r\n") != n {
		return 0, malformed("%.60q behind its chunks", in[:n])
	}
	if len(line) == 0 {
		c.state = allThere
		return n, nil
	}
	_, _, err = field(line)
	return n, err
}

// answer fills a with the complete answer.
func (c *httpCodec) answer(a *Answer) {
	asked := c.asked.Pop()
	a.ID, a.Code, a.Last = asked.id, uint16(c.head.status), c.head.last
	c.seen = traffic.Answer{Status: c.head.status, Head: c.keptHead, Body: c.keptBody, Length: c.size}
	a.Seen = &c.seen
	switch want := asked.request.length; {
	case !asked.request.good[c.head.status]:
		if status := Status(c.head.status); c.failed != status {
			c.failed = status
		}
		a.Err = c.failed
	case want != anyLength && c.size != want:
		if length := (httpLength{c.size, want}); c.failed != length {
			c.failed = length
		}
		a.Err, a.Wrong = c.failed, true
	}
	c.state, c.headLeft, c.bodyLeft = statusLine, mostHead, c.target.limit
}

// end runs when the server has ended the stream.
func (c *httpCodec) end(a *Answer) error {
	switch {
	case c.state == bodyTillEnd:
		c.answer(a)
	case c.state != statusLine:
		return &Error{
			Kind: Closed, Err: io.ErrUnexpectedEOF,
			What: fmt.Sprintf("the server truncated an answer, %d bytes into its body", c.size),
			Try:  "look into the server's log: it may have died, or its handler has failed",
		}
	}
	return nil
}
