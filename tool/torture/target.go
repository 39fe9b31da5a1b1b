package torture

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/traffic"
)

// target is the server, and what a good request to it is answered with.
type target struct {
	load.Target
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
	marks      bool         // every other client has a mark
	turn       atomic.Int64 // of clients
}

// answer is how answers are compared: what is the same in all of those before the attacks.
type answer struct {
	status string // of the protocol, or its failure
	length int64  // of the content; negative: it varies
	whole  int64  // with all that is around it, as far as it is kept
	sum    uint64 // 0: it varies
	alien  bool   // it lacks the mark of its client
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
	case load.HTTP:
		t.kind = HTTP
	case load.WebSocket:
		t.kind = WebSocket
	}
	if !anywhere {
		t.guard = onlyPrivate
	}
	sample := t.client()
	t.size = len(sample.request(nil))
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

// Dial opens a connection that is ready for requests.
func (t *target) Dial(ctx context.Context) (net.Conn, error) {
	return t.plan.Dial(ctx, t.guard)
}

// dial opens a connection, with TLS if wanted and if the target speaks it.
func (t *target) dial(ctx context.Context, secure bool) (net.Conn, error) {
	nc, err := (&net.Dialer{Control: t.guard}).DialContext(ctx, t.at.Network(), t.at.String())
	if err != nil || !secure || t.tls == nil {
		return nc, err
	}
	secured := tls.Client(nc, t.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secured, nil
}

// client asks on one connection. It is not safe for concurrent use.
type client struct {
	target  *target
	mark    string // of its own, in its requests and their answers; empty: none
	content []byte
	size    int // of a request
	codec   load.Caller
	last    uint64 // id
	in      []byte // received, and not decoded yet
	raw     []byte // the current answer, as far as it is kept
	closing bool   // the server has announced that it closes the connection
}

func (t *target) client() client {
	if t.marks && t.turn.Add(1)%2 == 0 {
		return t.marker()
	}
	return t.plain()
}

// plain returns a client without a mark.
func (t *target) plain() client {
	return client{target: t, codec: t.Caller(), content: t.content, size: t.size}
}

// request appends a good request.
func (c *client) request(dst []byte) []byte {
	c.last++
	return c.codec.AppendRequest(dst, c.last, c.content)
}

// known returns what is known of answers to such a client.
func (c *client) known() *answer {
	if c.mark != "" {
		return &c.target.withMarks
	}
	return &c.target.known
}

const (
	readSize = 16 << 10
	mostKept = 1 << 20 // of an answer, for its sum
)

const streaming = "an event stream" // the status of such an answer

var errWrongAnswer = errors.New("another answer than before the attacks")

// answer reads the next answer, and compares it with the known one.
func (c *client) answer(from io.Reader) error {
	got, err := c.read(from)
	if err != nil {
		return err
	}
	return c.known().check(got)
}

// read reads the next answer.
func (c *client) read(from io.Reader) (answer, error) {
	c.raw = c.raw[:0]
	for ended := false; ; {
		if len(c.in) > 0 || ended {
			var got load.Answer
			used, err := c.codec.Decode(&got, c.in)
			if err != nil {
				return answer{}, err
			}
			if len(c.raw) < mostKept {
				c.raw = append(c.raw, c.in[:used]...)
			}
			c.closing = c.closing || got.Last
			if got.ID != 0 {
				a := c.seen(&got)
				c.in = append(c.in[:0], c.in[used:]...)
				return a, nil
			}
			c.in = append(c.in[:0], c.in[used:]...)
			if c.streams() {
				return answer{status: streaming, length: -1}, nil
			}
			if used > 0 && len(c.in) > 0 {
				continue
			}
			if ended {
				return answer{}, io.EOF
			}
		}
		c.in = slices.Grow(c.in, readSize)
		n, err := from.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		if ended = errors.Is(err, io.EOF) && n == 0; err != nil && !errors.Is(err, io.EOF) {
			return answer{}, err
		}
	}
}

// seen describes the answer just decoded.
func (c *client) seen(got *load.Answer) answer {
	body := got.Content
	a := answer{status: fmt.Sprint(got.Code), length: int64(len(body)), whole: int64(len(c.raw))}
	if got.Err != nil {
		a.status = got.Err.Error()
	}
	if web, ok := c.codec.(interface{ Seen() traffic.Answer }); ok {
		a.length = web.Seen().Length
		body = c.raw[max(0, int64(len(c.raw))-a.length):] // with the framing of chunks, if there are any
	}
	if c.mark != "" {
		a.alien = !bytes.Contains(body, []byte(c.mark))
		body = bytes.ReplaceAll(body, []byte(c.mark), []byte(unmarked))
	}
	a.sum = max(1, maphash.Bytes(c.target.hash, body))
	return a
}

// check compares got with a, as far as a is known.
func (a answer) check(got answer) error {
	switch {
	case got.alien && a.status == got.status:
		return fmt.Errorf("%w: it lacks what this client sent, and may be another client's", errWrongAnswer)
	case a.status == "":
	case a.status != got.status:
		return fmt.Errorf("%w: %s instead of %s", errWrongAnswer, got.status, a.status)
	case a.length >= 0 && a.length != got.length:
		return fmt.Errorf("%w: %d bytes instead of %d", errWrongAnswer, got.length, a.length)
	case a.sum != 0 && a.sum != got.sum:
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
	known.status, known.whole = got.status, max(known.whole, got.whole)
	if known.length != got.length {
		known.length, known.sum = -1, 0
	}
	if known.sum != got.sum {
		known.sum = 0
	}
}
