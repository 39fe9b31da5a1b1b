package http1

import (
	"io"
	"net/http"
	"reflect"
	"runtime"
)

// requestBody is a body that is in memory: a block under the methods of a body. It reads
// from what the engine has read, so it is closed when the handler has returned.
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
		err = io.EOF // with the last bytes, as from net/http
	}
	if n == len(p) && n > 0 && !a.asked { // one reader reads it all; asking takes a microsecond
		a.asked, a.limited = true, limitReads()
	}
	return n, err
}

// Close drops the rest.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer != nil {
		b.answer.closeBody()
	}
	return nil
}

func (a *answer) closeBody() { a.body, a.bodyClosed = nil, true }

// http.MaxBytesReader tells net/http's own ResponseWriter about a body that is too large,
// by a method that nobody else can have: the connection closes after the answer. Two
// signs make up for it: the reader's own error, where it has become the request's Body, and
// the status 413 after reads by such a reader.

// overLimit reports whether the handler's http.MaxBytesReader has met its limit.
func (a *answer) overLimit() bool {
	if a.limited && a.status == http.StatusRequestEntityTooLarge {
		return true
	}
	if body := a.req.Body; body != nil && body != a.given && reflect.TypeOf(body) == reflect.TypeOf(http.MaxBytesReader(nil, nil, 0)) {
		_, err := body.Read(nil) // repeats the error, and reads nothing
		_, over := err.(*http.MaxBytesError)
		return over
	}
	return false
}

// limitReads reports whether the body's caller is a http.MaxBytesReader.
func limitReads() bool {
	var pc [1]uintptr
	if runtime.Callers(3, pc[:]) == 0 {
		return false
	}
	frame, _ := runtime.CallersFrames(pc[:]).Next()
	return frame.Function == "net/http.(*maxBytesReader).Read"
}
