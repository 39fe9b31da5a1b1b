package http1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/engine"
)

const (
	beforeChunking = 2 << 10  // a response that ends within this many bytes gets a Content-Length, as in net/http
	flushAt        = 64 << 10 // Turn.Out is flushed at this size
	partOfLong     = 16 << 10 // or at this size, if the response is known to be longer than twice this
)

// response is the http.ResponseWriter of one request: a block under its methods. A handler
// may keep it: once the handler has returned, every call panics, whatever is being served.
type response block

// answer is the state of a response that is being written. It is reused for other requests.
// Only the holder of block.mu may use it, and only while block.answer is set.
type answer struct {
	turn     *engine.Turn
	protocol *protocol
	req      *http.Request
	header   http.Header // the handler's; nil until it asks for one

	status      int
	wroteHeader bool // status and fields of the handler are final
	wroteHead   bool // the head is in Turn.Out
	wantsClose  bool // the request has Connection: close
	closes      bool // the connection closes after this response
	fullDuplex  bool
	chunked     bool
	ended       bool // the handler has returned
	hijacked    bool
	switched    bool // and the connection speaks another protocol from now on, or owes the answer
	freed       bool // the read buffer
	whole       bool // a late answer, which is sent at once

	fields   []headerField // the header as of WriteHeader, sorted by key
	known    [unknown]knownField
	prefixed bool // some keys start with http.TrailerPrefix
	date     dateLine
	trailers []string

	declared int64 // the Content-Length; -1 without one
	written  int64 // bytes of body that the handler has written
	pending  int   // bytes in buf
	buf      [beforeChunking]byte
	err      error
	deadline time.Time

	given      io.ReadCloser // the request's Body as the handler received it
	body       []byte        // the unread part
	bodyClosed bool
	limiter    limiter
	in         []byte
	used       int // in[used:] belongs to later requests
	flushes    int

	notify chan bool // CloseNotify's channel
}

func (a *answer) begin(t *engine.Turn, p *protocol, b *block, in []byte, used int) {
	a.turn, a.protocol, a.req, a.given = t, p, &b.req, b.req.Body
	a.in, a.used, a.declared = in, used, -1
	a.deadline = p.deadline()
}

// reset clears everything that belongs to the request.
func (a *answer) reset() {
	if a.header != nil {
		a.forgetFields()
	}
	a.turn, a.protocol, a.req, a.header, a.given = nil, nil, nil, nil, nil
	a.status, a.written, a.pending, a.err, a.flushes = 0, 0, 0, nil, 0
	a.wroteHeader, a.wroteHead, a.wantsClose, a.closes, a.fullDuplex = false, false, false, false, false
	a.switched, a.freed, a.whole = false, false, false
	a.chunked, a.ended, a.hijacked, a.bodyClosed, a.limiter = false, false, false, false, limiter{}
	a.body, a.in, a.trailers, a.notify = nil, nil, nil, nil
}

// begin locks the answer. It panics if the handler has returned: going on would write into
// the response of another request.
func (w *response) begin() *answer {
	w.mu.Lock()
	if w.answer == nil {
		w.mu.Unlock()
		name := cmp.Or(w.req.Pattern, w.url.Path)
		if !strings.Contains(name, " ") {
			name = w.req.Method + " " + name
		}
		panic("http1: ResponseWriter of " + name + " used after its handler returned")
	}
	return w.answer
}

func (w *response) Header() http.Header {
	a := w.begin()
	defer w.mu.Unlock()
	return a.headers()
}

func (a *answer) headers() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

func (w *response) WriteHeader(code int) {
	a := w.begin()
	switch {
	case a.hijacked || a.wroteHeader:
		w.mu.Unlock()
		what := "superfluous response.WriteHeader call"
		if a.hijacked {
			what = "response.WriteHeader on hijacked connection"
		}
		logCall(w.server, what)
	case code < 100 || code > 999:
		w.mu.Unlock()
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	default:
		a.writeHeader(code)
		w.mu.Unlock()
	}
}

// writeHeader makes status and fields final, or sends an informational response.
func (a *answer) writeHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		a.inform(code)
		return
	}
	a.wroteHeader, a.status = true, code
	if len(a.header) == 0 {
		return
	}
	a.snapshot()
	if length := a.known[contentLength].first; length != "" {
		if n, err := strconv.ParseInt(length, 10, 64); err == nil && n >= 0 {
			a.declared = n
		} else {
			a.protocol.server.report(mistaken, func() string { return fmt.Sprintf("http: invalid Content-Length of %q", length) })
			a.header.Del("Content-Length")
		}
	}
}

