package http1

import (
	"io"
	"net/http"
	"reflect"
	"runtime"
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
	n = copy(p, a.body)
	if a.body = a.body[n:]; len(a.body) == 0 {
		err = io.EOF // together with the last bytes, as net/http does
	}
	if n == len(p) && n > 0 && !a.asked { // one call read it all; asking costs a microsecond
		a.asked, a.limited = true, limitReads()
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
// the response. Two signs replace that call: the reader's own error, if the reader has become
// the request's Body, and status 413 after such a reader has read.

// overLimit reports whether the handler's http.MaxBytesReader has reached its limit.
func (a *answer) overLimit() bool {
	if a.limited && a.status == http.StatusRequestEntityTooLarge {
		return true
	}
	if body := a.req.Body; body != nil && body != a.given && reflect.TypeOf(body) == reflect.TypeOf(http.MaxBytesReader(nil, nil, 0)) {
		_, err := body.Read(nil) // returns the sticky error and reads nothing
		_, over := err.(*http.MaxBytesError)
		return over
	}
	return false
}

// limitReads reports whether an http.MaxBytesReader called the body.
func limitReads() bool {
	var pc [1]uintptr
	if runtime.Callers(3, pc[:]) == 0 {
		return false
	}
	frame, _ := runtime.CallersFrames(pc[:]).Next()
	return frame.Function == "net/http.(*maxBytesReader).Read"
}
