package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Histories: what clients, handlers and the operator of one server do, as plain values
// that are drawn, run, shrunk and printed.

// history is the life of one server.
type history struct {
	limits Limits
	tongue uint8 // protocol that connections speak first, see tongue
	shared bool  // connections share limits, so the model cannot predict when they are served
	secure bool  // over TLS
	moves  []move
}

// move is a step of a history. A move that is not possible, such as to settle a reply
// when none is owed, does nothing, so that every part of a history is a history.
type move struct {
	do     string    // see moves
	on     int       // number of the client
	n      int       // a count or an index
	size   int       // bytes
	asks   []request // of send
	cut    int       // of send: bytes per write; 0: one write
	back   int       // of send: bytes of the last request that a later move sends
	within []move    // of pass: between the sweeper's verdicts and their execution
}

// request is a message, and the program of the handler that serves it. Unless the program
// promises a reply or ends the connection, the reply follows it.
type request struct {
	size int // of the reply
	body int // bytes that the handler gets with the request
	tail int // bytes after them that it waits for (more)
	acts []act
}

// act is a step of a handler.
type act struct {
	do string // see acts
	n  int
}

// kind is a kind of move or act with its relative frequency in histories with private and
// with shared limits.
type kind struct {
	do              string
	private, shared int
}

var moveKinds = []kind{
	{"connect", 30, 30}, // size: of the server's send buffer; 0: the default
	{"connect tcp", 10, 10},
	{"connect adapter", 4, 4}, // a connection other than a plain socket
	{"send", 220, 250},
	{"rest", 20, 20},      // sends what an earlier send has kept back
	{"settle", 80, 80},    // sends the nth owed reply
	{"settle all", 8, 10}, // with Conn.SendAll
	{"push", 30, 40},
	{"release", 50, 40}, // opens the gate at which a handler waits
	{"close", 3, 3},     // n: index in closeReasons
	{"end", 3, 3},       // Conn.End
	{"shut", 4, 4},      // the client closes its sending side
	{"leave", 3, 4},     // the client closes
	{"reset", 2, 3},     // the client resets
	{"deaf", 0, 12},     // the client stops reading
	{"hear", 0, 12},
	{"idle", 2, 2},  // EndIdle
	{"pass", 6, 12}, // the clock advances by n seconds; then the sweeper runs
	{"calm", 0, 60}, // waits until the server seems to be at rest
	{"check", 4, 5}, // settles and reads everything; nothing may be left
	{"shutdown", 1, 1},
	{"force", 1, 1}, // ends the context of a shutdown
}

// Acts that end a handler come last. Those of loans with n > 0 wait at a gate.
var actKinds = []kind{
	{"hold", 10, 10},
	{"push", 14, 14}, // n: size
	{"part", 14, 14}, // appends n bytes to the reply
	{"flush", 12, 12},
	{"later", 40, 60},  // promises a reply
	{"answer", 12, 12}, // settles the request's last promise, with n bytes
	{"leave", 4, 4},
	{"gate", 8, 8}, // waits for the move release
	{"watch", 4, 4},
	{"store", 3, 3},
}

var endKinds = []kind{
	{"", 250, 250},
	{"panic", 4, 4},
	{"exit", 3, 3},
	{"close", 2, 2},
	{"say", 2, 2}, // Conn.End
	{"refuse", 2, 2},
	{"become", 8, 4},
	{"lend", 8, 6},
	{"lend ahead", 5, 4}, // reads too far
	{"lend keep", 2, 2},
	{"lend panic", 1, 1},
	{"lend exit", 1, 1},
	{"give", 2, 2},
}

// closeReasons are those of the move close. The last one drains the connection.
var closeReasons = []Reason{ClosedHere, AuthTimeout, ShuttingDown}

// The limits of time are far above what a history takes in real time, since only pass
// advances the clock.
const (
	longIdle  = 20 * time.Second
	longFrame = 6 * time.Second
)

