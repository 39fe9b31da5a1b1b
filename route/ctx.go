package route

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// A CtxFunc is a handler that gets the request and the means to answer it in one value.
// [Mux.Error] handles the errors that it returns.
type CtxFunc func(Ctx) error

// A Ctx is one request while its handler runs. It is a handle of three words: the state that
// it points to is reused for other requests, with a new generation number. Every method
// compares the generations, and panics if the Ctx was kept; the panic names the pattern, where
// it was registered and where the Ctx was used. So a Ctx never shows another request's data,
// however late and from whatever goroutine it is used. The panic cannot name the place where
// the Ctx was kept; that would cost a stack trace per request.
//
// A Ctx costs about 25 ns including the read of one value, and no allocation (BenchmarkCtx).
// Its methods may be called from several goroutines at the same time; the handler must wait
// for them, or give them a [Ctx.Detach].
type Ctx struct {
	state *state
	turn  uint64
	entry *entry // for the panic of a stale Ctx
}

// A state is what a Ctx points to. Its turn, the generation, changes when a handler returns.
// Only a caller that finds its own turn while holding mu may use the other fields.
type state struct {
	mu       sync.Mutex
	turn     uint64
	w        http.ResponseWriter
	r        *http.Request
	params   Params
	values   []value
	answered bool // by a method of Ctx
	hijacked bool
}

type value struct {
	key string
	is  any
}

// mostKept is the largest capacity for values that a state keeps for later requests.
const mostKept = 64

// serveCtx runs f with a Ctx that is valid until f returns.
func (m *Mux) serveCtx(f CtxFunc, w http.ResponseWriter, r *http.Request, p Params) {
	s, _ := m.states.Get().(*state)
	if s == nil {
		s = new(state)
	}
	c := s.begin(w, r, p)
	returned := false
	defer func() {
		if s.end(returned) {
			m.states.Put(s)
		}
	}()
	if err := f(c); err != nil {
		m.fail(c, err)
	}
	returned = true
}

