package main

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/hone-go/hone/websocket"
)

// The limits of a room. What it keeps is less than may wait for a client that comes back
// (engine.Limits.HardCap).
const (
	mostKept  = 200
	bytesKept = 128 << 10
	mostNames = 50 // that are told of those who are there
)

// room is the people in it, and what they have said last. Whoever holds mu may push, so
// everybody gets the same in the same order; a push does not wait for a client.
type room struct {
	name  string
	most  int // people
	store *store

	mu     sync.Mutex
	people map[websocket.Conn]string
	last   uint64 // number
	kept   []kept
	bytes  int // of kept
}

// kept is a message, and the event that clients are sent.
type kept struct {
	number uint64
	id     string
	event  []byte
}

// The events that clients are sent.
type (
	hello struct {
		Kind    string `json:"kind"`
		History string `json:"history"`
		First   uint64 `json:"first"` // the number of the first message that is kept
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

// encode is an event as clients are sent it.
func encode(event any) []byte {
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// join adds a connection, which has seen the messages up to a number, and tells it of the
// others. It reports whether there was room.
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

// say numbers what a connection says, keeps it and sends it to everybody. What has been said
// before is sent as it was then, to that connection alone.
func (r *room) say(c websocket.Conn, m message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kept {
		if k.id == m.ID {
			c.Text(k.event)
			return nil
		}
	}
	m.Number = r.last + 1
	if err := r.store.add(r.name, m); err != nil {
		return err
	}
	r.push(r.keep(m))
	return nil
}

// keep keeps a message, drops the oldest where there are too many, and returns its event.
func (r *room) keep(m message) []byte {
	event := encode(said{"message", m})
	r.last = m.Number
	r.kept = append(r.kept, kept{m.Number, m.ID, event})
	r.bytes += len(event)
	for len(r.kept) > mostKept || r.bytes > bytesKept {
		r.bytes -= len(r.kept[0].event)
		r.kept = r.kept[1:]
	}
	return event
}

// push sends an event to everybody. A client that does not read is disconnected, and
// nobody waits for it. websocket.Broadcast is for larger crowds: it pauses between some,
// which mu must not be held for.
func (r *room) push(event []byte) {
	p := websocket.Prepare(websocket.Text, event, nil)
	for c := range r.people {
		c.Send(p)
	}
}

// tellPeople tells everybody who is there.
func (r *room) tellPeople() {
	names := slices.Compact(slices.Sorted(maps.Values(r.people)))
	r.push(encode(crowd{"people", len(r.people), names[:min(len(names), mostNames)]}))
}

// busy says whether somebody is there, and unused whether nobody is or has said anything.
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
