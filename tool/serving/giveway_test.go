package serving

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/websocket"
)

// At the limit of connections, an idle one gives way to a new one: in every service with --give-way, and in
// http always.
func TestGiveWay(t *testing.T) {
	for _, service := range ServiceNames() {
		for _, flag := range []bool{false, true} {
			f := &Options{
				Service: &spec.Choice{Value: service}, Logs: &spec.Choice{Value: "text"},
				Admin: "off", GiveWay: flag, Given: func(string) bool { return false },
			}
			f.Limits.limits = engine.Limits{Conns: 2}
			s, err := f.prepare(io.Discard)
			if service == WebService && flag {
				if err == nil {
					t.Error("http takes a flag without an effect")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.public, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.serve() }()
			for range 2 {
				c, err := ask(t, service, s.public.Addr().String())
				if err != nil {
					t.Fatalf("%s: %v", service, err)
				}
				defer c.Close()
			}
			gives := flag || service == WebService
			tries := 1
			if gives {
				tries = 1000 // a connection whose answer has just been sent is not idle yet
			}
			for err = errors.New("not asked"); err != nil && tries > 0; tries-- {
				var c io.Closer
				if c, err = ask(t, service, s.public.Addr().String()); err == nil {
					defer c.Close()
				}
			}
			displaced := func() uint64 { return s.server.Stats().Ended[engine.Displaced] }
			tick, late := time.NewTicker(time.Millisecond), time.After(30*time.Second)
			for waits := gives && err == nil; waits && displaced() == 0; { // the newcomer may be served before the other has ended
				select {
				case <-tick.C:
				case <-late:
					waits = false
				}
			}
			tick.Stop()
			if (err == nil) != gives || (displaced() > 0) != gives {
				t.Errorf("%s, --give-way %v: %v; %d connections have given way", service, flag, err, displaced())
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			s.server.Shutdown(over)
			<-served
		}
	}
}

// ask opens a connection to a service, and asks it something.
func ask(t *testing.T, service, addr string) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	switch service {
	case WebService:
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		io.WriteString(nc, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return nc, err
	case SocketService:
		c, err := websocket.Dial(ctx, "ws://"+addr+"/echo", websocket.Options{})
		if err != nil {
			return nil, err
		}
		if err := c.Write(ctx, websocket.Text, []byte("hello")); err != nil {
			return nil, err
		}
		_, _, err = c.Read(ctx, nil)
		return closing{c}, err
	}
	c, err := framed.Dial(ctx, addr, framed.ClientOptions{})
	if err != nil {
		return nil, err
	}
	_, err = c.Call(ctx, nil, nil)
	return c, err
}

// closing closes a WebSocket.
type closing struct{ *websocket.Client }

func (c closing) Close() error { return c.Client.Close(websocket.NormalClosure, "") }
