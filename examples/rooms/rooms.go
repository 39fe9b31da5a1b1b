package main

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/websocket"
)

// rooms are all rooms, by name. There are never others, so clients cannot fill the memory with them.
type rooms struct {
	byName  map[string]*room
	running sync.WaitGroup // the goroutines of rooms in which something happens
}

func newRooms(names ...string) *rooms {
	all := &rooms{byName: make(map[string]*room)}
	for _, name := range names {
		all.byName[name] = &room{people: make(map[websocket.Conn]string)}
	}
	return all
}

// handler serves the rooms at /rooms/NAME?name=SOMEBODY.
func (all *rooms) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /rooms/{room}", &websocket.Upgrader{
		Open: all.open, Message: all.message, Closed: all.closed, MessageSize: 4 << 10,
	})
	return mux
}

// open is called before the request is answered. What is sent meanwhile waits behind the answer.
func (all *rooms) open(c websocket.Conn, req *http.Request) error {
	r := all.byName[req.PathValue("room")]
	name := strings.TrimSpace(req.URL.Query().Get("name"))
	switch {
	case r == nil:
		return &websocket.Refusal{Status: http.StatusNotFound, Text: "there is no such room"}
	case name == "" || utf8.RuneCountInString(name) > 24 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return &websocket.Refusal{Status: http.StatusBadRequest, Text: "choose a name of 1 to 24 characters"}
	}
	c.SetValue(r)
	if !r.take(step{who: c, name: name}, &all.running) {
		return &websocket.Refusal{Status: http.StatusServiceUnavailable, Text: "the room is full"}
	}
	return nil
}

// message answers nothing: the sender gets its message in its place among the others.
func (all *rooms) message(call websocket.Call, _, msg []byte) ([]byte, error) {
	if call.Kind() != websocket.Text {
		return nil, websocket.UnsupportedData
	}
	if msg = bytes.TrimSpace(msg); len(msg) == 0 {
		return nil, nil
	}
	r := call.Conn().Value().(*room)
	if !r.take(step{who: call.Conn(), text: bytes.Clone(msg)}, &all.running) {
		return nil, &websocket.CloseError{Code: websocket.TryAgainLater, Text: "too many messages wait in this room"}
	}
	return nil, nil
}

// closed is called once for each connection that open has let in, also for one that was too slow.
func (all *rooms) closed(c websocket.Conn, _ websocket.Code, _ engine.Reason) {
	c.Value().(*room).take(step{who: c, gone: true}, &all.running)
}
