package main

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// noSuchDevice answers a message to a device that is not logged in. An application may define
// codes in addition to those of package wire.
const noSuchDevice wire.Result = 100

// gateway tracks the devices that are logged in and carries messages between them. A
// connection's value is the name of its device.
type gateway struct {
	secret   string
	log      *slog.Logger
	messages atomic.Uint64 // carried so far; a message's number is the id of its Deliver
	times    timing

	mu      sync.Mutex
	devices map[string]framed.Conn // by name
}

func newGateway(secret string, log *slog.Logger) *gateway {
	return &gateway{secret: secret, log: log, devices: map[string]framed.Conn{}}
}

// server runs the gateway on an engine.
func (g *gateway) server(how engine.Engine) *framed.Server {
	return &framed.Server{
		Connect: g.times.around(g.recovered(framed.HandlerFunc(g.login))),
		Handler: g.times.around(g.recovered(authenticated(framed.HandlerFunc(g.carry)))),
		OnClose: func(c framed.Conn, _ engine.Reason) { g.leave(c) },
		Engine:  how,
		Logger:  g.log,
	}
}

// login answers a Conn packet: "name secret". An empty one is the heartbeat of a device that
// is logged in.
func (g *gateway) login(c framed.Call, dst, credentials []byte) ([]byte, error) {
	conn := c.Conn()
	if len(credentials) == 0 && conn.Value() != nil {
		return dst, nil
	}
	name, secret, _ := strings.Cut(string(credentials), " ")
	if name == "" || subtle.ConstantTimeCompare([]byte(secret), []byte(g.secret)) == 0 {
		return dst, wire.Unauthorised
	}
	g.leave(conn) // in case it was logged in under another name
	conn.SetValue(name)
	if before, replaced := g.enter(name, conn); replaced {
		before.Close()
	}
	return fmt.Appendf(dst, "welcome %s", name), nil
}

// carry answers a Submit packet: "to NAME text" goes to that device as a Deliver packet, "from
// NAME text". OK means that the message is queued, not that it has been read: Send does not
// wait, and a device that stops reading is disconnected.
func (g *gateway) carry(c framed.Call, dst, req []byte) ([]byte, error) {
	words := bytes.SplitN(req, []byte(" "), 3)
	if len(words) != 3 || string(words[0]) != "to" {
		return dst, wire.Malformed
	}
	to, ok := g.device(words[1])
	if !ok {
		return dst, noSuchDevice
	}
	message := fmt.Appendf(nil, "from %v %s", c.Conn().Value(), words[2])
	if err := to.Push(g.messages.Add(1), message); err != nil {
		return dst, noSuchDevice // it has just disconnected
	}
	return dst, nil
}

// enter makes conn the connection of the device, and returns the previous one.
func (g *gateway) enter(name string, conn framed.Conn) (before framed.Conn, replaced bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, replaced = g.devices[name]
	g.devices[name] = conn
	return before, replaced
}

// leave removes a connection, unless its device already has another one.
func (g *gateway) leave(conn framed.Conn) {
	name, _ := conn.Value().(string)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.devices[name] == conn {
		delete(g.devices, name)
	}
}

// device is the connection of the device with that name.
func (g *gateway) device(name []byte) (framed.Conn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	conn, ok := g.devices[string(name)]
	return conn, ok
}
