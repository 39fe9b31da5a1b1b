package gateway

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/websocket"
)

// MQTT over WebSocket, at a path of the door for posts: the bytes of binary messages, wherever each of these ends.

const (
	mqttPath    = "/mqtt"
	subprotocol = "mqtt"
)

// mqttSocket is a WebSocket of a client.
type mqttSocket struct {
	websocket.Conn
	answered chan struct{} // closed when CONNECT is answered
	over     atomic.Bool   // its last packet is sent
	unread   []byte        // the beginning of a packet
	held     atomic.Int32  // bytes of memory for it
	since    atomic.Uint32 // the tick when it came
}

// hold keeps the beginning of a packet. It reports false if such beginnings of all connections take more than
// Limits.TotalInput.
func (s *Server) hold(c *mqttConn, unread []byte, goesOn bool) bool {
	if len(unread) == 0 {
		unread = nil
	} else if !goesOn {
		unread = bytes.Clone(unread)
		c.socket.since.Store(s.mqtt.ticks.Load())
	}
	c.socket.unread = unread
	more := int64(cap(unread)) - int64(c.socket.held.Swap(int32(cap(unread))))
	return s.mqtt.unread.Add(more) <= int64(s.limits.TotalInput) || more <= 0
}

// isLate reports whether a packet takes too long to arrive.
func (m *mqttSocket) isLate(now uint32, l *engine.Limits) bool {
	if m == nil || m.held.Load() == 0 {
		return false
	}
	allowed := time.Duration(float64(m.held.Load()) / float64(l.FrameRate) * float64(time.Second))
	return time.Duration(now-m.since.Load())*time.Second-allowed > l.FrameTime
}

func (s *Server) mqttUpgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		Protocols: []string{subprotocol},
		Origins:   func(*http.Request) bool { return true }, // servePost has checked it
		Open: func(c websocket.Conn, r *http.Request) error {
			if s.mqtt.upgrader.Subprotocol(r) == "" {
				return &websocket.Refusal{Status: http.StatusBadRequest, Text: "the subprotocol is " + subprotocol}
			}
			c.SetValue(&mqttConn{server: s, socket: &mqttSocket{Conn: c, answered: make(chan struct{})}})
			return nil
		},
		Message: s.mqttMessage,
		Closed: func(c websocket.Conn, _ websocket.Code, why engine.Reason) {
			lost := c.Value().(*mqttConn)
			s.hold(lost, nil, false)
			s.lostMQTT(lost, why)
		},
		AuthLater:   true,
		MessageSize: max(s.limits.FrameSize, mostHead),
		Logger:      s.Logger,
	}
}

// mqttMessage serves the packets that a message completes.
func (s *Server) mqttMessage(call websocket.Call, _, msg []byte) ([]byte, error) {
	if call.Kind() != websocket.Binary {
		return nil, websocket.UnsupportedData
	}
	c, t := call.Conn().Value().(*mqttConn), call.Turn()
	in, sent, err := msg, len(t.Out), error(nil)
	kept := len(c.socket.unread) > 0
	if kept {
		in = append(c.socket.unread, msg...)
	}
	for need := 0; need == 0 && err == nil; {
		before, used := c.version, 0
		used, need, err = s.mqtt.spoken[before].serveAll(t, c, in)
		in, kept = in[used:], kept && used == 0
		if len(t.Out) > sent {
			c.socket.Binary(t.Out[sent:])
			t.Out = t.Out[:sent]
		}
		switch {
		case before > 0 || need > 0 || err != nil:
		case c.link.conn == nil: // CONNECT is refused
			return nil, nil
		case len(in) > 0: // what follows CONNECT waits for its answer
			select {
			case <-c.socket.answered:
			case <-call.Context().Done():
			}
		}
	}
	if !s.hold(c, in, kept) && err == nil {
		c.end(mqtt.NoRoom)
		return nil, nil
	}
	if err != nil {
		c.socket.Close(websocket.NormalClosure, "")
	}
	return nil, nil
}

// finish ends the connection with a last packet, if there is one.
func (c *mqttConn) finish(why engine.Reason, last []byte) error {
	if c.socket == nil {
		return c.Conn.End(why, last)
	}
	if !c.socket.over.Swap(true) && len(last) > 0 { // its client may take its time to close
		c.socket.Binary(last)
	}
	return c.socket.Close(websocket.NormalClosure, "")
}

// answer sends what was promised.
func (c *mqttConn) answer(reply engine.Reply, b ...byte) {
	if c.socket != nil { // over WebSocket
		c.socket.Binary(b)
		b = nil
	}
	reply.Send(b)
}
