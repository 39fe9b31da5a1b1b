package route

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A hijackable is a ResponseWriter whose connection can be taken over.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, nil, nil }

// States go back to the pool when a handler returns, with an error or without, but
// not after a panic or when the connection was taken over.
func TestStatesThatGoBack(t *testing.T) {
	mine, theirs := net.Pipe()
	defer mine.Close()
	defer theirs.Close()
	for name, c := range map[string]struct {
		handle CtxFunc
		kept   bool
	}{
		"returned": {func(c Ctx) error { return c.NoContent(204) }, true},
		"error":    {func(c Ctx) error { return &StatusError{Code: 404} }, true},
		"panic":    {func(Ctx) error { panic(http.ErrAbortHandler) }, false},
		"hijack":   {func(c Ctx) error { _, _, err := c.Hijack(); return err }, false},
	} {
		var mux Mux
		mux.HandleCtx("/", c.handle)
		kept := false
		for range 100 { // under -race a pool drops some
			func() {
				defer func() { recover() }()
				mux.ServeHTTP(hijackable{httptest.NewRecorder(), mine}, httptest.NewRequest("GET", "/", nil))
			}()
			kept = kept || mux.states.Get() != nil
		}
		if kept != c.kept {
			t.Errorf("%s: the state went back is %v", name, kept)
		}
	}
}