// fail answers the request of a handler that returned err.
func (m *Mux) fail(c Ctx, err error) {
	if m.Error != nil {
		m.Error(c, err)
		return
	}
	var status *StatusError
	switch {
	case c.isAnswered():
	case errors.As(err, &status):
		http.Error(c.Writer(), status.Text, status.Code)
	default:
		http.Error(c.Writer(), http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

// begin starts a turn. No lock is needed: nobody owns the state, and a stale Ctx reads only
// the turn, which changed when the last one ended.
func (s *state) begin(w http.ResponseWriter, r *http.Request, p Params) Ctx {
	s.w, s.r, s.params = w, r, p
	return Ctx{s, s.turn, p.entry}
}

// end makes every Ctx of this turn stale, and reports whether the state may be reused: not
// after a panic or a hijack.
func (s *state) end(returned bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := returned && !s.hijacked
	s.turn++
	s.w, s.r, s.params, s.answered, s.hijacked = nil, nil, Params{}, false, false
	clear(s.values)
	s.values = s.values[:0]
	if cap(s.values) > mostKept {
		s.values = nil
	}
	return again
}

// open locks the state, or panics if the Ctx is stale.
func (c Ctx) open() *state {
	s := c.state
	if s == nil {
		panic("route: a zero Ctx was used; use the one that the handler received")
	}
	s.mu.Lock()
	if s.turn != c.turn {
		c.stale()
	}
	return s
}

// stale panics for a Ctx that was used after its handler returned.
func (c Ctx) stale() {
	c.state.mu.Unlock()
	panic(fmt.Sprintf("route: the Ctx of a request for %q (registered at %s) was used at %s after its handler had returned; "+
		"give what outlives the handler a Ctx.Detach", c.entry.text, c.entry.site, callSite()))
}

// Writer returns the writer of the response. Like every [http.ResponseWriter] it must not be
// used after the handler has returned; this package cannot detect that.
func (c Ctx) Writer() http.ResponseWriter {
	s := c.open()
	defer s.mu.Unlock()
	return s.w
}

// Request returns the request.
func (c Ctx) Request() *http.Request {
	s := c.open()
	defer s.mu.Unlock()
	return s.r
}

// Params returns the values of the pattern's wildcards. They may be kept.
func (c Ctx) Params() Params {
	s := c.open()
	p := s.params
	s.mu.Unlock()
	return p
}

// Param returns the value of the wildcard with this name, or "".
func (c Ctx) Param(name string) string { return c.Params().Get(name) }

// Set stores a value under a key until the handler returns.
func (c Ctx) Set(key string, v any) {
	s := c.open()
	defer s.mu.Unlock()
	for i := range s.values {
		if s.values[i].key == key {
			s.values[i].is = v
			return
		}
	}
	s.values = append(s.values, value{key, v})
}

// Get returns the value stored under a key, or nil.
func (c Ctx) Get(key string) any {
	s := c.open()
	defer s.mu.Unlock()
	return lookUp(s.values, key)
}

func lookUp(values []value, key string) any {
	for i := range values {
		if values[i].key == key {
			return values[i].is
		}
	}
	return nil
}

// NoContent answers with a status and an empty body.
func (c Ctx) NoContent(code int) error {
	c.answer().WriteHeader(code)
	return nil
}

// Text answers with text.
func (c Ctx) Text(code int, text string) error {
	w := c.answer()
	announce(w, "text/plain; charset=utf-8", len(text))
	w.WriteHeader(code)
	_, err := io.WriteString(w, text)
	return err
}

// Bytes answers with content of the given type.
func (c Ctx) Bytes(code int, contentType string, content []byte) error {
	w := c.answer()
	announce(w, contentType, len(content))
	w.WriteHeader(code)
	_, err := w.Write(content)
	return err
}

// JSON answers with v encoded as JSON. If v cannot be encoded, nothing is written.
func (c Ctx) JSON(code int, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("route: encode the response: %w", err)
	}
	return c.Bytes(code, "application/json", content)
}

func announce(w http.ResponseWriter, contentType string, size int) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(size))
}

// answer is Writer, and records that the Ctx has answered.
func (c Ctx) answer() http.ResponseWriter {
	s := c.open()
	defer s.mu.Unlock()
	s.answered = true
	return s.w
}

func (c Ctx) isAnswered() bool {
	s := c.open()
	defer s.mu.Unlock()
	return s.answered
}

// Hijack takes the connection over, like [http.ResponseController.Hijack]. The Ctx is still
// valid only until the handler returns; its state is not reused.
func (c Ctx) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.Writer()).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("route: hijack the connection: %w", err)
	}
	s := c.open()
	defer s.mu.Unlock()
	s.answered, s.hijacked = true, true
	return conn, buffered, nil
}

// Detach copies what may outlive the handler.
func (c Ctx) Detach() Detached {
	s := c.open()
	r, p, values := s.r, s.params, append([]value(nil), s.values...)
	s.mu.Unlock()
	own := r.Clone(context.WithoutCancel(r.Context()))
	own.Body = http.NoBody
	return Detached{Request: own, Params: p, values: values}
}

// Detached is a copy of a request, for work that continues after the response. It shares
// nothing with other requests.
type Detached struct {
	Request *http.Request // without its body; its context keeps the values but is not cancelled with the request
	Params  Params
	values  []value
}

// Get returns the value that was stored under a key when the copy was made, or nil.
func (d Detached) Get(key string) any { return lookUp(d.values, key) }

// A StatusError is an error for a [CtxFunc] to return: it answers with a status other than
// 500 and a text for the client.
type StatusError struct {
	Code int
	Text string
}

// Error returns the status and the text.
func (e *StatusError) Error() string { return strconv.Itoa(e.Code) + " " + e.Text }
