package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// Conn is a connection to the server on which good requests are asked. It is not safe for concurrent
// use, except that one goroutine may write while another reads.
type Conn struct {
	net.Conn
	tcp     net.Conn // below TLS
	target  *target
	arena   *Arena    // of its attack; nil: it is a bystander's
	free    bool      // it is a newcomer's, and not bounded by what the attack may do
	until   time.Time // when the scenario ends; zero: not limited
	http2   bool
	mark    string  // of its own, in its requests and their answers; empty: none
	known   *answer // what is known of such answers
	content []byte
	size    int // of a request
	codec   codec.Codec
	last    uint64 // id
	rest    []byte // what is sent later
	in      []byte // received, and not decoded yet
	raw     []byte // the current answer, as far as it is kept
	closing bool   // the server has announced that it closes the connection
}

const (
	readSize = 16 << 10
	mostKept = 1 << 20 // of an answer, for its sum
)

// within is the time after d, or the scenario's end if that is earlier.
func (c *Conn) within(d time.Duration) time.Time {
	if at := time.Now().Add(d); c.until.IsZero() || at.Before(c.until) {
		return at
	}
	return c.until
}

// Request appends one whole good request, as bystanders send it: for HTTP the target's head and
// body, for WebSocket a masked message.
func (c *Conn) Request(dst []byte) []byte {
	c.last++
	return c.codec.AppendRequest(dst, c.last, c.content, nil)
}

// requests returns n good requests.
func (c *Conn) requests(n int) (b []byte) {
	for range n {
		b = c.Request(b)
	}
	return b
}

// Ask sends a good request and checks its answer, which must come within Limits.Answer. It may be
// called again on the same connection.
func (c *Conn) Ask() error {
	if _, err := c.Write(c.Request(nil)); err != nil {
		return err
	}
	return c.Answers(1)
}

// Answers reads the answers to n requests that Request made, and checks them. Each must come within
// Limits.Answer of the one before.
func (c *Conn) Answers(n int) error {
	for i := range n {
		err := c.SetReadDeadline(c.within(c.arena.Answer))
		if err == nil {
			err = c.answer(c.Conn)
		}
		if err != nil {
			return fmt.Errorf("answer %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// exchange sends a request and reads its answer.
func (c *Conn) exchange(request []byte, until time.Time) (got answer, err error) {
	c.raw = c.raw[:0]
	if err = c.SetDeadline(until); err == nil {
		if _, err = c.Write(request); err == nil {
			got, err = c.read(c.Conn)
		}
	}
	return got, err
}

// answer reads the next answer, and compares it with the known one.
func (c *Conn) answer(from io.Reader) error {
	got, err := c.read(from)
	if err != nil {
		return err
	}
	return c.known.check(got)
}

// read reads the next answer.
func (c *Conn) read(from io.Reader) (answer, error) {
	c.raw = c.raw[:0]
	for ended := false; ; {
		if len(c.in) > 0 || ended {
			var got codec.Answer
			used, err := codec.Next(c.codec, &got, c.in)
			if err != nil {
				return answer{}, err
			}
			if len(c.raw) < mostKept {
				c.raw = append(c.raw, c.in[:used]...)
			}
			c.closing = c.closing || got.Last
			var a answer
			if got.ID != 0 {
				a = c.seen(&got)
			}
			c.in = append(c.in[:0], c.in[used:]...)
			switch {
			case got.ID != 0:
				return a, nil
			case c.streams():
				return answer{status: streaming, length: -1}, nil
			case got.Last && len(c.in) > 0:
				continue
			case ended:
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

// streams reports whether the answer that is being read is a stream of events whose first has come.
// Such an answer has no end: the connection is of no more use.
func (c *Conn) streams() bool {
	if c.target.kind != HTTP || c.http2 {
		return false
	}
	head, body, _ := bytes.Cut(c.raw, []byte("\r\n\r\n"))
	if len(body) == 0 || !strings.HasPrefix(contentType(head), "text/event-stream") {
		return false
	}
	c.closing = true
	return true
}

// unread returns good requests without marks, 64 KiB of them, and forgets those before: nobody reads
// the answers.
func (c *Conn) unread() []byte {
	c.renew(false)
	return c.requests(max(1, (64<<10)/c.size))
}

// send sends what next returns until most bytes are sent, the server takes nothing for that long, or ctx
// ends. What is left of the last block is sent first by the next send.
func (c *Conn) send(ctx context.Context, most int, patience time.Duration, next func() []byte) (sent int, err error) {
	for sent < most && err == nil && ctx.Err() == nil {
		if len(c.rest) == 0 {
			c.rest = next()
		}
		n := 0
		if err = c.SetWriteDeadline(c.within(patience)); err == nil {
			n, err = c.Write(c.rest)
		}
		c.rest, sent = c.rest[n:], sent+n
	}
	return sent, err
}

// fill sends whole requests until the server takes no more for a while, or most bytes, and returns
// how many it took. A request that it took in part is not counted.
func (c *Conn) fill(ctx context.Context, most int, next func() []byte) (n int, err error) {
	sent, err := c.send(ctx, most, lateBy, next)
	if isTimeout(err) {
		err = nil
	}
	return sent / c.size, err
}

// heard is what came back for an input.
type heard struct {
	bytes  []byte
	closed bool          // by the server
	took   time.Duration // until then, or until nothing more was waited for
}

const (
	mostHeard = 4 << 20              // bytes of what comes back for one input
	partPause = 5 * time.Millisecond // between the parts of an input, so that they arrive apart
)

// hear sends parts and collects what comes back, and closes the connection.
func (c *Conn) hear(ctx context.Context, silence time.Duration, parts [][]byte, enough func([]byte) bool) heard {
	began := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i, part := range parts {
			if i > 0 && !pause(ctx, partPause) {
				return
			}
			if _, err := c.Write(part); err != nil {
				return // the server has closed, which reading notices
			}
		}
	}()
	got := c.collect(silence, enough)
	got.took = time.Since(began)
	c.Close()
	<-sent
	return got
}

// collect reads until the server closes, is silent for that long, or has sent mostHeard bytes, or
// until enough, if it is not nil, says so of all that has come.
func (c *Conn) collect(silence time.Duration, enough func([]byte) bool) (got heard) {
	buf := make([]byte, readSize)
	for len(got.bytes) < mostHeard {
		if c.SetReadDeadline(c.within(silence)) != nil {
			break
		}
		n, err := c.Conn.Read(buf)
		got.bytes = append(got.bytes, buf[:n]...)
		if err != nil {
			got.closed = !isTimeout(err)
			break
		}
		if enough != nil && enough(got.bytes) {
			break
		}
	}
	return got
}

// answered reports whether something comes within a time.
func (c *Conn) answered(within time.Duration) bool {
	return len(c.collect(within, func([]byte) bool { return true }).bytes) > 0
}

// Write sends p, as far as the scenario may send as much.
func (c *Conn) Write(p []byte) (int, error) {
	if c.arena != nil && !c.free && c.arena.sent.Add(int64(len(p))) > c.arena.Bytes {
		return 0, errTooMuch
	}
	return c.Conn.Write(p)
}

// Close closes the connection, below TLS: closing that may wait for a peer that does not read.
func (c *Conn) Close() error {
	c.arena.forget(c)
	return c.tcp.Close()
}

// CloseWrite closes the sending side, after TLS's closing message.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Reset closes the connection with a TCP reset.
func (c *Conn) Reset() error {
	if tcp, ok := c.tcp.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			return err
		}
	}
	return c.Close()
}

func isTimeout(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}
