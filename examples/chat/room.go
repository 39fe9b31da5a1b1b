package main

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/websocket"
)

// The limits of a room. What it keeps and a burst are together well below what may wait for a
// client that reconnects (engine.Limits.HardCap). They count bytes as they are sent.
const (
	mostKept  = 200
	bytesKept = 128 << 10
	mostNames = 50       // in the list of people that is sent
	burst     = 64 << 10 // bytes that a member may say at once
	rate      = 16 << 10 // bytes per second that it may say in the long run
	overhead  = 1 << 10  // bytes that each message counts in addition: short ones cost pushes, too
)

// room is the people in it and their latest messages. Pushes happen while holding mu, so that
// everybody receives the same order; a push does not wait for a client.
type room struct {
	name  string
	most  int // the largest number of people
	store *store

	mu     sync.Mutex
	people map[websocket.Conn]string
	last   uint64 // number
	kept   []kept
	bytes  int // size of kept
}

// kept is a message and its encoded event.
type kept struct {
	number uint64
	id     string
	event  []byte
}

// The events that are sent to clients.
type (
	hello struct {
		Kind    string `json:"kind"`
		History string `json:"history"`
		First   uint64 `json:"first"` // the number of the oldest message that is kept
	}
	crowd struct {
		Kind   string   `json:"kind"`
		Count  int      `json:"count"`
		People []string `json:"people"`
	}
	said struct {
		Kind string `json:"kind"`
		message
	}
	refused struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
		Text string `json:"text"`
	}
)

// encode encodes an event for clients.
func encode(event any) []byte {
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // cannot happen: only strings and numbers
	}
	return text
}

// event is what clients are sent.
func (m message) event() []byte { return encode(said{"message", m}) }

// join adds a connection that has seen the messages up to a number, and sends it the later
// ones. It reports whether there was room.
func (r *room) join(c websocket.Conn, name string, seen uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.people) >= r.most {
		return false
	}
	if r.people == nil {
		r.people = make(map[websocket.Conn]string)
	}
	r.people[c] = name
	c.Text(encode(hello{"hello", r.store.history, r.last + 1 - uint64(len(r.kept))}))
	for _, k := range r.kept {
		if k.number > seen {
			c.Text(k.event)
		}
	}
	r.tellPeople()
	return true
}

// leave removes a connection.
func (r *room) leave(c websocket.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.people, c)
	r.tellPeople()
}

// say numbers a message, stores it and sends it to everybody. A message that was already said
// is sent again only to its sender, as it was then. A sender above its rate is disconnected,
// before those who read have too much waiting for them.
func (r *room) say(c websocket.Conn, who *member, m message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kept {
		if k.id == m.ID {
			c.Text(k.event)
			return nil
		}
	}
	m.Number = r.last + 1
	event := m.event()
	if !who.may(event, time.Now()) {
		return &websocket.CloseError{Code: websocket.PolicyViolation, Text: "you say too much at once"}
	}
	if err := r.store.add(r.name, m); err != nil {
		return err
	}
	r.keep(m, event)
	r.push(event)
	return nil
}

// keep stores a message and its event, and drops the oldest if there are too many.
func (r *room) keep(m message, event []byte) {
	r.last = m.Number
	r.kept = append(r.kept, kept{m.Number, m.ID, event})
	r.bytes += len(event)
	for len(r.kept) > mostKept || r.bytes > bytesKept {
		r.bytes -= len(r.kept[0].event)
		r.kept = r.kept[1:]
	}
}

// push sends an event to everybody, without waiting for anybody. A client that does not read
// is disconnected. For larger rooms there is websocket.Broadcast, but it pauses between
// batches, so mu must not be held.
func (r *room) push(event []byte) {
	p := websocket.Prepare(websocket.Text, event, nil)
	for c := range r.people {
		c.Send(p)
	}
}

// tellPeople sends everybody the list of people.
func (r *room) tellPeople() {
	names := slices.Compact(slices.Sorted(maps.Values(r.people)))
	r.push(encode(crowd{"people", len(r.people), names[:min(len(names), mostNames)]}))
}

// busy reports whether somebody is in the room; unused, whether it has neither people nor
// messages.
func (r *room) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.people) > 0
}

func (r *room) unused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.people) == 0 && r.last == 0
}
