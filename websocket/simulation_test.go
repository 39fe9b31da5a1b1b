package websocket

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/simulation"
)

// A server of WebSockets in simulated worlds. A message is "ID WHAT AMOUNT", its answer "ID " and filling.

// member is the script of a guest.
type member struct {
	r      *rand.Rand
	frames Frames
	next   int
	owed   map[int]int // what was asked: how much filling its answer has
	rest   []byte
	open   bool // the upgrade is answered
	last   bool // something that ends the connection was asked
	closes bool // a Close is to be answered
	told   bool
}

func (m *member) Ask() []byte {
	id := m.next
	m.next++
	if id == 0 {
		return []byte("GET / HTTP/1.1\r\nHost: simulated\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2ltdWxhdGVkIGJ5IHNlZQ==\r\n\r\n")
	}
	what, amount, size := "echo", m.r.IntN(200), 0
	switch draw := m.r.IntN(100); {
	case draw < 60:
	case draw < 75:
		amount = m.r.IntN(100 << 10)
	case draw < 90:
		what, size = "late", 10
	case draw < 94:
		return AppendFrame(nil, PingFrame, []byte("hello"))
	case draw < 96:
		m.closes, m.last = m.closes || !m.last && !m.told, true
		return AppendFrame(nil, CloseFrame, []byte{0x03, 0xe8})
	case draw < 98:
		what = "panic"
	}
	if size == 0 {
		size = amount
	}
	if what == "panic" {
		m.last = true
	} else if !m.last && !m.told {
		m.owed[id] = size
	}
	return AppendFrame(nil, Text, fmt.Appendf(nil, "%d %s %d", id, what, amount))
}

func (m *member) Hear(p []byte) error {
	m.rest = append(m.rest, p...)
	if !m.open {
		head, rest, whole := bytes.Cut(m.rest, []byte("\r\n\r\n"))
		if !whole {
			return nil
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
			if m.told = bytes.HasPrefix(head, []byte("HTTP/1.1 408 ")) || bytes.HasPrefix(head, []byte("HTTP/1.1 503 ")); m.told {
				return nil
			}
			return fmt.Errorf("the upgrade is refused: %q", head)
		}
		m.rest, m.open = bytes.Clone(rest), true
	}
	for !m.told {
		kind, payload, used, err := m.frames.Next(m.rest)
		if err != nil || kind == 0 {
			return err
		}
		switch kind {
		case CloseFrame:
			m.told = true
		case Text:
			first, filling, _ := strings.Cut(string(payload), " ")
			id, _ := strconv.Atoi(first)
			if size, ok := m.owed[id]; !ok || len(filling) != size || strings.Trim(filling, "x") != "" {
				return fmt.Errorf("an answer of %d bytes for %q, want %d (%v)", len(filling), first, size, ok)
			}
			delete(m.owed, id)
		}
		m.rest = m.rest[used:]
	}
	return nil
}

func (m *member) Owed() int {
	if m.told && m.last { // a message behind a Close is not answered
		return 0
	}
	if m.closes {
		return len(m.owed) + 1
	}
	return len(m.owed)
}
func (m *member) Told() bool { return m.told }

func room(w *simulation.World) simulation.Scene {
	e := []engine.Engine{engine.Events(engine.Auto), engine.Events(engine.Inline), engine.Events(engine.Offload)}[w.Rand.IntN(3)]
	var slots atomic.Int64
	up := &Upgrader{
		Logger: slog.New(slog.DiscardHandler),
		Message: func(c Call, dst, msg []byte) ([]byte, error) {
			var id, amount int
			var what string
			fmt.Sscan(string(msg), &id, &what, &amount)
			switch what {
			case "late":
				reply, slot := c.Later(), 100+int(slots.Add(1))%900
				w.Go(func() {
					simulation.Pause(slot, time.Duration(amount)*time.Millisecond)
					reply.Send(Prepare(Text, fmt.Appendf(nil, "%d xxxxxxxxxx", id), nil))
				})
				return dst, nil
			case "panic":
				panic("as it was asked to")
			}
			return fmt.Appendf(dst, "%d %s", id, strings.Repeat("x", amount)), nil
		},
	}
	s := &http1.Server{Engine: e, Handler: up, Logger: up.Logger}
	limits := engine.Limits{}.OrDefaults()
	return simulation.Scene{
		Server: s, Stall: limits.StallTime, Idle: limits.IdleTime, Secure: engine.NewTLSListener,
		Guest: func(r *rand.Rand) simulation.Script { return &member{r: r, owed: map[int]int{}} },
		Check: func() error {
			if st := s.Stats(); st.Open != 0 || st.Owed != 0 || st.Waiting != 0 || st.InputMemory != 0 || st.OpenLoans != 0 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		},
	}
}

func TestSimulation(t *testing.T) { simulation.Each(t, room) }

func TestSimulationOverTLS(t *testing.T) { simulation.EachOverTLS(t, room) }
