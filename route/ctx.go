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

// A CtxFunc is a handler that gets its request and the means to answer it in one
// value. What is done with an error that it returns, [Mux.Error] says.
type CtxFunc func(Ctx) error

// A Ctx is one request, for as long as its handler runs. It is a handle of three
// words: what it leads to is used again for other requests, with another number.
// Each method compares the numbers, and panics when the Ctx was kept: with its
// pattern, where that was registered and where the Ctx is used now. So a Ctx never
// shows another request's data, however late and from whatever goroutine it is
// used. Where it was kept is not known; that would cost a stack for each request.
//
// It costs about 25 ns with one value read, and no allocation (BenchmarkCtx). Methods may be called from several
// goroutines at a time; the handler has to wait for them, or give them
// [Ctx.Detach].
type Ctx struct {
	state *state
	turn  uint64
	entry *entry // for those who come late
}

// A state is what a Ctx leads to. Its turn changes when a handler has returned;
// only who finds its own turn while holding mu may look at the rest.
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

// mostKept is how much room for values a state keeps for other requests.
const mostKept = 64

// serveCtx runs f with a Ctx that ends with it.
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

// fail has an error answered.
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

// begin starts a turn. The state is nobody's: who comes late reads the turn, and
// that has changed when the last one ended.
func (s *state) begin(w http.ResponseWriter, r *http.Request, p Params) Ctx {
	s.w, s.r, s.params = w, r, p
	return Ctx{s, s.turn, p.entry}
}

// end makes every Ctx of this turn stale, and reports whether the state may be
// used again: not after a panic, not when the connection was taken over.
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

// open locks the state of a Ctx that is not stale.
func (c Ctx) open() *state {
	s := c.state
	if s == nil {
		panic("route: a zero Ctx was used; use the one that the handler got")
	}
	s.mu.Lock()
	if s.turn != c.turn {
		c.stale()
	}
	return s
}

// stale panics for a Ctx that was kept.
func (c Ctx) stale() {
	c.state.mu.Unlock()
	panic(fmt.Sprintf("route: the Ctx of a request for %q (registered at %s) was used at %s after its handler had returned; "+
		"give what outlives the handler a Ctx.Detach", c.entry.text, c.entry.site, callSite()))
}

// Writer is where the answer is written. Like every [http.ResponseWriter] it must
// not be used when the handler has returned; this package cannot see that.
func (c Ctx) Writer() http.ResponseWriter {
	s := c.open()
	defer s.mu.Unlock()
	return s.w
}

// Request is the request.
func (c Ctx) Request() *http.Request {
	s := c.open()
	defer s.mu.Unlock()
	return s.r
}

// Params are the values of the pattern's wildcards. They may be kept.
func (c Ctx) Params() Params {
	s := c.open()
	p := s.params
	s.mu.Unlock()
	return p
}

// Param is the value of the wildcard with this name, or "".
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

// Get is the value that was stored under a key, or nil.
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

// NoContent answers with a status and nothing else.
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

// Bytes answers with content of a type.
func (c Ctx) Bytes(code int, contentType string, content []byte) error {
	w := c.answer()
	announce(w, contentType, len(content))
	w.WriteHeader(code)
	_, err := w.Write(content)
	return err
}

// JSON answers with v in JSON. When v cannot be encoded, nothing is answered yet.
func (c Ctx) JSON(code int, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("route: encoding the answer: %w", err)
	}
	return c.Bytes(code, "application/json", content)
}

func announce(w http.ResponseWriter, contentType string, size int) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(size))
}

// answer is Writer for one who writes.
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

// Hijack takes the connection over, like [http.ResponseController.Hijack]. The Ctx
// still ends with the handler; what it led to is not used again.
func (c Ctx) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.Writer()).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("route: taking the connection over: %w", err)
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

// Detached is a copy of a request for work that goes on when it has been
// answered. Nothing in it is shared with other requests.
type Detached struct {
	Request *http.Request // without its body; its context has the values, and does not end with the request
	Params  Params
	values  []value
}

// Get is the value that was stored under a key when the copy was made, or nil.
func (d Detached) Get(key string) any { return lookUp(d.values, key) }

// A StatusError is what a [CtxFunc] returns to answer with a status other than
// 500, and a text for the client.
type StatusError struct {
	Code int
	Text string
}

// Error is the status and the text.
func (e *StatusError) Error() string { return strconv.Itoa(e.Code) + " " + e.Text }
