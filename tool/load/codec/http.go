package codec

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load/traffic"
)

// HTTP is a target that speaks HTTP/1.1 on persistent connections. HTTP/2 is not supported: over
// TLS, only http/1.1 is offered.
//
// An answer is good when its status is 2xx or 3xx, or one of Statuses; any other counts as Failed.
// A redirect is an answer and is not followed. Bodies are counted and not stored, so a plan cannot
// expect content; the target can expect a Length. An answer is matched to its request by order,
// and HTTP's own rules, applied strictly, show that it is complete. A Depth above 1 pipelines,
// which HTTP allows but many servers and most proxies handle badly: they answer one at a time, or
// not at all.
//
// A server may close a connection at any time, with an announcement (Connection: close, HTTP/1.0,
// a body that ends with the connection) or without. Run opens it again and counts it in
// Result.Reconnects. The handshake is part of no service time; in an open loop it is part of the
// response times of what came due meanwhile. If the server closes without a byte of the answer,
// Run retries the request once when its method is idempotent. Any other request fails as Closed.
//
// The request is the same every time, and encoded once, unless the plan has Traffic: its steps
// then have requests of their own, and URL gives the host and the defaults. BenchmarkHTTPDecode:
// an answer of 6 headers takes about 250 ns, or 55 ns when its head differs from the previous
// answer's only in the date; no allocations. BenchmarkWrkAgainstNginx: a request takes about as
// much CPU time as in wrk.
type HTTP struct {
	// URL is http://HOST[:PORT][/PATH][?QUERY], the same with https, or over a unix
	// socket http://unix:/SOCKET[:/PATH][?QUERY]. Required.
	URL string
	// Method is the request's method. Zero: GET, or POST if there is a Body.
	Method string
	// Header is sent as it is, in addition to Host (localhost for a unix socket), User-Agent:
	// hone, and the length of the Body. It can replace the first two.
	Header http.Header
	// Body is sent with every request.
	Body []byte
	// Statuses are the status codes that count as success. Zero: 200 to 399.
	Statuses []int
	// Length is how many bytes the body of every good answer must have; any other length is
	// counted as WrongContent. Zero: any length. Negative: no body.
	Length int64
	// AnswerLimit is the longest body accepted, including the framing of its chunks. Zero: 16 MiB.
	// It needs no memory.
	AnswerLimit int64
	// TLS is for https. If its ServerName is empty, the URL's host is used; its NextProtos are
	// ignored. Zero: the system's authorities.
	TLS *tls.Config
}

const (
	mostHead    = 64 << 10 // of an answer, including preceding 1xx answers
	leastStatus = 100
)

// httpTarget is a validated HTTP.
type httpTarget struct {
	site
	plain   httpRequest
	steps   []httpRequest // of the plan's Traffic
	cookies bool
	limit   int64
}

// httpRequest is a validated request, with what its answers must satisfy.
type httpRequest struct {
	whole    []byte // the encoded request, if it is always the same
	bodiless bool   // answers to this method never have a body
	repeats  bool   // the method is idempotent (RFC 9110, 9.2.2)
	closes   bool   // it has Connection: close
	good     [Codes]bool
	length   int64 // of the body of a good answer; any: not checked

	// The parts of a step's request, and which parts of its answers the step needs.
	method               string
	path, behind, body   traffic.Template // behind follows the path, without Content-Length and the empty line
	sized                bool             // it has a Content-Length
	wantsHead, wantsBody bool
}

const anyLength = -1

// Dial opens one connection, including the TLS handshake.
func (h HTTP) Dial(ctx context.Context) (net.Conn, error) {
	t, err := h.target()
	if err != nil {
		return nil, err
	}
	return t.Dial(ctx)
}

// Codec returns the state for one connection. It panics when the fields are invalid; Run reports
// that as an error before.
func (h HTTP) Codec() Codec {
	t, err := h.target()
	if err != nil {
		panic(err.Error())
	}
	return t.Codec()
}

// String returns the URL.
func (h HTTP) String() string { return public(h.URL) }

// Prepare encodes the requests.
func (h HTTP) Prepare(l Load) (Route, error) {
	if l.Chosen {
		return Route{}, badTarget("content of its own in a request of HTTP", "give it as the Body of the target, which is the same in all requests")
	}
	if l.Expect != nil || l.Echo {
		return Route{}, badTarget("content to expect of HTTP", "expect statuses, in the target's Statuses")
	}
	t, err := h.target()
	if err == nil && l.Traffic != nil {
		err = t.prepare(h, l.Traffic)
	}
	if err != nil {
		return Route{}, err
	}
	return t.Prepare(l)
}

func (h HTTP) target() (*httpTarget, error) {
	where, err := locate(h.URL, "http", "https", h.TLS)
	if err != nil {
		return nil, err
	}
	t := &httpTarget{site: where, limit: MostAnswer}
	if h.AnswerLimit > 0 {
		t.limit = h.AnswerLimit
	}
	return t, t.compose(h, &t.plain)
}

// accept sets the status codes that count as success.
func (t *httpRequest) accept(statuses []int) error {
	for _, status := range statuses {
		if status < leastStatus || status >= Codes {
			return badTarget(fmt.Sprintf("the status %d", status), "use 100 to 999")
		}
		t.good[status] = true
	}
	for status := 200; status < 400 && len(statuses) == 0; status++ {
		t.good[status] = true
	}
	return nil
}

