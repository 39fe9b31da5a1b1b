package drive

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/client"
	"github.com/hone-go/hone/bench/web"
)

// Gather is to have read a message that a crowd has been pushed.
type Gather struct {
	Message []byte        `json:"message"`
	Limit   time.Duration `json:"limit"`
}

// crowd carries the parts of an order out that are about connections that listen.
func (c *process) crowd(ctx context.Context, o Order) error {
	begin, whole := client.Upgraded(web.CrowdPath), client.ServerFrame
	if o.Ask == web.Stream {
		begin = client.Streamed(web.CrowdPath, web.Event([]byte(web.Welcome)))
		whole = func(message []byte) []byte { return client.Chunk(web.Event(message)) }
	}
	if err := c.listeners.Grow(ctx, o.Addr, max(o.Crowd, c.listeners.Len()), begin); err != nil || o.Gather == nil {
		return err
	}
	return c.listeners.Gather(whole(o.Gather.Message), o.Gather.Limit)
}

// Frames of a client.
const (
	wholeBinary = 0x82
	beginBinary = 0x02
	lastPart    = 0x80
	ping        = 0x89
	pong        = 0x8a
)

// ExchangeWS upgrades, and has a message in two fragments with a ping between them answered,
// so that a connection that is idle behind has had all that a server may keep memory for.
func ExchangeWS(conn net.Conn) error {
	request, accept := client.Handshake(web.EchoPath)
	if _, err := conn.Write([]byte(request)); err != nil {
		return err
	}
	in, head := bufio.NewReader(conn), ""
	for !strings.HasSuffix(head, "\r\n\r\n") && len(head) < 4<<10 {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		head += line
	}
	if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, accept) {
		return fmt.Errorf("the server does not upgrade: %.60q", head)
	}
	message := web.Echoed()
	half := len(message) / 2
	frames := slices.Concat(client.WSFrame(beginBinary, message[:half]), client.WSFrame(ping, []byte("p")), client.WSFrame(lastPart, message[half:]))
	if _, err := conn.Write(frames); err != nil {
		return err
	}
	want := []struct {
		first   byte
		payload []byte
	}{{pong, []byte("p")}, {wholeBinary, message}}
	for _, w := range want {
		frame := append([]byte{w.first, byte(len(w.payload))}, w.payload...)
		got := make([]byte, len(frame))
		if _, err := io.ReadFull(in, got); err != nil {
			return err
		}
		if !bytes.Equal(got, frame) {
			return fmt.Errorf("the server answers %x instead of %x", got, frame)
		}
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("the server sends %d bytes behind its answer", in.Buffered())
	}
	return nil
}
