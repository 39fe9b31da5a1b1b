package websocket_test

import (
	"context"
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

// orderly is a room in which everybody sees the same messages in the same order: one goroutine takes
// the steps, so a Broadcast that pauses holds up nobody but the room. examples/rooms/README.md has the whole.
type orderly struct {
	mu      sync.Mutex
	steps   []func() // joins, leaves and messages, in order
	running bool

	members map[websocket.Conn]string // only for the goroutine that takes the steps
}

func (r *orderly) take(step func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps = append(r.steps, step); !r.running { // a service bounds the steps
		r.running = true
		go r.run()
	}
}

func (r *orderly) run() {
	for {
		r.mu.Lock()
		steps := r.steps
		r.steps, r.running = nil, len(steps) > 0
		r.mu.Unlock()
		if len(steps) == 0 {
			return
		}
		for _, step := range steps {
			step()
		}
	}
}

func (r *orderly) say(format string, args ...any) {
	p := websocket.Prepare(websocket.Text, fmt.Appendf(nil, format, args...), nil)
	websocket.Broadcast(context.Background(), maps.Keys(r.members), p)
}

// A room that keeps the order of messages and tells who is present.
func Example_rooms() {
	r := &orderly{members: make(map[websocket.Conn]string)}
	srv := &http1.Server{Handler: &websocket.Upgrader{
		Open: func(c websocket.Conn, req *http.Request) error {
			name := req.URL.Query().Get("name")
			r.take(func() {
				r.members[c] = name
				r.say("%s joined, %d here", name, len(r.members))
			})
			return nil
		},
		Message: func(call websocket.Call, _, msg []byte) ([]byte, error) {
			c, text := call.Conn(), string(msg)
			r.take(func() { r.say("%s: %s", r.members[c], text) })
			return nil, nil // the sender gets its message in its place among the others
		},
		Closed: func(c websocket.Conn, _ websocket.Code, _ engine.Reason) { // also for one that did not read
			r.take(func() {
				name := r.members[c]
				delete(r.members, c)
				r.say("%s left, %d here", name, len(r.members))
			})
		},
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	join := func(name string) *websocket.Client {
		c, err := websocket.Dial(ctx, "ws://"+ln.Addr().String()+"?name="+name, websocket.Options{})
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	ada := join("Ada")
	hear := func() {
		_, msg, err := ada.Read(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", msg)
	}
	hear()
	ben := join("Ben")
	hear()
	ben.Write(ctx, websocket.Text, []byte("hello"))
	hear()
	ben.Close(websocket.NormalClosure, "")
	hear()
	ada.Close(websocket.NormalClosure, "")
	// Output:
	// Ada joined, 1 here
	// Ben joined, 2 here
	// Ben: hello
	// Ben left, 1 here
}