// compose encodes a request.
func (t *httpTarget) compose(h HTTP, r *httpRequest) error {
	r.length = anyLength
	if h.Length != 0 {
		r.length = max(h.Length, 0)
	}
	if err := r.accept(h.Statuses); err != nil {
		return err
	}
	method := h.Method
	switch {
	case method == "" && len(h.Body) > 0:
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	case !isToken(method) || method == http.MethodConnect:
		return badTarget(fmt.Sprintf("the method %q", method), "use GET, POST or the like")
	}
	if r.bodiless = method == http.MethodHead; r.bodiless && r.length > 0 {
		return badTarget("a length to expect of answers to HEAD", "leave it out: they have no body")
	}
	r.method, r.repeats = method, slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace}, method)
	header, host, err := t.header(h.Header)
	if err != nil {
		return err
	}
	if len(h.Body) > 0 || slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		header.Set("Content-Length", strconv.Itoa(len(h.Body)))
	}
	var asked httpHead
	asked.connection([]byte(strings.Join(header.Values("Connection"), ",")))
	r.closes = asked.closes
	r.whole = append(t.head(method, host, header), h.Body...)
	return nil
}

// prepare makes the requests of steps. It composes their headers like any other's, with values
// left out; the text around the values becomes templates.
func (t *httpTarget) prepare(h HTTP, script *traffic.Script) error {
	t.cookies = script.Cookies()
	t.steps = make([]httpRequest, len(script.Requests()))
	for i, of := range script.Requests() {
		if err := t.prepareStep(h, of, &t.steps[i]); err != nil {
			return fmt.Errorf("step %s: %w", of.Name, err)
		}
	}
	return nil
}

func (t *httpTarget) prepareStep(h HTTP, of *traffic.Request, r *httpRequest) error {
	h.Method, h.Body, h.Header = of.Method, nil, http.Header{}
	if len(of.Statuses) > 0 {
		h.Statuses = of.Statuses
	}
	host := traffic.Literal(t.host)
	agent := traffic.Literal("User-Agent: hone\r\n")
	var fields []traffic.Template
	for _, f := range of.Header {
		text, isLiteral := f.Value.Literal()
		if err := checkHeader(f.Name, []string{string(text)}); err != nil {
			return err
		}
		name := http.CanonicalHeaderKey(f.Name)
		switch name {
		case "Host":
			host = f.Value
			continue
		case "User-Agent":
			agent = traffic.Template{}
		case "Connection":
			if !isLiteral {
				return badTarget("a value in the header Connection", "write it out")
			}
		}
		h.Header.Add(name, string(text))
		fields = append(fields, traffic.Join(traffic.Literal(name+": "), f.Value, traffic.Literal("\r\n")))
	}
	if err := t.compose(h, r); err != nil {
		return err
	}
	r.whole, r.wantsHead, r.wantsBody = nil, of.WantsHead, of.WantsBody
	if r.path, r.body = of.Path, of.Body; r.path.IsEmpty() {
		r.path = traffic.Literal(t.uri)
	}
	r.behind = traffic.Join(traffic.Literal(" HTTP/1.1\r\nHost: "), host, traffic.Literal("\r\n"), agent, traffic.Join(fields...))
	r.sized = !of.Body.IsEmpty() || slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.method)
	r.settle()
	return nil
}

// settle encodes the request once if it contains no values.
func (r *httpRequest) settle() {
	for _, t := range []*traffic.Template{&r.path, &r.behind, &r.body} {
		if _, ok := t.Literal(); !ok {
			return
		}
	}
	r.whole = r.append(nil, nil)
}

// append appends a step's request.
func (r *httpRequest) append(dst []byte, s *traffic.Session) []byte {
	dst = append(append(dst, r.method...), ' ')
	dst = r.path.Append(dst, s)
	dst = r.behind.Append(dst, s)
	if s != nil {
		dst = s.AppendCookies(dst)
	}
	if !r.sized {
		return append(dst, '\r', '\n')
	}
	const length, end = "Content-Length: ", "\r\n\r\n"
	var widest [20]byte
	room := len(strconv.AppendInt(widest[:0], int64(r.body.Most()), 10))
	dst = append(append(append(dst, length...), widest[:room]...), end...)
	from := len(dst)
	dst = r.body.Append(dst, s)
	digits := strconv.AppendInt(widest[:0], int64(len(dst)-from), 10)
	at := from - len(end) - room
	copy(dst[at:], digits)
	if spare := room - len(digits); spare > 0 { // the length has fewer digits than reserved: move the body
		copy(dst[from-len(end)-spare:], dst[from-len(end):])
		dst = dst[:len(dst)-spare]
	}
	return dst
}

// Codec returns the state for one connection.
func (t *httpTarget) Codec() Codec {
	return &httpCodec{target: t, headLeft: mostHead, bodyLeft: t.limit}
}

// Prepare returns the way to the target.
func (t *httpTarget) Prepare(Load) (Route, error) {
	r := t.route(t)
	r.Whole = true
	return r, nil
}
