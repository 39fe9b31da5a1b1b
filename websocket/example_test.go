package websocket_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/websocket"
)

// An echo server, and a client that sends it a message.
func Example() {
	mux := http.NewServeMux()
	mux.Handle("/echo", &websocket.Upgrader{
		Message: func(c websocket.Call, dst, msg []byte) ([]byte, error) {
			return append(dst, msg...), nil
		},
	})
	srv := &http1.Server{Handler: mux}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := websocket.Dial(ctx, "ws://"+ln.Addr().String()+"/echo", websocket.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(websocket.NormalClosure, "")
	if err := c.Write(ctx, websocket.Text, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	kind, msg, err := c.Read(ctx, nil)
	fmt.Println(kind == websocket.Text, string(msg), err)
	// Output: true hello <nil>
}

// room holds the connections of a chat room.
type room struct {
	mu      sync.Mutex
	members map[websocket.Conn]bool
}

func (r *room) say(text []byte) {
	r.mu.Lock()
	members := maps.Clone(r.members)
	r.mu.Unlock()
	websocket.Broadcast(context.Background(), maps.Keys(members), websocket.Prepare(websocket.Text, text, nil))
}

// A chat room: a connection that Open accepts is a member until it ends, and each message is
// pushed to all members. Connections are values that can be map keys.
func ExampleBroadcast() {
	r := &room{members: map[websocket.Conn]bool{}}
	up := &websocket.Upgrader{
		Open: func(c websocket.Conn, req *http.Request) error {
			name := req.URL.Query().Get("name")
			if name == "" {
				return &websocket.Refusal{Status: http.StatusUnauthorized, Text: "who are you?"}
			}
			c.SetValue(name)
			r.mu.Lock()
			r.members[c] = true
			r.mu.Unlock()
			return nil
		},
		Message: func(c websocket.Call, _, msg []byte) ([]byte, error) {
			if c.Kind() != websocket.Text {
				return nil, websocket.UnsupportedData // closes the connection with this code
			}
			r.say(fmt.Appendf(nil, "%v: %s", c.Conn().Value(), msg))
			return nil, nil // no answer
		},
		Closed: func(c websocket.Conn, _ websocket.Code, _ engine.Reason) {
			r.mu.Lock()
			delete(r.members, c)
			r.mu.Unlock()
		},
	}
	srv := &http1.Server{Handler: up}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url := "ws://" + ln.Addr().String()
	_, err = websocket.Dial(ctx, url, websocket.Options{})
	if refusal, ok := errors.AsType[*websocket.Refusal](err); ok {
		fmt.Println(refusal.Status, refusal.Text)
	}
	ada, err := websocket.Dial(ctx, url+"?name=Ada", websocket.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ada.Write(ctx, websocket.Text, []byte("anybody here?"))
	_, msg, _ := ada.Read(ctx, nil)
	fmt.Printf("%s\n", msg)
	fmt.Println(ada.Close(websocket.NormalClosure, "bye"))
	// Output:
	// 401 who are you?
	// Ada: anybody here?
	// <nil>
}

// On plain net/http everything works too. Its server does not track hijacked connections, so
// its Shutdown must be made to close them.
func ExampleUpgrader_Shutdown() {
	up := &websocket.Upgrader{Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) {
		return append(dst, msg...), nil
	}}
	srv := &http.Server{Handler: up}
	srv.RegisterOnShutdown(func() { up.Shutdown(context.Background()) })
	fmt.Println(srv.Shutdown(context.Background()))
	// Output: <nil>
}
