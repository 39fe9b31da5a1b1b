package route

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A hijackable is a ResponseWriter that can be hijacked.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, nil, nil }

// States are reused when a handler returns, with or without an error, but not after a panic or a
// hijack.
func TestStateReuse(t *testing.T) {
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
		for range 100 { // with -race, a pool drops items
			func() {
				defer func() { recover() }()
				mux.ServeHTTP(hijackable{httptest.NewRecorder(), mine}, httptest.NewRequest("GET", "/", nil))
			}()
			kept = kept || mux.states.Get() != nil
		}
		if kept != c.kept {
			t.Errorf("%s: the state was put back: %v", name, kept)
		}
	}
}
