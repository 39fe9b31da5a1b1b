package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/tool/load/traffic"
)

// HTTP is a target that speaks HTTP/1.1 on connections that stay open. HTTP/2 is
// not spoken: over TLS, http/1.1 is all that is offered.
//
// An answer is good when its status is 2xx or 3xx, or one of Statuses; any other
// is counted as Failed. Redirects are answers, and not followed. Bodies are
// counted and not kept, so a plan can expect no content, the target but a Length: an
// answer is verified as the right one by its order, and as whole by HTTP's own rules,
// which are taken strictly. A Depth above 1 pipelines, which HTTP allows and many servers and most
// proxies do not like: they answer one at a time, or not at all.
//
// A server may close a connection at any time, having said so (Connection:
// close, HTTP/1.0, a body that ends with the connection) or not. It is opened again,
// counted in Result.Reconnects, and its handshake is part of no service time; in
// an open loop it is part of the response times of what came due meanwhile. A
// request that the server closes without a byte of an answer is sent again where
// clients may do so: once, when the method is idempotent. Any other fails as Closed. TLS sessions are
// resumed where TLS has a ClientSessionCache.
//
// The request is the same every time, and made once, unless the plan has Traffic: its
// steps then have requests of their own, and URL says where and what else there is. BenchmarkHTTPDecode: an answer
// of 6 headers takes about 250 ns, 55 when its head is that of the answer before but
// for the date; no allocations. BenchmarkWrkAgainstNginx: of its CPU time a request
// takes about what it takes of wrk's.
type HTTP struct {
	// URL is http://HOST[:PORT][/PATH][?QUERY], the same with https, or over a unix
	// socket http://unix:/SOCKET[:/PATH][?QUERY]. Required.
	URL string
	// Address is the HOST:PORT to connect to instead of the URL's, which still names the host
	// in requests and certificates. Zero: the URL's.
	Address string
	// Method: zero is GET, or POST when there is a Body.
	Method string
	// Header is sent as it is, beside Host (localhost for a unix socket),
	// User-Agent: hone, and the length of the Body; the first two can be replaced.
	Header http.Header
	// Body is sent with every request.
	Body []byte
	// Statuses are those of good answers. Zero: 200 to 399.
	Statuses []int
	// Length is how many bytes the body of every good answer must have; another is
	// counted as WrongContent. Zero: any will do. Negative: it must have none.
	Length int64
	// AnswerLimit is the longest body accepted, the framing of its chunks included.
	// Zero: 16 MiB. It takes no memory.
	AnswerLimit int64
	// TLS is for https. Its ServerName is the URL's host when it has none, and its
	// NextProtos are not used. Zero: the system's authorities.
	TLS *tls.Config
}

const (
	mostHead    = 64 << 10 // of an answer, with what precedes it
	mostBody    = 16 << 20
	leastStatus = 100
)

// httpTarget is an HTTP that has been found to make sense.
type httpTarget struct {
	site
	plain   httpRequest
	steps   []httpRequest // of the plan's Traffic
	base    *url.URL      // where their redirects lead from
	cookies bool
	limit   int64
}

// httpRequest is a request that makes sense, and what its answers must be.
type httpRequest struct {
	whole    []byte // where it is the same every time
	bodiless bool   // answers to this method never have a body
	repeats  bool   // it may be sent again, as its method says (RFC 9110, 9.2.2)
	closes   bool   // it asks for the connection's end
	good     [mostCodes]bool
	length   int64 // of the body of a good answer; any: they differ

	// What a step's request is made of, and what of its answers the step wants.
	method               string
	path, behind, body   traffic.Template // behind is what follows the path, but for Content-Length and the empty line
	sized                bool             // it has a Content-Length
	wantsHead, wantsBody bool
}

const anyLength = -1

// Dial opens one connection, with its TLS handshake.
func (h HTTP) Dial(ctx context.Context) (net.Conn, error) {
	t, err := h.target()
	if err != nil {
		return nil, err
	}
	return t.Dial(ctx)
}

