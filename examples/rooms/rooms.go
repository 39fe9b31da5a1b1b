package main

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"time"
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
		all.byName[name] = &room{people: make(map[seat]string)}
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
	m, no := all.join(seat{browser: c}, req.PathValue("room"), req.URL.Query().Get("name"))
	if no != nil {
		return no
	}
	c.SetValue(m)
	return nil
}

// join gives somebody a seat in a room.
func (all *rooms) join(who seat, room, name string) (*member, *websocket.Refusal) {
	r := all.byName[room]
	name = strings.TrimSpace(name)
	switch {
	case r == nil:
		return nil, &websocket.Refusal{Status: http.StatusNotFound, Text: "there is no such room"}
	case name == "" || utf8.RuneCountInString(name) > 24 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, &websocket.Refusal{Status: http.StatusBadRequest, Text: "choose a name of 1 to 24 characters"}
	case !r.take(step{who: who, name: name}, &all.running):
		return nil, &websocket.Refusal{Status: http.StatusServiceUnavailable, Text: "the room is full"}
	}
	return &member{room: r}, nil
}

// message answers nothing: the sender gets its message in its place among the others. One that says too
// much is closed at once, before its messages fill the room or what waits for the members.
func (all *rooms) message(call websocket.Call, _, msg []byte) ([]byte, error) {
	if call.Kind() != websocket.Text {
		return nil, websocket.UnsupportedData
	}
	if no := all.say(call.Conn().Value().(*member), seat{browser: call.Conn()}, msg); no != nil {
		return nil, no
	}
	return nil, nil
}

// say takes a member's message, or says why the member has to go.
func (all *rooms) say(m *member, who seat, msg []byte) *websocket.CloseError {
	if msg = bytes.TrimSpace(msg); len(msg) == 0 {
		return nil
	}
	text := encode(string(msg))
	if !m.may(text, time.Now()) {
		return &websocket.CloseError{Code: websocket.PolicyViolation, Text: "you say too much at once"}
	}
	if !m.room.take(step{who: who, text: text}, &all.running) {
		return &websocket.CloseError{Code: websocket.TryAgainLater, Text: "too many messages wait in this room"}
	}
	return nil
}

// closed is called once for each connection that open has let in, also for one that was too slow.
func (all *rooms) closed(c websocket.Conn, _ websocket.Code, _ engine.Reason) {
	c.Value().(*member).room.take(step{who: seat{browser: c}, gone: true}, &all.running)
}
