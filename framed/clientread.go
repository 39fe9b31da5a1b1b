package framed

import (
	"fmt"
	"io"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// read is the reader goroutine: it splits the stream into frames and dispatches them.
func (c *Client) read() {
	defer c.end(ErrClosed) // for an OnDeliver that calls runtime.Goexit
	var in received
	for {
		n, readErr := c.nc.Read(in.space())
		in.end += n
		used, need, err := c.receive(in.unserved())
		in.start += used
		in.need = need
		if err == nil && readErr != nil {
			err = c.lastError(readErr, in.start < in.end)
		}
		if err != nil {
			c.broken(err)
			return
		}
	}
}

// receive handles the whole frames at the front of in and returns how many bytes the next
// one still lacks.
func (c *Client) receive(in []byte) (used, need int, err error) {
	for {
		payload, need, err := wire.Frame(in[used:], c.frameSize)
		if err != nil || need > 0 {
			return used, need, unreadable(err)
		}
		packet, err := wire.Parse(payload)
		if err != nil {
			return used, 0, unreadable(err)
		}
		if err := c.dispatch(packet); err != nil {
			return used, 0, err
		}
		used += wire.HeaderSize + len(payload)
	}
}

// unreadable converts an error of package wire, because a wire.Result would look as if
// the server had refused the connection.
func unreadable(err error) error {
	switch err {
	case nil:
		return nil
	case wire.TooLarge:
		return engine.TooLarge
	case wire.UnknownCommand:
		return engine.UnknownCommand
	}
	return engine.Malformed
}

// dispatch handles one packet; an error ends the connection.
func (c *Client) dispatch(p wire.Packet) error {
	switch p.Command {
	case wire.Deliver:
		if c.onDeliver != nil {
			c.onDeliver(p.ID, p.Content)
		}
		return nil
	case wire.ConnAck, wire.SubmitAck:
		if p.Command == wire.ConnAck && p.ID == 0 && p.Result != wire.OK {
			c.mu.Lock()
			c.back = wire.ComeBack(p.Content)
			c.mu.Unlock()
			return p.Result
		}
		call, err := c.claim(p)
		if call != nil {
			call.reply, call.result = append(call.reply, p.Content...), p.Result
			call.settle(c, nil)
		}
		return err
	}
	return fmt.Errorf("%w: the server sent a %v", engine.UnknownCommand, p.Command)
}

// malformed returns the error for an invalid reply.
func malformed(p wire.Packet, what string) error {
	return fmt.Errorf("%w: %v %d, %s", engine.Malformed, p.Command, p.ID, what)
}

// lastError returns why reading ended.
func (c *Client) lastError(err error, unfinished bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.writeErr != nil:
		return c.writeErr
	case err == io.EOF && unfinished:
		return io.ErrUnexpectedEOF
	}
	return err
}

// received is the read buffer: buffer[start:end] is unprocessed. It grows by doubling as
// bytes arrive, never to the length that a frame claims.
type received struct {
	buffer     []byte
	start, end int
	need       int // bytes that the frame at start still lacks
}

const firstBuffer = 16 << 10

func (r *received) unserved() []byte { return r.buffer[r.start:r.end] }

// space returns where to read to; never empty.
func (r *received) space() []byte {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buffer) == 0 || len(r.buffer) > keptBuffer {
			r.buffer = make([]byte, firstBuffer)
		}
	}
	if r.start > 0 && len(r.buffer)-r.end < r.need {
		r.end = copy(r.buffer, r.unserved())
		r.start = 0
	}
	if r.end == len(r.buffer) {
		larger := make([]byte, min(2*len(r.buffer), r.end+r.need))
		copy(larger, r.buffer)
		r.buffer = larger
	}
	return r.buffer[r.end:]
}
