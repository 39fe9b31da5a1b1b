package torture

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
)

// target is the server, and what a good request to it is answered with.
type target struct {
	codec.Target
	plan       load.Plan
	kind       Kinds
	at         net.Addr
	host, path string      // of HTTP and WebSocket
	tls        *tls.Config // nil: no TLS
	content    []byte
	size       int                                                      // of a good request
	guard      func(network, address string, raw syscall.RawConn) error // nil: none
	hash       maphash.Seed
	known      answer       // nothing until it is learnt
	withMarks  answer       // the same, of requests with a mark
	http2      bool         // it serves the good request over HTTP/2 as well
	known2     [2]answer    // of which this is known: without a mark, and with one
	marks      bool         // every other client has a mark
	turn       atomic.Int64 // of clients
	profiles   string       // the URL of its goroutines; empty: not known
}

func newTarget(plan load.Plan, anywhere bool) (*target, error) {
	at, page, config, err := plan.Place()
	if err != nil {
		return nil, err
	}
	t := &target{Target: plan.Target, plan: plan, kind: Messages, at: at, tls: config, content: plan.Carried(), hash: maphash.MakeSeed()}
	if page != nil {
		t.host, t.path = page.Host, page.RequestURI()
	}
	switch plan.Target.(type) {
	case codec.HTTP:
		t.kind = HTTP
	case codec.WebSocket:
		t.kind = WebSocket
	}
	if !anywhere {
		t.guard = onlyPrivate
	}
	t.size = len(t.conn(false).Request(nil))
	return t, nil
}

// errPublic is the error for an address that is not private.
var errPublic = errors.New("not a private address; attack only servers that are yours, and then give --anywhere")

// onlyPrivate refuses to connect to an address that is not private, of this machine or of its link.
// It sees addresses after their names are resolved, at every dial.
func onlyPrivate(network, address string, _ syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	ip := at.Addr().Unmap()
	if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return nil
	}
	return fmt.Errorf("%s: %w", ip, errPublic)
}

// opener is target's Dial, Bare or Plain.
type opener func(*target, context.Context) (net.Conn, error)

// Dial opens a connection that is ready for requests, with TLS if the target speaks it, and with
// WebSocket's handshake.
func (t *target) Dial(ctx context.Context) (net.Conn, error) { return t.plan.Dial(ctx, t.guard) }

// Plain opens a connection without TLS, also to a target that speaks it.
func (t *target) Plain(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Control: t.guard}).DialContext(ctx, t.at.Network(), t.at.String())
}

// Bare opens a connection on which nothing has been sent yet, except for TLS's handshake.
func (t *target) Bare(ctx context.Context) (net.Conn, error) { return t.secure(ctx, t.tls) }

// HTTP2 is Bare for HTTP/2, with TLS's ALPN or prior knowledge.
func (t *target) HTTP2(ctx context.Context) (net.Conn, error) {
	config := t.tls.Clone()
	if config != nil {
		config.NextProtos = []string{"h2"}
	}
	nc, err := t.secure(ctx, config)
	if secured, ok := nc.(*tls.Conn); ok && secured.ConnectionState().NegotiatedProtocol != "h2" {
		nc.Close()
		return nil, errNoHTTP2
	}
	return nc, err
}

func (t *target) secure(ctx context.Context, config *tls.Config) (net.Conn, error) {
	nc, err := t.Plain(ctx)
	if err != nil || config == nil {
		return nc, err
	}
	secured := tls.Client(nc, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secured, nil
}

// open opens a connection for c within a time.
func (t *target) open(ctx context.Context, within time.Duration, open opener, c *Conn) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	nc, err := open(t, ctx)
	if err != nil {
		return err
	}
	c.Conn, c.tcp = nc, nc
	if secured, ok := nc.(*tls.Conn); ok {
		c.tcp = secured.NetConn()
	}
	return nil
}

// conn returns what asks on a connection, which is to be opened, over HTTP/2 or not.
func (t *target) conn(http2 bool) *Conn {
	c := &Conn{target: t, http2: http2}
	c.renew(t.marks && t.turn.Add(1)%2 == 0)
	return c
}

// renew forgets what was asked, and asks with a mark from now on, or without.
func (c *Conn) renew(marked bool) {
	t, to, which := c.target, c.target.Target, 0
	c.mark, c.known, c.content, c.size = "", &t.known, t.content, t.size
	if marked {
		which = 1
		c.mark, c.known = rand.Text()[:len(unmarked)], &t.withMarks
		to, c.content = t.marked(c.mark)
		c.size = len(to.Codec().AppendRequest(nil, 1, c.content, nil))
	}
	if c.codec = to.Codec(); c.http2 {
		c.known, c.codec = &t.known2[which], newCodec2(t, to)
	}
}

// unmarked stands for a client's mark in what is known of answers, and in the request that the user gave
// where the mark belongs there.
const unmarked = "################"

// marked returns the target and the content of requests with a mark: in the body of HTTP or at the end
// of its query, or in the content. None: there is no room.
func (t *target) marked(mark string) (to codec.Target, content []byte) {
	switch at := t.Target.(type) {
	case codec.HTTP:
		switch {
		case len(at.Body) > 0:
			at.Body = withMark(at.Body, mark)
			return at, nil
		case strings.Contains(at.URL, "?"):
			at.URL += "&"
		default:
			at.URL += "?"
		}
		at.URL += mark
		return at, nil
	case codec.Messages:
		if strings.HasPrefix(at.Framing.String(), "fixed:") && len(t.content) < len(mark) {
			return t.Target, t.content
		}
	}
	return t.Target, withMark(t.content, mark)
}

