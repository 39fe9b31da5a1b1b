package gateway

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/internal/mqtt"
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
	engine engine.Server
	spoken map[mqtt.Version]*mqttProtocol
	swept  sync.Once
	ticks  atomic.Uint32 // sweeps, one a second
	told   atomic.Bool   // that a client subscribes

	mu    sync.Mutex
	conns map[*mqttConn]bool
	wills map[string]*will // that wait, by client
}

// mqttConn is a client's connection.
type mqttConn struct {
	engine.Conn
	server  *Server
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
func (c *mqttConn) End(why error) error { return c.end(engine.ClosedHere, codeFor(why)) }

func (c *mqttConn) end(why engine.Reason, code mqtt.Code) error {
	if c.version != mqtt.V5 {
		c.Conn.Close(why)
		return nil
	}
	return c.Conn.End(why, mqtt.AppendDisconnect(nil, code, ""))
}

// codeFor returns the code for an error of the gateway.
func codeFor(err error) mqtt.Code {
	if r, is := errors.AsType[*framed.Refusal](err); is {
		err = refused(r.Result, r.Content)
	}
	switch {
	case err == nil, errors.Is(err, errDuplicate):
		return mqtt.Success
	case errors.Is(err, ErrGap), errors.Is(err, ErrHandshake):
		return mqtt.NotAccepted
	case errors.Is(err, errStale), errors.Is(err, ErrUnauthorised):
		return mqtt.NotAuthorised
	case errors.Is(err, ErrMoved), errors.Is(err, ErrFenced):
		return mqtt.TakenOver
	case errors.Is(err, errCrowded), errors.Is(err, errNoPlace), errors.Is(err, ErrTooMany):
		return mqtt.NoRoom
	case err == errInFlight:
		return mqtt.TooManyInFlight
	case err == errUnknown:
		return mqtt.UnknownID
	case errors.Is(err, ErrExpired):
		return mqtt.AdministratorsOrder
	case errors.Is(err, errTooSlow):
		return mqtt.Unavailable
	case errors.Is(err, ErrServerClosed):
		return mqtt.ShuttingDown
	case errors.Is(err, errTooLarge):
		return mqtt.TooLarge
	}
	return mqtt.Unspecified
}