// maker draws histories.
type maker struct {
	*rand.Rand
	shared  bool
	without map[string]bool // kinds that are not drawn
	bias    map[string]int  // factors of their frequencies
}

// history draws a history of n moves.
func (m *maker) history(n int) history {
	m.shared = !m.without["shared"] && m.oneIn(3)
	h := history{shared: m.shared, tongue: m.tongue()}
	h.limits = Limits{IdleTime: longIdle, FrameTime: longFrame, StallTime: longFrame, LingerTime: longFrame + 2*time.Second, FrameRate: 1 << 30}
	if h.shared {
		m.sharedLimits(&h.limits)
	} else {
		h.limits.InFlight = []int{0, 0, 1, 1, 2}[m.IntN(5)] // with others, engines may stop at different requests
	}
	if m.oneIn(3) {
		h.limits.HighWater = 1 << (8 + m.IntN(6))
	}
	connected := 0
	for range n {
		v := m.move(&connected)
		if len(v.within) > 0 && m.oneIn(2) { // a promise that is settled late in the last moment
			r := m.request()
			if m.oneIn(2) { // user code has the socket when the verdict is carried out
				r.tail, r.acts = 0, []act{{do: "lend", n: 1}}
			}
			r.acts = append([]act{{do: "later"}}, r.acts...)
			h.moves = append(h.moves, move{do: "send", on: v.on, asks: []request{r}})
			v.n, v.within = 25, append([]move{{do: "settle", on: v.on, size: m.size()}}, v.within...)
		}
		h.moves = append(h.moves, v)
	}
	return h
}

func (m *maker) sharedLimits(l *Limits) {
	some := func(bound, least int) int {
		if m.oneIn(2) {
			return 0
		}
		return least + m.IntN(bound)
	}
	l.InFlight = []int{0, 1, 2, 3, 5}[m.IntN(5)]
	if m.oneIn(4) { // a small budget that nothing else relieves
		l.TotalInFlight = 2 + m.IntN(4)
		return
	}
	l.TotalInFlight = some(10, 1)
	l.TotalOutput = some(1<<20, 32<<10)
	l.TotalInput = some(1<<18, 32<<10)
	l.Conns = some(6, 2)
	l.Helpers = some(4, 1)
	l.HardCap = some(64<<10, 1<<10)
}

// mostGuests is how many clients one history may have.
const mostGuests = 14

func (m *maker) move(connected *int) move {
	do := m.one(moveKinds)
	if *connected == 0 || *connected < 3 && m.oneIn(3) {
		do = []string{"connect", "connect tcp", "connect adapter"}[min(m.IntN(8)/5, 2)]
	}
	if strings.HasPrefix(do, "connect") && *connected == mostGuests {
		do = "send"
	}
	v := move{do: do, on: *connected - 1 - min(m.IntN(*connected+1), m.IntN(6))}
	switch v.on = max(v.on, 0); do {
	case "connect", "connect tcp", "connect adapter":
		v.on = *connected
		*connected++
		if m.oneIn(3) {
			v.size = 1 << 12
		}
	case "send":
		for range 1 + m.IntN(1+m.IntN(5)) {
			v.asks = append(v.asks, m.request())
		}
		if m.oneIn(5) {
			v.cut = 1 + m.IntN(40)
		}
		if last := v.asks[len(v.asks)-1]; m.oneIn(8) {
			v.back = 1 + m.IntN(requestHead+last.body+last.tail)
		}
	case "settle":
		v.n, v.size = m.IntN(8), m.size()
	case "push", "end", "settle all":
		v.size = 1 + m.size()
	case "close":
		v.n = m.IntN(len(closeReasons))
	case "pass":
		v.n = []int{2, 8, 25}[m.IntN(3)]
		if m.oneIn(2) && !m.without["within"] {
			for range 1 + m.IntN(3) {
				v.within = append(v.within, m.inner(*connected))
			}
		}
	}
	return v
}

