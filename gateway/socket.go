package gateway

import (
	"encoding/binary"
	"errors"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// answer is a pending reply through any door.
type answer struct {
	frames framed.Reply
	other  replier // nil: frames, whose replies go in batches
}

func (a *answer) send(acks *framed.Batch, content []byte) {
	if a.other == nil {
		acks.Add(a.frames, content)
		return
	}
	a.other.send(content)
}

func (a *answer) fail(acks *framed.Batch, why *framed.Refusal) {
	if a.other == nil {
		acks.Fail(a.frames, why)
		return
	}
	a.other.fail(why)
}

// socketReply is a pending reply on a WebSocket.
type socketReply struct {
	reply websocket.Reply
	ack   wire.Command
	id    uint64
}

func (r *socketReply) send(content []byte) { r.reply.Binary(payload(r.ack, r.id, wire.OK, content)) }

func (r *socketReply) fail(why *framed.Refusal) {
	r.reply.Binary(payload(r.ack, r.id, why.Result, why.Content))
}

func payload(ack wire.Command, id uint64, result wire.Result, content []byte) []byte {
	return wire.Append(nil, wire.Packet{Command: ack, ID: id, Result: result, Content: content})[wire.HeaderSize:]
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