// inform sends a 1xx response at once.
func (a *answer) inform(code int) {
	a.snapshot()
	out := appendStatusLine(a.turn.Out, code)
	out = a.appendFields(out, 1<<contentLength|1<<transferEncoding)
	a.turn.Out = append(out, "\r\n"...)
	a.forgetFields()
	a.send()
}

func (w *response) Write(p []byte) (n int, err error) {
	a, err := w.beginWrite(len(p))
	if err == nil && len(p) > 0 {
		n, err = a.write(p)
	}
	return n, w.endWrite(len(p), err)
}

func (w *response) WriteString(s string) (n int, err error) {
	a, err := w.beginWrite(len(s))
	if err == nil && len(s) > 0 {
		n, err = a.writeString(s)
	}
	return n, w.endWrite(len(s), err)
}

// beginWrite locks the answer. Its error says why n more bytes of body cannot be written.
func (w *response) beginWrite(n int) (a *answer, err error) {
	a = w.begin()
	if a.hijacked {
		return a, http.ErrHijacked
	}
	if !a.wroteHeader {
		a.writeHeader(http.StatusOK)
	}
	if n == 0 {
		return a, nil
	}
	if !bodyAllowed(a.status) {
		return a, http.ErrBodyNotAllowed
	}
	a.written += int64(n)
	if a.declared != -1 && a.written > a.declared {
		return a, http.ErrContentLength
	}
	return a, a.err
}

// endWrite unlocks it.
func (w *response) endWrite(n int, err error) error {
	w.mu.Unlock()
	if err == http.ErrHijacked && n > 0 {
		logCall(w.server, "response.Write on hijacked connection")
	}
	return err
}

// write buffers p as bufio.Writer does, so that chunk boundaries are net/http's.
func (a *answer) write(p []byte) (n int, err error) {
	for len(p) > len(a.buf)-a.pending && a.err == nil {
		m := len(p)
		if a.pending == 0 {
			a.emit(p)
		} else {
			m = copy(a.buf[a.pending:], p)
			a.pending += m
			a.emitPending()
		}
		n, p = n+m, p[m:]
	}
	if a.err != nil {
		return n, a.err
	}
	a.pending += copy(a.buf[a.pending:], p)
	return n + len(p), nil
}

func (a *answer) writeString(s string) (n int, err error) {
	for len(s) > len(a.buf)-a.pending && a.err == nil {
		m := copy(a.buf[a.pending:], s)
		a.pending += m
		a.emitPending()
		n, s = n+m, s[m:]
	}
	if a.err != nil {
		return n, a.err
	}
	a.pending += copy(a.buf[a.pending:], s)
	return n + len(s), nil
}

// emitPending moves the buffered bytes to Turn.Out.
func (a *answer) emitPending() {
	if n := a.pending; n > 0 {
		a.pending = 0
		a.emit(a.buf[:n])
	}
}

// emit appends a part of the body to Turn.Out, as one chunk if the response is chunked.
func (a *answer) emit(p []byte) {
	if !a.wroteHead {
		a.writeHead(p)
	}
	if a.req.Method == http.MethodHead {
		return
	}
	if a.chunked {
		a.turn.Out = append(strconv.AppendInt(a.turn.Out, int64(len(p)), 16), "\r\n"...)
	}
	a.raw(p)
	if a.chunked {
		a.turn.Out = append(a.turn.Out, "\r\n"...)
	}
}

// raw appends p to Turn.Out and flushes it whenever it is full.
func (a *answer) raw(p []byte) {
	for a.err == nil {
		n := min(len(p), max(0, a.flushAt(len(p))-len(a.turn.Out)))
		a.turn.Out = append(a.turn.Out, p[:n]...)
		if p = p[n:]; len(p) == 0 {
			return
		}
		a.flush()
	}
}

// flushAt is how much Turn.Out may hold when n more bytes are about to come. A slow reader
// of a long response keeps two parts in memory: those of 2 000 readers fit into
// Limits.TotalOutput.
func (a *answer) flushAt(n int) int {
	if a.whole {
		return math.MaxInt
	}
	if max(a.declared, int64(n)) > 2*flushAt {
		return partOfLong
	}
	return flushAt
}

