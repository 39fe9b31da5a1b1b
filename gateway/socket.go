package gateway

import (
	"errors"
	"time"

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

// send answers the request with OK.
func (a *answer) send(acks *framed.Batch, content []byte) {
	if a.socket == nil {
		acks.Add(a.frames, content)
		return
	}
	if a.socket.ack == wire.ConnAck {
		a.socket.reply.Conn().Trust()
	}
	a.socket.reply.Binary(payload(a.socket.ack, a.socket.id, wire.OK, content))
}

// fail answers the request with a refusal.
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

// payload is a frame without its length.
func payload(ack wire.Command, id uint64, result wire.Result, content []byte) []byte {
	return wire.Standard.Append(nil, wire.Packet{Command: ack, ID: id, Result: result, Content: content})[wire.HeaderSize:]
}

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

// upgrader returns the handler of WebSocket connections.
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
	conn := socket{c.Conn()}
	value := conn.Value()
	l, linked := value.(*link)
	ack := wire.SubmitAck
	if h, reads := value.(*holder); reads || value == nil && p.Command == wire.Conn && opensReader(p.Content) {
		return s.readerMessage(c, conn, h, p, dst)
	}
	switch p.Command {
	case wire.Conn:
		ack = wire.ConnAck
		if l, h, err := s.checkConn(conn, linked, p.Content); err != nil {
			return s.refuseSocket(conn, ack, p.ID, err)
		} else if l != nil {
			s.greetSocket(c, l, h, p.ID)
			return nil, nil
		}
	case wire.Submit:
		if !linked {
			return s.refuseSocket(conn, ack, p.ID, ErrHandshake)
		}
		later, err := s.queue.accept(l, p.ID, p.Content)
		switch {
		case later != nil:
			later.socket = &socketReply{c.Later(), ack, p.ID}
			s.queue.mu.Unlock()
			return nil, nil
		case err == ErrServerClosed:
			return nil, websocket.GoingAway
		case err == errDuplicate:
			s.count.duplicates.Add(1)
		case err != nil:
			return s.refuseSocket(conn, ack, p.ID, err)
		}
	default:
		return nil, websocket.ProtocolError
	}
	return append(dst, payload(ack, p.ID, wire.OK, nil)...), nil
}

// greetSocket queues a hello for the committer.
func (s *Server) greetSocket(c websocket.Call, l *link, h hello, id uint64) {
	c.Conn().SetValue(l)
	r := request{client: c.Context(), came: time.Now(), link: l, hello: h}
	r.reply.socket = &socketReply{c.Later(), wire.ConnAck, id}
	if !s.queue.ask(func(p *pack) { p.requests = append(p.requests, r) }) {
		l.conn.Close()
	}
}

// refuseSocket sends err to the client and closes the WebSocket.
func (s *Server) refuseSocket(conn socket, ack wire.Command, id uint64, err error) ([]byte, error) {
	s.count.refused.Add(1)
	why := refusal(err)
	conn.Binary(payload(ack, id, why.Result, why.Content))
	conn.Close()
	return nil, nil
}