// inner draws a move between the sweeper's verdicts and their execution.
func (m *maker) inner(connected int) move {
	for {
		switch v := m.move(&connected); v.do {
		case "settle", "settle all", "send", "rest", "push", "release", "close", "shut", "leave":
			return v
		}
	}
}

// size draws a size: mostly small, sometimes larger than a socket's buffer.
func (m *maker) size() int {
	switch m.IntN(40) {
	case 0:
		return m.IntN(150) << 10
	case 1, 2, 3:
		return m.IntN(6 << 10)
	}
	return m.IntN(100)
}

func (m *maker) request() (r request) {
	r.size, r.body = m.size(), min(m.size(), 40<<10)
	if m.oneIn(12) && !m.without["more"] {
		r.tail = 1 + min(m.size(), 40<<10)
		r.acts = append(r.acts, act{do: "more"})
	}
	if m.oneIn(2) {
		open, length := 0, m.IntN(5)
		for range length {
			a := act{do: m.one(actKinds)}
			switch a.do {
			case "push", "part":
				a.n = 1 + min(m.size(), 20<<10)
			case "answer":
				if a.n = min(m.size(), 20<<10); open == 0 {
					continue
				}
				open--
			case "later":
				if open == 2 {
					continue
				}
				open++
			}
			r.acts = append(r.acts, a)
		}
	}
	if end := m.one(endKinds); end != "" {
		a := act{do: end}
		switch {
		case end == "become":
			a.n = int(m.tongue())
		case strings.HasPrefix(end, "lend"):
			a.n = m.IntN(2)
		}
		r.acts = append(r.acts, a)
	}
	return r
}

// tongue draws a protocol.
func (m *maker) tongue() uint8 {
	n := uint8(m.IntN(tongues))
	if m.without["Ended panic"] && n == endsByPanic || m.without["Ended exit"] && n == endsByExit {
		n = 0
	}
	return n
}

// one draws a kind.
func (m *maker) one(kinds []kind) string {
	weight := func(k kind) int {
		w := k.private
		if m.shared {
			w = k.shared
		}
		if m.without[k.do] {
			return 0
		}
		if f, found := m.bias[k.do]; found {
			w *= f
		}
		return w
	}
	all := 0
	for _, k := range kinds {
		all += weight(k)
	}
	at := m.IntN(all)
	for _, k := range kinds {
		if at -= weight(k); at < 0 {
			return k.do
		}
	}
	panic("unreachable")
}

func (m *maker) oneIn(n int) bool { return m.IntN(n) == 0 }

// The text of a history is Go code.

func (h history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history{limits: Limits%s, tongue: %d, shared: %v, secure: %v, moves: []move{\n", fieldsOf(reflect.ValueOf(h.limits)), h.tongue, h.shared, h.secure)
	for _, m := range h.moves {
		fmt.Fprintf(&b, "\t\t%v,\n", m)
	}
	return b.String() + "\t}}"
}

func (m move) String() string { return fieldsOf(reflect.ValueOf(m)) }

// fieldsOf returns the composite literal of a struct without its type.
func fieldsOf(v reflect.Value) string {
	var all []string
	for i := range v.NumField() {
		f := v.Field(i)
		text := ""
		switch {
		case f.IsZero():
			continue
		case f.Kind() == reflect.String:
			text = strconv.Quote(f.String())
		case f.Kind() == reflect.Slice:
			var items []string
			for j := range f.Len() {
				items = append(items, fieldsOf(f.Index(j)))
			}
			text = "[]" + f.Type().Elem().Name() + "{" + strings.Join(items, ", ") + "}"
		default:
			text = strconv.FormatInt(f.Int(), 10)
		}
		all = append(all, v.Type().Field(i).Name+": "+text)
	}
	return "{" + strings.Join(all, ", ") + "}"
}
