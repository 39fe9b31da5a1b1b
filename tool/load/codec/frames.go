package codec

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/hone-go/hone/tool/load/traffic"
	"github.com/hone-go/hone/wire"
)

// Frames is a target that speaks hone's frames (package wire): every request is a Submit, and its
// answer the SubmitAck with the same id, in any order. Pushes are ignored. A ConnAck with id 0
// means that the server refuses the connection. That ends the run, unless the reason is that the
// connection was idle or that the server drains.
type Frames struct {
	Network string // "tcp" or "unix"; zero: tcp
	Address string // host:port, or the socket's path
	// FrameSize is the largest answer accepted. Zero: 16 MiB. Memory grows with
	// the bytes received, never with the length claimed.
	FrameSize int
	// Hello is the content of a Conn that begins each connection; Dial waits for its ConnAck. The
	// first 16 # in a row become letters of the connection's own. Zero: no hello.
	Hello string
}

// MostAnswer is the longest answer that a target accepts which has no limit of its own, in bytes.
const MostAnswer = 16 << 20

// ParseTarget parses tcp://HOST:PORT, unix:///PATH, unix://PATH or unix:PATH.
func ParseTarget(text string) (Frames, error) {
	var f Frames
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

// Codec returns the state for one connection.
func (f Frames) Codec() Codec {
	if f.FrameSize <= 0 {
		f.FrameSize = MostAnswer
	}
	return &frameCodec{limit: f.FrameSize}
}

// Prepare accepts every load.
func (f Frames) Prepare(Load) (Route, error) {
	return Route{Network: cmp.Or(f.Network, "tcp"), Address: f.Address, Wonder: f.wonder}, nil
}

// wonder asks for a page: net/http answers frames with nothing, because it waits for the end of a line.
func (f Frames) wonder(ctx context.Context) *Error {
	f.Hello = ""
	nc, err := f.Dial(ctx)
	if err != nil {
		return nil
	}
	defer nc.Close()
	in := make([]byte, len("HTTP/1."))
	_, err = greet(ctx, nc, func(nc net.Conn) error {
		if _, err := io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, in)
		return err
	})
	if err != nil || string(in) != "HTTP/1." {
		return nil
	}
	return speaksHTTP(nil)
}

// String returns the target in the form that ParseTarget takes.
func (f Frames) String() string {
	return cmp.Or(f.Network, "tcp") + "://" + f.Address
}

type frameCodec struct {
	limit     int
	forgotten map[uint64]struct{} // ids of requests that were given up
}

// Repeats returns false.
func (c *frameCodec) Repeats(uint64) bool { return false }

// mostForgotten is how many requests may be given up on a connection before it is replaced.
const mostForgotten = 4096

// Forget gives up the answer to id.
func (c *frameCodec) Forget(id uint64) bool {
	if len(c.forgotten) == mostForgotten {
		return false
	}
	if c.forgotten == nil {
		c.forgotten = make(map[uint64]struct{})
	}
	c.forgotten[id] = struct{}{}
	return true
}

func (c *frameCodec) AppendRequest(dst []byte, id uint64, content []byte, _ *traffic.Session) []byte {
	return wire.Append(dst, wire.Packet{Command: wire.Submit, ID: id, Content: content})
}

func (c *frameCodec) Decode(a *Answer, in []byte) (used int, err error) {
	payload, need, err := wire.Frame(in, c.limit)
	if err != nil && bytes.HasPrefix(in, []byte("HTTP/1.")) {
		return 0, speaksHTTP(err)
	}
	if err != nil || need > 0 {
		return 0, err
	}
	var p wire.Packet
	if err := wire.ParseInto(&p, payload); err != nil {
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
		a.Last, a.Err = true, refusal(p.Result)
		return used, nil
	}
	return 0, unexpected(p)
}

// unexpected explains a packet that is neither an answer nor a push.
func unexpected(p wire.Packet) error {
	if p.Command == wire.ConnAck && p.ID == 0 && p.Result != wire.OK {
		return refusal(p.Result)
	}
	return &Error{
		Kind: Garbage, What: fmt.Sprintf("the server answers with a %v, id %d", p.Command, p.ID),
		Try: "check that it is a server of hone's frames; give another framing as in --frame line",
	}
}

// refusal returns the error for a server that refuses the connection.
func refusal(r wire.Result) *Error {
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
		e.Try = "check that it is a server of hone's frames; give another framing as in --frame line"
	}
	return e
}

// hello says the target's hello, and reads its answer and nothing else: pushes may follow.
func (f Frames) hello() func(net.Conn) error {
	const id = 1
	packet := wire.Append(nil, wire.Packet{Command: wire.Conn, ID: id, Content: named(f.Hello)})
	return func(nc net.Conn) error {
		if _, err := nc.Write(packet); err != nil {
			return err
		}
		var in []byte
		payload, need, err := wire.Frame(in, mostHead)
		for err == nil && need > 0 {
			in = append(in, make([]byte, need)...)
			if _, ended := io.ReadFull(nc, in[len(in)-need:]); ended != nil {
				return closedEarly(ended)
			}
			payload, need, err = wire.Frame(in, mostHead)
		}
		if err != nil {
			return err
		}
		p, err := wire.Parse(payload)
		switch {
		case err != nil:
			return err
		case p.Command != wire.ConnAck:
			return unexpected(p)
		case p.Result != wire.OK:
			return refused(p.Result)
		}
		return nil
	}
}
