package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/websocket"
)

//go:embed page
var embedded embed.FS

// Limits of what clients may send. longestMessage is a longestText of characters that are each
// encoded as two \uXXXX, plus a margin.
const (
	longestText    = 2000 // characters
	longestName    = 24   // of people and rooms
	longestMessage = 32 << 10
	mostRooms      = 1000
)

// fits reports whether a text is not empty, has at most longest characters, and only allowed
// ones.
func fits(text string, longest int, allowed func(rune) bool) bool {
	n := utf8.RuneCountInString(text)
	return utf8.ValidString(text) && n > 0 && n <= longest && !strings.ContainsFunc(text, func(r rune) bool { return !allowed(r) })
}

// inWord reports whether r may occur in the names of rooms and the ids of messages.
func inWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N) || r == '-' || r == '_'
}

// chat is the set of all rooms.
type chat struct {
	store    *store
	roomSize int // people per room: each join or leave is a push to all of them
	mu       sync.Mutex
	byName   map[string]*room
}

// newChat restores the rooms from a history file.
func newChat(file string) (*chat, error) {
	c := &chat{roomSize: 1000, byName: make(map[string]*room)}
	var err error
	c.store, err = openStore(file, func(in string, m message) {
		if c.byName[in] == nil {
			c.byName[in] = &room{name: in, most: c.roomSize}
		}
		c.byName[in].keep(m, m.event())
	})
	for _, r := range c.byName {
		r.store = c.store
	}
	return c, err
}

// handler serves the page, the list of rooms and the connections.
func (c *chat) handler() http.Handler {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // cannot happen: it is embedded above
	}
	files := http.FileServerFS(page)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /rooms", c.list)
	mux.Handle("GET /socket", &websocket.Upgrader{Open: c.open, Message: c.message, Closed: c.closed, MessageSize: longestMessage})
	return mux
}

// list answers with the rooms that have people in them.
func (c *chat) list(w http.ResponseWriter, _ *http.Request) {
	names := []string{}
	for _, r := range c.all() {
		if r.busy() {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(names[:min(len(names), 100)])
}

func (c *chat) all() []*room {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.byName))
}

// member identifies the person on a connection; it is the connection's value.
type member struct {
	name string
	room *room
	paid time.Time // when the rate has made up for all that it has said
}

// may counts an event that a member says, and reports whether the member is within its rate.
func (m *member) may(event []byte, now time.Time) bool {
	if m.paid.Before(now) {
		m.paid = now
	}
	m.paid = m.paid.Add(time.Duration(len(event)+overhead) * time.Second / rate)
	return m.paid.Sub(now) <= burst*time.Second/rate
}

// open adds a connection to the room that its URL names.
func (c *chat) open(conn websocket.Conn, r *http.Request) error {
	q := r.URL.Query()
	name := strings.TrimSpace(q.Get("name"))
	if !fits(name, longestName, unicode.IsPrint) || !fits(q.Get("room"), longestName, inWord) {
		return &websocket.Refusal{Status: http.StatusBadRequest, Text: fmt.Sprintf("choose a name and a room of up to %d characters", longestName)}
	}
	in, err := c.room(q.Get("room"))
	if err != nil {
		return err
	}
	seen, _ := strconv.ParseUint(q.Get("seen"), 10, 64) // anything other than a number means that it has seen nothing
	if q.Get("history") != c.store.history {
		seen = 0
	}
	conn.SetValue(&member{name: name, room: in})
	if !in.join(conn, name, seen) {
		return &websocket.Refusal{Status: http.StatusServiceUnavailable, Text: "the room is full; join another"}
	}
	return nil
}

// room returns the room with a name, and creates it if there is none.
func (c *chat) room(name string) (*room, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byName[name]; r != nil {
		return r, nil
	}
	for old, r := range c.byName {
		if len(c.byName) >= mostRooms && r.unused() {
			delete(c.byName, old)
		}
	}
	if len(c.byName) >= mostRooms {
		return nil, &websocket.Refusal{Status: http.StatusServiceUnavailable, Text: "there are too many rooms; join one of them"}
	}
	r := &room{name: name, most: c.roomSize, store: c.store}
	c.byName[name] = r
	return r, nil
}

// message handles a message from a client. The sender gets it back like everybody else, as a
// push: an answer could arrive after later pushes. Only refusals are answers.
func (c *chat) message(call websocket.Call, dst, msg []byte) ([]byte, error) {
	var said struct{ ID, Text string }
	if err := json.Unmarshal(msg, &said); err != nil || !fits(said.ID, 64, inWord) {
		return nil, websocket.PolicyViolation
	}
	m := message{ID: said.ID, Text: strings.TrimSpace(said.Text), At: time.Now().UnixMilli()}
	if n := utf8.RuneCountInString(m.Text); n == 0 || n > longestText {
		return append(dst, encode(refused{"refused", m.ID, fmt.Sprintf("A message has 1 to %d characters.", longestText)})...), nil
	}
	who := call.Conn().Value().(*member)
	m.Name = who.name
	if err := who.room.say(call.Conn(), who, m); errors.Is(err, websocket.PolicyViolation) {
		return nil, err
	} else if err != nil {
		return append(dst, encode(refused{"refused", m.ID, "The server cannot keep this message: " + err.Error()})...), nil
	}
	return nil, nil // no answer
}

// closed removes a connection from its room.
func (c *chat) closed(conn websocket.Conn, _ websocket.Code, _ engine.Reason) {
	if who, ok := conn.Value().(*member); ok {
		who.room.leave(conn)
	}
}