// withMark returns content with a mark: where the user has left room, at the end of what is long, or
// behind what is short.
func withMark(content []byte, mark string) []byte {
	switch n := len(content) - len(mark); {
	case bytes.Contains(content, []byte(unmarked)):
		return bytes.Replace(content, []byte(unmarked), []byte(mark), 1)
	case n >= 0:
		return append(bytes.Clone(content[:n]), mark...)
	case len(content) == 0:
		return []byte(mark)
	}
	return append(append(bytes.Clone(content), ' '), mark...)
}

// learnMarks finds out whether answers have something of the request in them. If so, every other
// client sends a mark of its own from now on, so that it notices another client's answer.
func (t *target) learnMarks(ctx context.Context, within time.Duration) {
	ask := func(marked bool) (got answer, err error) {
		c := &Conn{target: t}
		c.renew(marked)
		if err = t.open(ctx, within, (*target).Dial, c); err != nil {
			return got, err
		}
		defer c.Conn.Close()
		return c.exchange(c.Request(nil), time.Now().Add(within))
	}
	plain, err := ask(false)
	if err == nil && plain.status != streaming {
		got, err := ask(true)
		t.marks = err == nil && !got.alien && got.status == plain.status
	}
}

// answer is how answers are compared: what is the same in all of those before the attacks.
type answer struct {
	status string // of the protocol, or its failure
	length int64  // of the content; negative: it varies
	whole  int64  // with all that is around it, as far as it is kept
	sum    uint64 // 0: it varies
	alien  bool   // it lacks the mark of its client
	// refused says that the server did not do what it was asked for.
	refused bool
}

const streaming = "an event stream" // the status of such an answer

// endless reports whether answers are event streams.
func (t *target) endless() bool { return t.known.status == streaming }

// seen describes the answer just decoded.
func (c *Conn) seen(got *codec.Answer) answer {
	body := got.Content
	a := answer{status: fmt.Sprint(got.Code), length: int64(len(body)), whole: int64(len(c.raw))}
	if got.Err != nil {
		a.status, a.refused = got.Err.Error(), true
	}
	if got.Seen != nil {
		a.length = got.Seen.Length
		body = c.raw[max(0, int64(len(c.raw))-a.length):] // with the framing of chunks, if there are any
	}
	if c.mark != "" {
		a.alien = !bytes.Contains(body, []byte(c.mark))
		body = bytes.ReplaceAll(body, []byte(c.mark), []byte(unmarked))
	}
	a.sum = max(1, maphash.Bytes(c.target.hash, body))
	return a
}

var (
	errWrongAnswer = errors.New("another answer than before the attacks")
	errAlien       = errors.New("it lacks what this client sent, and may be another client's")
)

// check compares got with known, as far as that is known.
func (known *answer) check(got answer) error {
	switch {
	case got.alien && known.status == got.status:
		return fmt.Errorf("%w: %w", errWrongAnswer, errAlien)
	case known.status == "":
	case known.status != got.status:
		return fmt.Errorf("%w: %s instead of %s", errWrongAnswer, got.status, known.status)
	case known.length >= 0 && known.length != got.length:
		return fmt.Errorf("%w: %d bytes instead of %d", errWrongAnswer, got.length, known.length)
	case known.sum != 0 && known.sum != got.sum:
		return fmt.Errorf("%w: other content in its %d bytes", errWrongAnswer, got.length)
	}
	return nil
}

// learn adds an answer of before the attacks.
func (known *answer) learn(got answer) {
	if known.status == "" {
		*known = got
		return
	}
	known.status, known.refused, known.whole = got.status, got.refused, max(known.whole, got.whole)
	if known.length != got.length {
		known.length, known.sum = -1, 0
	}
	if known.sum != got.sum {
		known.sum = 0
	}
}

// learnProfiles finds out where the server tells how many goroutines it has: at the address that is given, or where
// a target of HTTP itself serves net/http/pprof.
func (t *target) learnProfiles(ctx context.Context, at string) {
	scheme := "http://"
	if at == "" && t.kind == HTTP {
		if at = t.host; t.tls != nil {
			scheme = "https://"
		}
	}
	if at == "" {
		return
	}
	if strings.Contains(at, "://") {
		scheme = ""
	}
	t.profiles = scheme + strings.TrimSuffix(at, "/")
	if !strings.HasSuffix(t.profiles, "/debug/pprof") {
		t.profiles += "/debug/pprof"
	}
	t.profiles += "/goroutine?debug=1"
	if _, known := t.goroutines(ctx); !known {
		t.profiles = ""
	}
}

// goroutines returns how many goroutines the server has, if it tells.
func (t *target) goroutines(ctx context.Context) (n int64, known bool) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, t.profiles, nil)
	if err != nil {
		return 0, false
	}
	way := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Control: t.guard}).DialContext, TLSClientConfig: t.tls}
	defer way.CloseIdleConnections()
	got, err := way.RoundTrip(ask)
	if err != nil {
		return 0, false
	}
	defer got.Body.Close()
	_, err = fmt.Fscanf(got.Body, "goroutine profile: total %d", &n)
	return n, err == nil
}
