package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// socketPeer is a client on a WebSocket.
type socketPeer struct {
	t *testing.T
	c *websocket.Client
}

func dialSocket(t *testing.T, addr string) *socketPeer {
	t.Helper()
	c, err := websocket.Dial(soon(t), "ws://"+addr+"/", websocket.Options{})
	must(t, err)
	t.Cleanup(func() { c.Close(websocket.NormalClosure, "") })
	return &socketPeer{t, c}
}

func (p *socketPeer) send(kind websocket.Kind, packet wire.Packet) {
	p.t.Helper()
	if err := p.c.Write(soon(p.t), kind, wire.Append(nil, packet)[wire.HeaderSize:]); err != nil {
		p.t.Fatal(err)
	}
}

func (p *socketPeer) must(what wire.Command, id uint64, result wire.Result) wire.Packet {
	p.t.Helper()
	_, msg, err := p.c.Read(soon(p.t), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	packet, err := wire.Parse(msg)
	if err != nil || packet.Command != what || packet.ID != id || packet.Result != result {
		p.t.Fatalf("%+v, %v; want %v %d %v", packet, err, what, id, result)
	}
	return packet
}

// closed reads until the server closes, and fails when anything is acknowledged.
func (p *socketPeer) closed() {
	p.t.Helper()
	for {
		_, msg, err := p.c.Read(soon(p.t), nil)
		if err != nil {
			return
		}
		if packet, err := wire.Parse(msg); err != nil || packet.Result == wire.OK {
			p.t.Fatalf("%+v, %v", packet, err)
		}
	}
}

// hello says hello and waits for the welcome.
func (p *socketPeer) hello(h hello) welcome {
	p.t.Helper()
	p.send(websocket.Binary, wire.Packet{Command: wire.Conn, ID: 1, Content: h.append(nil)})
	w, err := parseWelcome(p.must(wire.ConnAck, 1, wire.OK).Content)
	must(p.t, err)
	return w
}

func (p *socketPeer) submit(seq uint64, data string) {
	p.t.Helper()
	p.send(websocket.Binary, wire.Packet{Command: wire.Submit, ID: seq, Content: []byte(data)})
}

// serveSockets has a server serve WebSockets. ended gets what ServeWebSocket returns.
func serveSockets(t *testing.T, s *Server) (addr string, ended <-chan error) {
	t.Helper()
	ln, returned := listen(t), make(chan error, 1)
	go func() { returned <- s.ServeWebSocket(ln) }()
	return ln.Addr().String(), returned
}

// TestWebSocket has one session go from a WebSocket to frames and back.
func TestWebSocket(t *testing.T) {
	log := newGate()
	srv := &Server{Log: log}
	up := serve(t, srv)
	addr, ended := serveSockets(t, srv)

	p := dialSocket(t, addr)
	w := p.hello(first("a"))
	p.send(websocket.Binary, wire.Packet{Command: wire.Conn, ID: 2})
	p.must(wire.ConnAck, 2, wire.OK) // a heartbeat
	for seq := range uint64(3) {
		p.submit(seq+1, fmt.Sprint(seq))
		p.must(wire.SubmitAck, seq+1, wire.OK)
	}
	p.submit(2, "1")
	p.must(wire.SubmitAck, 2, wire.OK) // a duplicate

	// No acknowledgement before the log has the record.
	log.set(true, nil)
	p.submit(4, "3")
	waitFor(t, "the record", func() bool { return srv.Stats().Queued == 1 })
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, msg, err := p.c.Read(brief, nil); err == nil {
		t.Fatalf("the server sent %x", msg)
	}
	log.set(false, nil)
	p.must(wire.SubmitAck, 4, wire.OK)

	frames := up.peer(t)
	if v := frames.hello(hello{epoch: w.epoch, next: 5, client: "a"}); v.last != 4 {
		t.Errorf("%+v", v)
	}
	p.closed() // fenced
	back := dialSocket(t, addr)
	back.hello(hello{epoch: w.epoch, next: 5, client: "a"})
	back.send(websocket.Binary, wire.Packet{Command: wire.Submit, ID: 9})
	back.must(wire.SubmitAck, 9, resultGap)
	back.closed()

	for name, c := range map[string]struct {
		kind   websocket.Kind
		packet wire.Packet
	}{
		"text":         {websocket.Text, wire.Packet{Command: wire.Conn, ID: 1}},
		"no hello":     {websocket.Binary, wire.Packet{Command: wire.Submit, ID: 1}},
		"wrong hello":  {websocket.Binary, wire.Packet{Command: wire.Conn, ID: 1, Content: []byte("hgw2")}},
		"wrong packet": {websocket.Binary, wire.Packet{Command: wire.Deliver, ID: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := dialSocket(t, addr)
			bad.send(c.kind, c.packet)
			bad.closed()
		})
	}
	if err := srv.Shutdown(soon(t)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != ErrServerClosed {
		t.Error(err)
	}
	if got := fmt.Sprint(records(t, log)); got != "map[a:[0 1 2 3]]" {
		t.Error(got)
	}
}

// A WebSocket that says no hello is closed after AuthTime; one that has said it stays.
func TestWebSocketAuthTime(t *testing.T) {
	srv := &Server{Log: newGate(), Limits: engine.Limits{AuthTime: time.Second}}
	addr, ended := serveSockets(t, srv)
	known := dialSocket(t, addr)
	known.hello(first("a"))
	dialSocket(t, addr).closed()
	known.submit(1, "still here")
	known.must(wire.SubmitAck, 1, wire.OK)
	if err := srv.Shutdown(soon(t)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != ErrServerClosed {
		t.Error(err)
	}
}

// TestDrainOfWebSockets: while frames wait for a log without space, a drain accepts no new WebSocket, and tells an idle one
// at once.
func TestDrainOfWebSockets(t *testing.T) {
	log := newGate()
	srv := &Server{Log: log, retry: time.Millisecond}
	up := serve(t, srv)
	addr, ended := serveSockets(t, srv)
	idle, p := dialSocket(t, addr), up.peer(t)
	idle.hello(first("idle"))
	p.hello(first("a"))
	log.set(false, journal.ErrNoSpace)
	p.submit(1, "x")
	waitFor(t, "the full log", func() bool { return srv.Stats().Full })

	drained := make(chan error, 1)
	go func() { drained <- srv.Shutdown(soon(t)) }()
	_, msg, err := idle.c.Read(soon(t), nil)
	if why := websocket.Code(0); !errors.As(err, &why) || why != websocket.GoingAway {
		t.Errorf("an idle WebSocket got %x, %v", msg, err)
	}
	if c, err := websocket.Dial(soon(t), "ws://"+addr+"/", websocket.Options{}); err == nil {
		t.Error("a new WebSocket was accepted")
		c.Close(websocket.NormalClosure, "")
	}
	select {
	case err := <-drained:
		t.Errorf("the drain has ended: %v", err)
	default:
	}
	log.set(false, nil)
	p.must(wire.SubmitAck, 1, wire.OK)
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != ErrServerClosed {
		t.Error(err)
	}
}
