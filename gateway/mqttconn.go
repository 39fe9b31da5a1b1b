package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/websocket"
)

// Limits of the door. Whoever takes fewer bytes in a packet than leastPacket could not be told why it is refused.
const (
	mostConnect = 8 << 10
	mostWill    = 4 << 10
	mostWills   = 10_000 // that wait
	leastPacket = 128
)

// Reasons of this door for the end of a connection.
const (
	keepAliveEnded = engine.Own + iota
	tooManyInFlight
	noRoom
)

// mqttDoor is the part of a Server that speaks MQTT.
type mqttDoor struct {
	engine   engine.Server
	upgrader *websocket.Upgrader
	spoken   map[mqtt.Version]*mqttProtocol
	swept    sync.Once     // a sweep a second has begun
	ticks    atomic.Uint32 // sweeps, one a second
	told     atomic.Bool   // that a client subscribes
	unread   atomic.Int64  // bytes of packets that have begun to arrive over WebSockets

	mu    sync.Mutex
	conns map[*mqttConn]bool
	wills map[string]*will // that wait, by client
}

// mqttConn is a client's connection.
type mqttConn struct {
	engine.Conn
	server  *Server
	socket  *mqttSocket // nil: it is not over WebSocket
	link    link
	client  string
	version mqtt.Version
	clean   bool // it begins without the client's session
	lasting bool // its session outlives it
	present bool // it goes on in the client's session
	welcome bool // it was welcomed; queue.mu guards it and present

	most      uint32        // bytes that the client takes in a packet; 0: no limit
	keepAlive uint32        // in ticks, with half of it more; 0: none
	seen      atomic.Uint32 // the tick of the newest packet
	owed      atomic.Int32  // answers that wait for the log
	will      *will
}

// will is what is stored when its client is lost.
type will struct {
	post  *post
	delay uint32 // in ticks
	due   uint32 // the tick
}

// mqttProtocol is how connections of one version are served; 0: those before their CONNECT.
type mqttProtocol struct {
	*Server
	version mqtt.Version
}

// resumes reports whether the connection goes on in a session, and notes whether the client does, too. queue.mu is held.
func (c *mqttConn) resumes(known *session) bool {
	c.present = !c.clean && known.takesPosts() && known.instance == lastingInstance && !known.recordsLost
	return known.takesPosts() && (c.present || len(known.held) == 0)
}

// Close ends the connection.
func (c *mqttConn) Close() { c.Conn.Close(engine.ClosedHere) }

// End ends the connection, and tells the client why if its version allows that.
func (c *mqttConn) End(why error) error { return c.end(codeFor(why)) }

func (c *mqttConn) end(code mqtt.Code) error {
	var last []byte
	if c.version == mqtt.V5 {
		last = mqtt.AppendDisconnect(nil, code, "")
	}
	return c.finish(reasonFor(code, engine.ClosedHere), last)
}

// codeFor returns the code for what has become of a message or a connection.
func codeFor(err error) mqtt.Code {
	if err == nil || err == errDuplicate {
		return mqtt.Success
	}
	return verdictOn(err).code
}

// reasonFor returns why the connection ends that a code ends.
func reasonFor(code mqtt.Code, other engine.Reason) engine.Reason {
	switch code {
	case mqtt.TooLarge:
		return engine.TooLarge
	case mqtt.TooManyInFlight:
		return tooManyInFlight
	case mqtt.NoRoom:
		return noRoom
	case mqtt.KeepAliveTimeout:
		return keepAliveEnded
	}
	return other
}
