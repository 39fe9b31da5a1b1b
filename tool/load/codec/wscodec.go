package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hone-go/hone/tool/load/traffic"
	"github.com/hone-go/hone/websocket"
)

// wsCodec matches answers by their order.
type wsCodec struct {
	InOrder
	frames websocket.Frames
	kind   websocket.Kind // of requests
	asked  Queue[uint64]
}

func (c *wsCodec) AppendRequest(dst []byte, id uint64, content []byte, _ *traffic.Session) []byte {
	c.asked.Push(id)
	return websocket.AppendFrame(dst, c.kind, content)
}

// mostReplies limits the replies that a server can make us queue.
const mostReplies = 64 << 10

func (c *wsCodec) Decode(a *Answer, in []byte) (used int, err error) {
	for len(in) > 0 {
		kind, payload, used, err := c.frames.Next(in)
		switch {
		case errors.Is(err, websocket.MessageTooBig):
			return 0, tooLarge(c.frames.MessageSize)
		case err != nil:
			return 0, &Error{
				Kind: Garbage, Err: err, What: fmt.Sprintf("the server violates RFC 6455 (%v)", err),
				Try: "look for a proxy in between, or for a fault of the server's",
			}
		case kind == websocket.CloseFrame:
			return len(in), c.closes(a, payload)
		case kind == websocket.PingFrame && len(a.Reply) < mostReplies:
			a.Reply = websocket.AppendFrame(a.Reply, websocket.PongFrame, payload)
		case kind != websocket.Text && kind != websocket.Binary: // incomplete, or a pong
		case c.asked.Len() > 0:
			a.ID, a.Content = c.asked.Pop(), payload
		default:
			return used, unasked("WebSocket")
		}
		if kind == 0 || used > 0 {
			return used, nil
		}
	}
	return 0, nil
}

// closes answers a Close frame, which announces the end of the connection.
func (c *wsCodec) closes(a *Answer, payload []byte) error {
	a.Last = true
	a.Reply = websocket.AppendFrame(a.Reply, websocket.CloseFrame, payload[:min(2, len(payload))])
	if len(payload) == 0 {
		return nil
	}
	code := websocket.Code(binary.BigEndian.Uint16(payload))
	why := &Error{Kind: Refused, What: fmt.Sprintf("the server closes the connection (%d %q)", code, payload[2:]), Try: "look into the server's log"}
	switch code {
	case websocket.GoingAway, websocket.ServiceRestart, websocket.TryAgainLater:
		why.Try = "start the server again"
		a.Err = why // the server drains
	case websocket.ProtocolError, websocket.UnsupportedData, websocket.InvalidPayload, websocket.MessageTooBig, websocket.MandatoryExtension:
		why.Try = "send what the server takes, or raise its limits"
		return why
	}
	return nil
}
