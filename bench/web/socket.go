package web

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hone-go/hone/bench/service"
)

// What every server of WebSocket does: on EchoPath it answers each message with the same,
// and connections on CrowdPath are pushed to. Messages are binary, so that nobody needs to
// look whether they are UTF-8.
const (
	EchoPath  = "/echo"
	CrowdPath = "/crowd"
)

// Event is a message as a stream has it.
func Event(message []byte) []byte { return fmt.Appendf(nil, "data: %s\n\n", message) }

// Welcome is the message that a stream begins with.
const Welcome = "welcome"

// Streams are the open event streams of a server.
type Streams struct{ crowd service.Crowd[chan []byte] }

// Serve sends Welcome and then what is pushed, until the client has gone; flush sends what has been written.
func (s *Streams) Serve(w io.Writer, flush func() error, gone <-chan struct{}) {
	events := make(chan []byte, 1)
	events <- Event([]byte(Welcome))
	s.crowd.Add(events)
	defer s.crowd.Remove(events)
	for {
		select {
		case event := <-events:
			if _, err := w.Write(event); err != nil || flush() != nil {
				return
			}
		case <-gone:
			return
		}
	}
}

// ServeHTTP serves a stream, for servers that run handlers of net/http.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s.Serve(w, http.NewResponseController(w).Flush, r.Context().Done())
}

// Obey has the server push to its streams.
func (s *Streams) Obey(to *service.Pusher) {
	to.Count, to.Push = s.crowd.Len, func(message []byte) {
		event := Event(message)
		s.crowd.Each(func(events chan []byte) {
			select {
			case events <- event:
			default: // it has not sent the one before; the client misses this one and says so
			}
		})
	}
}

// Echoed is what a message to them carries.
func Echoed() []byte { return []byte(strings.Repeat("sixteen letters.", 4)) }

// Upgrade makes a WebSocket of a connection, of which it reads no byte too many.
func Upgrade(conn io.ReadWriter, path string) error {
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path)
	if err != nil {
		return err
	}
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("\r\n\r\n")); {
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
		got = append(got, one...)
	}
	if !bytes.HasPrefix(got, []byte("HTTP/1.1 101 ")) {
		return fmt.Errorf("the server refuses a WebSocket: %.40q", got)
	}
	return nil
}
