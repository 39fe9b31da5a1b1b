package http1

import (
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
)

// requestBody is a request body held in memory. It is a block under the methods of a body.
// It reads from the engine's read buffer, so it is closed when the handler returns.
type requestBody block

func (b *requestBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.answer
	switch {
	case a == nil || a.bodyClosed:
		return 0, http.ErrBodyReadAfterClose
	case len(a.body) == 0:
		return 0, io.EOF
	}
	a.limiter.full = false // a reader that has reached its limit reads no more
	n = copy(p, a.body)
	if a.body = a.body[n:]; len(a.body) == 0 {
		err = io.EOF // together with the last bytes, as net/http does
	}
	if n == len(p) && n > 0 {
		a.limiter.filled(n < cap(p) && err == nil)
	}
	return n, err
}

// Close discards what is unread.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer != nil {
		b.answer.closeBody()
	}
	return nil
}

func (a *answer) closeBody() { a.body, a.bodyClosed = nil, true }

// http.MaxBytesReader tells net/http's own ResponseWriter that a body is too large, through
// an unexported method that no other type can have: net/http then closes the connection after
// the response. Three signs replace that call: the reader's own error, if the reader has become
// the request's Body; status 413 after such a reader has read; and limiter.full, for
// http.MaxBytesHandler, which puts the reader into a copy of the request.

// limiter is what is known of an http.MaxBytesReader between the handler and the body.
type limiter struct {
	asked  bool // one call read it all; asking who calls costs a microsecond
	reads  bool // there is one
	looked bool // whether it belongs to http.MaxBytesHandler
	within bool // it does
	// full reports that its last read was into a buffer that had been shortened, as it does to
	// one byte more than its limit, and filled it. A handler's own short buffer looks the same
	// until the next read.
	full bool
}

// filled is called when a read has filled its buffer. cut reports that the buffer could have
// been longer, and that there is more to read.
func (l *limiter) filled(cut bool) {
	if !l.asked {
		l.asked, l.reads = true, readsLimited()
	}
	if l.reads && cut {
		if !l.looked {
			l.looked, l.within = true, isWithinMaxBytesHandler()
		}
		l.full = l.within
	}
}

// overLimit reports whether the handler's http.MaxBytesReader has reached its limit.
func (a *answer) overLimit() bool {
	if a.limiter.full || a.limiter.reads && a.status == http.StatusRequestEntityTooLarge {
		return true
	}
	if body := a.req.Body; body != nil && body != a.given && reflect.TypeOf(body) == reflect.TypeOf(http.MaxBytesReader(nil, nil, 0)) {
		_, err := body.Read(nil) // returns the sticky error and reads nothing
		_, over := err.(*http.MaxBytesError)
		return over
	}
	return false
}

// readsLimited reports whether an http.MaxBytesReader called the body.
func readsLimited() bool {
	var pc [1]uintptr
	if runtime.Callers(4, pc[:]) == 0 {
		return false
	}
	frame, _ := runtime.CallersFrames(pc[:]).Next()
	return frame.Function == "net/http.(*maxBytesReader).Read"
}

// isWithinMaxBytesHandler reports whether http.MaxBytesHandler is among the callers. The compiler
// names its closure after the function that it was inlined into, but not its file.
func isWithinMaxBytesHandler() bool {
	var pcs [64]uintptr
	for skip := 4; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.Contains(f.Function, ".MaxBytesHandler.") && strings.HasSuffix(f.File, "net/http/server.go") {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