// Caller makes one connection's codec. It panics when the fields cannot be; Run
// finds that first, and says so in its error.
func (h HTTP) Caller() Caller {
	t, err := h.target()
	if err != nil {
		panic(err.Error())
	}
	return t.Caller()
}

// String returns the URL.
func (h HTTP) String() string { return public(h.URL) }

// prepared makes the target that a plan drives.
func (h HTTP) prepared(p Plan) (Target, error) {
	if p.Content != nil || p.Size != 0 {
		return nil, badTarget("content of its own in a request of HTTP", "give it as the Body of the target")
	}
	if p.Expect != nil || p.Echo {
		return nil, badTarget("content to expect of HTTP", "expect statuses, in the target's Statuses")
	}
	t, err := h.target()
	if err == nil && p.Traffic != nil {
		err = t.prepare(h, p.Traffic)
	}
	return t, err
}

// badTarget is the error for a target that cannot be, or not with the plan.
func badTarget(what, try string) *Error {
	return &Error{Kind: BadPlan, What: "the plan cannot have " + what, Try: try}
}

func (h HTTP) target() (*httpTarget, error) {
	where, err := locate(h.URL, h.Address, "http", "https", h.TLS)
	if err != nil {
		return nil, err
	}
	t := &httpTarget{site: where, limit: mostBody}
	if h.AnswerLimit > 0 {
		t.limit = h.AnswerLimit
	}
	return t, t.compose(h, &t.plain)
}

// accept says which statuses are good.
func (t *httpRequest) accept(statuses []int) error {
	for _, status := range statuses {
		if status < leastStatus || status >= mostCodes {
			return badTarget(fmt.Sprintf("the status %d", status), "use 100 to 999")
		}
		t.good[status] = true
	}
	for status := 200; status < 400 && len(statuses) == 0; status++ {
		t.good[status] = true
	}
	return nil
}

// compose makes a request.
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

// prepare makes the requests of steps. Their headers are composed as any other's, with
// their values left out; then what is before and after the values becomes templates.
func (t *httpTarget) prepare(h HTTP, script *traffic.Script) error {
	t.base, t.cookies = &url.URL{Scheme: "http", Host: t.host, Path: "/"}, script.Cookies()
	if t.tls != nil {
		t.base.Scheme = "https"
	}
	t.steps = make([]httpRequest, len(script.Requests()))
	for i, of := range script.Requests() {
		if err := t.prepareStep(h, of, &t.steps[i]); err != nil {
			return fmt.Errorf("step %s: %w", of.Name, err)
		}
		for status := 301; status <= 308 && script.Redirects(); status++ {
			t.steps[i].good[status] = true // the session knows what to do
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

// settle makes the request whole where no value is in it.
func (r *httpRequest) settle() {
	for _, t := range []*traffic.Template{&r.path, &r.behind, &r.body} {
		if _, ok := t.Literal(); !ok {
			return
		}
	}
	r.whole = r.append(nil, nil, nil, false)
}

// append appends a step's request.
func (r *httpRequest) append(dst []byte, s *traffic.Session, location []byte, get bool) []byte {
	method := r.method
	if get {
		method = http.MethodGet
	}
	dst = append(append(dst, method...), ' ')
	if len(location) > 0 {
		dst = append(dst, location...)
	} else {
		dst = r.path.Append(dst, s)
	}
	dst = r.behind.Append(dst, s)
	if s != nil {
		dst = s.AppendCookies(dst)
	}
	if !r.sized || get {
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
	if spare := room - len(digits); spare > 0 { // the body moves to where it would be with fewer digits
		copy(dst[from-len(end)-spare:], dst[from-len(end):])
		dst = dst[:len(dst)-spare]
	}
	return dst
}

// Caller makes one connection's codec.
func (t *httpTarget) Caller() Caller {
	return &httpCaller{target: t, headLeft: mostHead, bodyLeft: t.limit}
}
