package load

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/hone-go/hone/wire"
)

// Frames is a target that speaks hone's frames (package wire): every request is a Submit, and its
// answer the SubmitAck with the same id, in any order. Pushes are ignored. A ConnAck with id 0
// means that the server refuses the connection. That ends the run, unless the reason is that the
// connection was idle or that the server drains.
type Frames struct {
	Network string // "tcp" or "unix"; zero: tcp
	Address string // host:port, or the socket's path
	// Dialect must be the server's. In wire.Demo answers have no content. Zero: wire.Standard.
	Dialect wire.Dialect
	// FrameSize is the largest answer accepted. Zero: 16 MiB. Memory grows with
	// the bytes received, never with the length claimed.
	FrameSize int
	// Hello is the content of a Conn that begins each connection; Dial waits for its ConnAck. The
	// first 16 # in a row become letters of the connection's own. Zero: no hello.
	Hello string
}

const mostFrame = 16 << 20

// ParseTarget parses tcp://HOST:PORT, unix:///PATH, unix://PATH or unix:PATH.
func ParseTarget(text string, d wire.Dialect) (Frames, error) {
	f := Frames{Dialect: d}
	if address, ok := strings.CutPrefix(text, "tcp://"); ok {
		f.Network, f.Address = "tcp", address
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return Frames{}, fmt.Errorf("load: target %q lacks its host or port; write it as tcp://127.0.0.1:7000", text)
		}
		return f, nil
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		f.Network, f.Address = "unix", strings.TrimPrefix(path, "//")
		if f.Address == "" {
			return Frames{}, fmt.Errorf("load: target %q lacks its path; write it as unix:///run/hone.sock", text)
		}
		return f, nil
	}
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		return Frames{}, fmt.Errorf("load: target %q: unknown scheme %q; use tcp://HOST:PORT or unix://PATH", text, scheme)
	}
	return Frames{}, fmt.Errorf("load: target %q lacks its scheme; write it as tcp://%s or unix://%[1]s", text, text)
}

// Dial opens one connection, and says Hello on it.
func (f Frames) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := dial(ctx, cmp.Or(f.Network, "tcp"), f.Address)
	if err != nil || f.Hello == "" {
		return nc, err
	}
	return greet(ctx, nc, f.hello())
}

// Caller returns the codec for one connection.
func (f Frames) Caller() Caller {
	if f.FrameSize <= 0 {
		f.FrameSize = mostFrame
	}
	return &frameCaller{dialect: f.Dialect, limit: f.FrameSize}
}

// fits refuses a plan that does not work in the dialect.
func (f Frames) fits(p Plan) error {
	if f.Dialect == wire.Demo && (p.Echo || len(p.Expect) > 0) {
		return badTarget("content to expect", "expect nothing: answers of the dialect demo have no content")
	}
	return nil
}

// String returns the target in the form that ParseTarget takes.
func (f Frames) String() string {
	return cmp.Or(f.Network, "tcp") + "://" + f.Address
}

type frameCaller struct {
	dialect   wire.Dialect
	limit     int
	forgotten map[uint64]struct{} // ids of requests that were given up
}

// mostForgotten is how many requests may be given up on a connection before it is replaced.
const mostForgotten = 4096

// Forget gives up the answer to id.
func (c *frameCaller) Forget(id uint64) bool {
	if len(c.forgotten) == mostForgotten {
		return false
	}
	if c.forgotten == nil {
		c.forgotten = make(map[uint64]struct{})
	}
	c.forgotten[id] = struct{}{}
	return true
}

func (c *frameCaller) AppendRequest(dst []byte, id uint64, content []byte) []byte {
	return c.dialect.Append(dst, wire.Packet{Command: wire.Submit, ID: id, Content: content})
}

func (c *frameCaller) Decode(a *Answer, in []byte) (used int, err error) {
	payload, need, err := wire.Frame(in, c.limit)
	if err != nil && bytes.HasPrefix(in, []byte("HTTP/1.")) {
		return 0, &Error{Kind: Garbage, Err: err, What: "the server speaks HTTP", Try: "write http:// before its address"}
	}
	if err != nil || need > 0 {
		return 0, err
	}
	var p wire.Packet
	if err := c.dialect.ParseInto(&p, payload); err != nil {
		return 0, err
	}
	used = wire.HeaderSize + len(payload)
	switch {
	case p.Command == wire.SubmitAck && p.ID != 0:
		if _, late := c.forgotten[p.ID]; late {
			delete(c.forgotten, p.ID)
			return used, nil
		}
		a.ID, a.Content = p.ID, p.Content
		if p.Result != wire.OK {
			a.Err = p.Result
		}
		return used, nil
	case p.Command == wire.Deliver:
		return used, nil
	case p.Command == wire.ConnAck && p.ID == 0 && p.Result == wire.Idle:
		a.Last = true
		return used, nil
	case p.Command == wire.ConnAck && p.ID == 0 && p.Result == wire.ShuttingDown:
		a.Last, a.Err = true, refusal(p.Result, c.dialect)
		return used, nil
	}
	return 0, c.unexpected(p)
}

// unexpected explains a packet that is neither an answer nor a push.
func (c *frameCaller) unexpected(p wire.Packet) error {
	if p.Command == wire.ConnAck && p.ID == 0 && p.Result != wire.OK {
		return refusal(p.Result, c.dialect)
	}
	what := fmt.Sprintf("the server answers with a %v, id %d", p.Command, p.ID)
	if p.Command == wire.ConnAck {
		return &Error{Kind: Garbage, What: what, Try: "it may speak another dialect: try the dialect " + c.other().String()}
	}
	return &Error{Kind: Garbage, What: what, Try: "check that this is a server"}
}

func (c *frameCaller) other() wire.Dialect {
	if c.dialect == wire.Demo {
		return wire.Standard
	}
	return wire.Demo
}

// refusal returns the error for a server that refuses the connection.
func refusal(r wire.Result, d wire.Dialect) *Error {
	e := &Error{
		Kind: Refused, Err: r,
		What: fmt.Sprintf("the server refuses the connection (%v)", r),
		Try:  "look into the server's log",
	}
	switch r {
	case wire.Overloaded:
		e.Try = "use fewer connections or less depth, or raise the server's limits"
	case wire.ShuttingDown:
		e.Try = "start the server again"
	case wire.TooLarge:
		e.Try = "send less content, or raise the server's limit of a frame"
	case wire.Malformed, wire.UnknownCommand:
		e.Try = "check that the server speaks the dialect " + d.String()
	}
	return e
}