// flush writes Turn.Out to the peer and waits until the peer has accepted it.
func (a *answer) flush() error {
	if a.err == nil && a.late() {
		a.fail(os.ErrDeadlineExceeded)
	}
	if a.err != nil {
		return a.err
	}
	if a.flushes++; a.flushes == 2 { // a long response
		if err := a.freeInput(); err != nil {
			return err
		}
	}
	if err := a.turn.Flush(); err != nil {
		a.fail(err)
	} else if a.late() {
		a.fail(os.ErrDeadlineExceeded)
	}
	return a.err
}

// freeInput has the next Flush or Leave free the read buffer, once the body has been read.
func (a *answer) freeInput() error {
	if a.freed || len(a.body) > 0 {
		return nil
	}
	a.freed = true
	in, err := a.turn.More(a.used, 0)
	if err == nil {
		a.in, a.used = in, 0
	} else if !errors.Is(err, errors.ErrUnsupported) {
		a.fail(err)
		return err
	}
	return nil
}

// fail records why nothing more can be written.
func (a *answer) fail(err error) { a.err, a.closes = err, true }

// late reports whether the write deadline has passed.
func (a *answer) late() bool { return !a.deadline.IsZero() && !time.Now().Before(a.deadline) }

func (w *response) Flush() { w.FlushError() }

// FlushError sends everything written so far.
func (w *response) FlushError() error {
	a := w.begin()
	defer w.mu.Unlock()
	if a.hijacked {
		return http.ErrHijacked
	}
	if err := a.push(); err != nil {
		return err
	}
	return a.send()
}

// send is flush for a handler that may wait after it.
func (a *answer) send() error {
	if err := a.freeInput(); err != nil {
		return err
	}
	return a.flush()
}

// push moves everything written so far to Turn.Out.
func (a *answer) push() error {
	if !a.wroteHeader {
		a.writeHeader(http.StatusOK)
	}
	a.emitPending()
	if !a.wroteHead {
		a.writeHead(nil)
	}
	return a.err
}

// ReadFrom writes the contents of src. As in net/http, the first 512 bytes go through Write,
// to detect the Content-Type; the rest bypasses the buffer unless the response is chunked.
func (w *response) ReadFrom(src io.Reader) (n int64, err error) {
	const sniffed = 512
	a := w.begin()
	buffers := &a.protocol.copies
	buf, _ := buffers.Get().(*[32 << 10]byte)
	if buf == nil {
		buf = new([32 << 10]byte)
	}
	defer buffers.Put(buf)
	begun := a.wroteHead
	w.mu.Unlock()
	if !begun {
		n, err = io.CopyBuffer(onlyWriter{w}, io.LimitReader(src, sniffed), buf[:])
		if err != nil || n < sniffed {
			return n, err
		}
	}
	a = w.begin()
	if a.hijacked {
		w.mu.Unlock()
		return n, http.ErrHijacked
	}
	err = a.push()
	if err == nil && waits(src) {
		err = a.send()
	}
	raw := !a.chunked && bodyAllowed(a.status) && a.req.Method != http.MethodHead
	w.mu.Unlock()
	var to io.Writer = onlyWriter{w}
	if raw {
		to = rawWriter{w}
	}
	m, err := io.CopyBuffer(to, src, buf[:])
	return n + m, err
}

// onlyWriter hides all other methods from package io.
type onlyWriter struct{ io.Writer }

// rawWriter writes past the buffer, as net/http's sendfile does, up to the declared length.
type rawWriter struct{ w *response }

func (r rawWriter) Write(p []byte) (int, error) {
	a := r.w.begin()
	defer r.w.mu.Unlock()
	left := int64(len(p))
	if a.declared != -1 {
		left = min(left, max(0, a.declared-a.written))
	}
	a.written += left
	a.raw(p[:left])
	if a.err == nil && left < int64(len(p)) {
		return int(left), http.ErrContentLength
	}
	return int(left), a.err
}

// waits reports whether reading from src may block on something; then everything written so
// far is sent to the peer first. A source that can seek is a file or in memory.
func waits(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	if f, ok := src.(*os.File); ok {
		info, err := f.Stat()
		return err != nil || !info.Mode().IsRegular()
	}
	_, seeks := src.(io.Seeker)
	return !seeks
}

// EnableFullDuplex keeps the body readable while the response is being written.
func (w *response) EnableFullDuplex() error {
	w.begin().fullDuplex = true
	w.mu.Unlock()
	return nil
}

// SetReadDeadline does nothing: the whole body has arrived.
func (w *response) SetReadDeadline(time.Time) error {
	w.begin()
	w.mu.Unlock()
	return nil
}

