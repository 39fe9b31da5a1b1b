package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/websocket"
)

// The limits of a room. bytesKept and burst together are well below what may wait for a newcomer
// (engine.Limits.HardCap). They count bytes as they are sent: JSON encodes one that was said as up to six.
const (
	mostMembers = 5000
	mostWaiting = 1000      // messages that are not sent yet
	mostKept    = 100       // messages that a newcomer gets
	bytesKept   = 128 << 10 // of these messages, encoded
	mostNames   = 20        // in the list of people
	burst       = 64 << 10  // bytes that a member may say at once, encoded
	rate        = 16 << 10  // bytes per second that it may say in the long run
	overhead    = 1 << 10   // bytes that each message counts beyond its text: short ones cost sends, too
)

// member is the value of a connection. It is used by one message at a time.
type member struct {
	room *room
	paid time.Time // when the rate has made up for all that it has said
}

// may counts a message, and reports whether the member is within its rate.
func (m *member) may(text []byte, now time.Time) bool {
	if m.paid.Before(now) {
		m.paid = now
	}
	m.paid = m.paid.Add(time.Duration(len(text)+overhead) * time.Second / rate)
	return m.paid.Sub(now) <= burst*time.Second/rate
}

// room is a chat room. What happens in it is a step, and one goroutine takes the steps in order: so
// everybody gets the same messages in the same order, and a newcomer gets what is kept and then every
// later message, without a gap. No lock is held while a message is sent.
type room struct {
	mu      sync.Mutex
	steps   []step // that are not taken yet
	waiting int    // messages that were not sent yet, also of steps that are taken
	running bool   // there is a goroutine that takes them
	count   int    // people who have joined and not left

	// Only the goroutine that takes the steps uses these.
	people map[seat]string
	last   uint64   // number of the last message
	kept   [][]byte // the latest messages, encoded
	bytes  int      // size of kept
}

// step is one of three things: somebody joins, leaves or says something.
type step struct {
	who  seat
	name string          // of somebody who joins
	text json.RawMessage // that is said, encoded
	gone bool
}

// The events that are sent.
type (
	said struct {
		Number uint64          `json:"number"`
		Name   string          `json:"name"`
		Text   json.RawMessage `json:"text"`
	}
	present struct {
		Count  int      `json:"count"`
		People []string `json:"people"`
	}
)

// take adds a step, and starts the goroutine that takes it unless there is one. It reports whether
// there was room. Somebody who leaves always has room.
func (r *room) take(s step, running *sync.WaitGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case s.gone:
		r.count--
	case s.text != nil:
		if r.waiting == mostWaiting {
			return false
		}
		r.waiting++
	default:
		if r.count == mostMembers {
			return false
		}
		r.count++
	}
	r.steps = append(r.steps, s)
	if !r.running {
		r.running = true
		running.Go(r.run)
	}
	return true
}

// run takes steps until there are none. An idle room has no goroutine.
func (r *room) run() {
	for steps := r.next(0); len(steps) > 0; {
		sent, changed := 0, false
		for _, s := range steps {
			switch {
			case s.gone:
				delete(r.people, s.who)
			case s.text != nil:
				r.say(s)
				sent++
				continue
			default:
				r.join(s)
			}
			changed = true
		}
		if changed {
			r.tellPeople() // once for all who came and went together
		}
		steps = r.next(sent)
	}
}

// next takes the steps that wait, once sent messages of those before are sent.
func (r *room) next(sent int) []step {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.steps
	r.steps, r.waiting = nil, r.waiting-sent
	r.running = len(steps) > 0
	return steps
}

// join sends a newcomer what is kept.
func (r *room) join(s step) {
	r.people[s.who] = s.name
	for _, text := range r.kept {
		s.who.push(text)
	}
}

// say sends a message to everybody. Somebody who does not read is disconnected by the engine; that
// is a step like any other, which comes later.
func (r *room) say(s step) {
	name, here := r.people[s.who]
	if !here {
		return // it left before its message was sent
	}
	r.last++
	text := encode(said{r.last, name, s.text})
	r.kept = append(r.kept, text)
	r.bytes += len(text)
	for len(r.kept) > mostKept || r.bytes > bytesKept {
		r.bytes -= len(r.kept[0])
		r.kept = slices.Delete(r.kept, 0, 1)
	}
	r.tell(text, false)
}

// tellPeople sends everybody who is present. The next list replaces this one, so for a client that
// reads slowly it may be dropped; messages never are.
func (r *room) tellPeople() {
	names := slices.Compact(slices.Sorted(maps.Values(r.people)))
	r.tell(encode(present{len(r.people), names[:min(len(names), mostNames)]}), true)
}

// tell sends an event to everybody, or only offers it.
func (r *room) tell(text []byte, offered bool) {
	p := websocket.Prepare(websocket.Text, text, nil)
	if offered {
		p = p.Droppable()
	}
	websocket.Broadcast(context.Background(), browsers(r.people), p)
	pushAll(r.people, text, offered)
}

func encode(event any) []byte {
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // cannot happen: only strings and numbers
	}
	return text
}
