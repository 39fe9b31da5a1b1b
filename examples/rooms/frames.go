package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// seat is the connection of somebody in a room: a browser's WebSocket, or one that speaks frames. The other
// is zero.
type seat struct {
	browser websocket.Conn
	frames  framed.Conn
}

func (s seat) isBrowser() bool { return s.frames == framed.Conn{} }

// push sends one event. A seat whose connection has ended is cleared by a step that comes later.
func (s seat) push(text []byte) {
	if s.isBrowser() {
		s.browser.Text(text)
	} else {
		s.frames.Push(0, text)
	}
}

// browsers are the WebSockets among people.
func browsers(people map[seat]string) iter.Seq[websocket.Conn] {
	return func(yield func(websocket.Conn) bool) {
		for who := range people {
			if who.isBrowser() && !yield(who.browser) {
				return
			}
		}
	}
}

// pushAll is websocket.Broadcast for those who speak frames, with the same pauses.
func pushAll(people map[seat]string, text []byte, offered bool) {
	push, n, slice := framed.Conn.Push, 0, 32*runtime.GOMAXPROCS(0)
	if offered {
		push = framed.Conn.Offer
	}
	for who := range people {
		if who.isBrowser() {
			continue
		}
		if n++; n%slice == 0 {
			time.Sleep(time.Millisecond)
		}
		push(who.frames, 0, text)
	}
}

// framesServer serves the rooms to clients that speak frames. Their Conn packet is "ROOM NAME" and gives them a
// seat, a Submit says something, and what is said arrives as pushes.
func (all *rooms) framesServer() *framed.Server {
	return &framed.Server{
		Connect: framed.HandlerFunc(all.connect),
		Handler: framed.HandlerFunc(all.submit),
		Limits:  engine.Limits{AuthTime: 10 * time.Second, FrameSize: 4 << 10},
		OnClose: func(c framed.Conn, _ engine.Reason) {
			if m, ok := c.Value().(*member); ok {
				m.room.take(step{who: seat{frames: c}, gone: true}, &all.running)
			}
		},
	}
}

// connect also answers heartbeats, which are empty.
func (all *rooms) connect(call framed.Call, dst, req []byte) ([]byte, error) {
	c := call.Conn()
	room, name, _ := strings.Cut(string(req), " ")
	switch joined := c.Value() != nil; {
	case joined && len(req) == 0:
		return dst, nil
	case joined:
		return dst, wire.Malformed
	}
	m, no := all.join(seat{frames: c}, room, name)
	if no != nil {
		return dst, &framed.Refusal{Result: wire.Unauthorised, Content: []byte(no.Text)}
	}
	c.SetValue(m)
	return dst, nil
}

// submit answers when the message is taken. The sender also gets it as a push, in its place among the others.
func (all *rooms) submit(call framed.Call, dst, req []byte) ([]byte, error) {
	c := call.Conn()
	m, ok := c.Value().(*member)
	if !ok {
		return dst, wire.Unauthorised
	}
	if no := all.say(m, seat{frames: c}, req); no != nil {
		c.End(&framed.Refusal{Result: wire.Overloaded, Content: []byte(no.Text)})
		return dst, wire.Overloaded
	}
	return dst, nil
}

// joinFrames is join over frames.
func joinFrames(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	heard := make(chan struct{}, 1)
	client := &framed.Mux{
		Addr: u.Host,
		Credentials: func(context.Context) ([]byte, error) { // sent again after each reconnect
			return []byte(path.Base(u.Path) + " " + u.Query().Get("name")), nil
		},
		Client: framed.ClientOptions{OnDeliver: func(_ uint64, event []byte) {
			fmt.Fprintf(out, "%s\n", event)
			select {
			case heard <- struct{}{}:
			default:
			}
		}},
	}
	defer client.Close()
	if err := client.Open(ctx); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if _, err := client.Call(ctx, nil, lines.Bytes()); err != nil {
			return err
		}
	}
	for {
		select {
		case <-heard:
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
