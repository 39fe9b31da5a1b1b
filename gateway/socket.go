package gateway

import (
	"encoding/binary"
	"errors"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// answer is a pending reply on either kind of connection.
type answer struct {
	frames framed.Reply
	socket *socketReply // nil: frames
}

func (a *answer) send(acks *framed.Batch, content []byte) {
	if a.socket == nil {
		acks.Add(a.frames, content)
		return
	}
	a.socket.reply.Binary(payload(a.socket.ack, a.socket.id, wire.OK, content))
}

func (a *answer) fail(acks *framed.Batch, why *framed.Refusal) {
	if a.socket == nil {
		acks.Fail(a.frames, why)
		return
	}
	a.socket.reply.Binary(payload(a.socket.ack, a.socket.id, why.Result, why.Content))
}

// socketReply is a pending reply on a WebSocket.
type socketReply struct {
	reply websocket.Reply
	ack   wire.Command
	id    uint64
}

func payload(ack wire.Command, id uint64, result wire.Result, content []byte) []byte {
	return wire.Standard.Append(nil, wire.Packet{Command: ack, ID: id, Result: result, Content: content})[wire.HeaderSize:]
}

// frames is a connection that speaks frames.
type frames struct{ framed.Conn }

func (f frames) deliver(id uint64, content []byte) error { return f.Push(id, content) }

// socket is a client's WebSocket.
type socket struct{ websocket.Conn }

// Close closes the connection with the code for a client's mistake.
func (s socket) Close() { s.Conn.Close(websocket.PolicyViolation, "") }

// End sends why's result under id 0 and closes the connection.
func (s socket) End(why error) error {
	if r, ok := errors.AsType[*framed.Refusal](why); ok {
		s.Binary(payload(wire.ConnAck, 0, r.Result, r.Content))
	}
	return s.Conn.Close(websocket.PolicyViolation, "")
}

func (s socket) deliver(id uint64, content []byte) error {
	var head [9]byte
	head[0] = byte(wire.Deliver)
	binary.BigEndian.PutUint64(head[1:], id)
	return s.Binary(head[:], content)
}

func (s *Server) upgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		Message:     s.message,
		Closed:      func(c websocket.Conn, _ websocket.Code, _ engine.Reason) { s.closed(c.Value()) },
		AuthLater:   true,
		MessageSize: s.limits.FrameSize,
		Limits:      s.Limits,
		Logger:      s.Logger,
	}
}

// message handles one binary message, which is a frame without its length.
func (s *Server) message(c websocket.Call, dst, msg []byte) ([]byte, error) {
	if c.Kind() != websocket.Binary {
		return nil, websocket.UnsupportedData
	}
	p, err := wire.Standard.Parse(msg)
	if err != nil {
		return nil, websocket.ProtocolError
	}
	conn, ack, waits := socket{c.Conn()}, wire.ConnAck, false
	later := func() answer { return answer{socket: &socketReply{c.Later(), ack, p.ID}} }
	switch p.Command {
	case wire.Conn:
		waits, err = s.greet(conn, c.Context, p.Content, later)
	case wire.Submit:
		ack = wire.SubmitAck
		waits, err = s.take(conn.Value(), c.Context, p.ID, p.Content, later)
		if err == ErrServerClosed || err == errGone {
			return nil, websocket.GoingAway
		}
	default:
		return nil, websocket.ProtocolError
	}
	switch {
	case waits:
		return nil, nil
	case err != nil:
		s.count.add(func(st *Stats) { st.Refused++ })
		why := refusal(err)
		conn.Binary(payload(ack, p.ID, why.Result, why.Content))
		conn.Close()
		return nil, nil
	}
	return append(dst, payload(ack, p.ID, wire.OK, nil)...), nil
}