// SetWriteDeadline makes writes fail after the deadline. A write that is already waiting for
// the peer at that moment may go on for up to Limits.StallTime.
func (w *response) SetWriteDeadline(deadline time.Time) error {
	w.begin().deadline = deadline
	w.mu.Unlock()
	return nil
}

// finish completes the response after the handler has returned. An error closes the
// connection.
func (a *answer) finish() error {
	switch {
	case a.switched:
		return errSwitched
	case a.hijacked:
		return engine.ClosedHere
	}
	a.ended = true
	if !a.wroteHeader {
		a.writeHeader(http.StatusOK)
	}
	a.emitPending()
	if !a.wroteHead {
		a.writeHead(nil)
	}
	if a.chunked && a.err == nil {
		a.turn.Out = append(a.turn.Out, "0\r\n"...)
		a.appendTrailers()
		a.turn.Out = append(a.turn.Out, "\r\n"...)
	}
	if form := a.req.MultipartForm; form != nil {
		form.RemoveAll()
	}
	if a.err == nil && a.late() {
		a.fail(os.ErrDeadlineExceeded)
	}
	switch why := engine.Reason(0); {
	case errors.As(a.err, &why):
		return why
	case a.err != nil:
		a.turn.Rollback()
		return engine.ClosedHere
	case a.closes || a.overLimit():
		return engine.ClosedHere
	case a.req.Method != http.MethodHead && a.declared != -1 && bodyAllowed(a.status) && a.declared != a.written:
		return engine.ClosedHere // too short: the peer still waits for the rest
	}
	return nil
}

// bodyAllowed reports whether a response with that status may have a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// appendTrailers writes the trailers that the handler declared, or set with
// http.TrailerPrefix.
func (a *answer) appendTrailers() {
	var trailers http.Header
	for key, values := range a.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers[name] = values
		}
	}
	for _, key := range a.trailers {
		if trailers == nil {
			trailers = http.Header{}
		}
		for _, v := range a.header[key] {
			trailers.Add(key, v)
		}
	}
	keys := make([]string, 0, len(trailers))
	for key := range trailers {
		if isToken(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		for _, v := range trailers[key] {
			a.turn.Out = appendField(a.turn.Out, key, v)
		}
	}
}

// declareTrailers records the names in a Trailer field.
func (a *answer) declareTrailers(list string) {
	for name := range strings.SplitSeq(list, ",") {
		name = http.CanonicalHeaderKey(textproto.TrimString(name))
		if name != "" && !strings.HasPrefix(name, "If-") && !neverTrailers[name] {
			a.trailers = append(a.trailers, name)
		}
	}
}

// neverTrailers are the fields that RFC 9110 §6.5.1 excludes from trailers, in net/http's
// reading.
var neverTrailers = map[string]bool{
	"Authorization": true, "Cache-Control": true, "Connection": true, "Content-Encoding": true,
	"Content-Length": true, "Content-Range": true, "Content-Type": true, "Expect": true,
	"Host": true, "Keep-Alive": true, "Max-Forwards": true, "Pragma": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Range": true, "Realm": true, "Te": true, "Trailer": true, "Transfer-Encoding": true,
	"Www-Authenticate": true,
}

// CloseNotify returns a channel that receives a value when the peer disconnects.
func (w *response) CloseNotify() <-chan bool {
	a := w.begin()
	defer w.mu.Unlock()
	if a.notify == nil {
		c, left := (*requestContext)(w), make(chan bool, 1)
		a.notify = left
		context.AfterFunc(c.watch(), func() {
			if c.isServed() {
				left <- true
			}
		})
	}
	return a.notify
}

// logCall logs a call that has no effect, and its caller.
func logCall(s *Server, what string) {
	var pcs [16]uintptr
	callers := pcs[:runtime.Callers(2, pcs[:])]
	s.report(mistaken, func() string {
		frames := runtime.CallersFrames(callers)
		for {
			f, more := frames.Next()
			own := strings.HasPrefix(f.Function, "net/http.") || strings.HasPrefix(f.Function, "github.com/hone-go/hone/http1.(*response)") ||
				strings.HasPrefix(f.Function, "github.com/hone-go/hone/http1.logCall")
			if !own || !more {
				return fmt.Sprintf("http: %s from %s (%s:%d)", what, f.Function, path.Base(f.File), f.Line)
			}
		}
	})
}
