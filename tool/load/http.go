package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
// The request is the same every time, and made once. BenchmarkHTTPDecode: an answer
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
	request  []byte
	bodiless bool // answers to this method never have a body
	repeats  bool // a request may be sent again, as its method says (RFC 9110, 9.2.2)
	closes   bool // every request asks for the connection's end
	good     [mostCodes]bool
	length   int64 // of the body of a good answer; any: they differ
	limit    int64
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
	return h.target()
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
	t := &httpTarget{site: where, length: anyLength, limit: mostBody}
	if h.AnswerLimit > 0 {
		t.limit = h.AnswerLimit
	}
	if h.Length != 0 {
		t.length = max(h.Length, 0)
	}
	if err := t.accept(h.Statuses); err != nil {
		return nil, err
	}
	return t, t.compose(h)
}

// accept says which statuses are good.
func (t *httpTarget) accept(statuses []int) error {
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

// compose makes the request.
func (t *httpTarget) compose(h HTTP) error {
	method := h.Method
	switch {
	case method == "" && len(h.Body) > 0:
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	case !isToken(method) || method == http.MethodConnect:
		return badTarget(fmt.Sprintf("the method %q", method), "use GET, POST or the like")
	}
	if t.bodiless = method == http.MethodHead; t.bodiless && t.length > 0 {
		return badTarget("a length to expect of answers to HEAD", "leave it out: they have no body")
	}
	t.repeats = slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace}, method)
	header, host, err := t.header(h.Header)
	if err != nil {
		return err
	}
	if len(h.Body) > 0 || slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		header.Set("Content-Length", strconv.Itoa(len(h.Body)))
	}
	var asked httpHead
	asked.connection([]byte(strings.Join(header.Values("Connection"), ",")))
	t.closes = asked.closes
	t.request = append(t.head(method, host, header), h.Body...)
	return nil
}

// Caller makes one connection's codec.
func (t *httpTarget) Caller() Caller {
	return &httpCaller{target: t, headLeft: mostHead, bodyLeft: t.limit}
}
