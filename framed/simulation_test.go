package framed_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/simulation"
	"github.com/hone-go/hone/wire"
)

// A framed server in simulated worlds. The content of a request is "WHAT AMOUNT".

// caller is the script of a guest.
type caller struct {
	r    *rand.Rand
	next uint64
	owed map[uint64]wanted
	rest []byte
	last bool // something that ends the connection was asked
	told bool
}

// wanted is a reply.
type wanted struct {
	command wire.Command
	result  wire.Result
	size    int
}

func (c *caller) Ask() []byte {
	id := c.next
	c.next++
	command, what, amount, result := wire.Submit, "echo", c.r.IntN(300), wire.OK
	switch draw := c.r.IntN(100); {
	case draw < 50:
	case draw < 65:
		amount = c.r.IntN(200 << 10)
	case draw < 80:
		what, amount = "late", c.r.IntN(2000)
	case draw < 88:
		command, amount = wire.Conn, 0
	case draw < 95:
		what, amount, result = "fail", 0, wire.Failed
	case draw < 97:
		what = "push"
	default:
		if !c.last && !c.told {
			c.last = true
		}
		return []byte{0, 0, 0, 1, 0}
	}
	w := wanted{command | 0x80, result, amount}
	if what == "late" {
		w.size = 10
	}
	if !c.last && !c.told {
		c.owed[id] = w
	}
	p := wire.Packet{Command: command, ID: id}
	if command == wire.Submit {
		p.Content = fmt.Appendf(nil, "%s %d", what, amount)
	}
	return wire.Append(nil, p)
}

func (c *caller) Hear(p []byte) error {
	c.rest = append(c.rest, p...)
	for {
		payload, need, err := wire.Frame(c.rest, 1<<20)
		if need > 0 {
			return nil
		}
		var p wire.Packet
		if err == nil {
			p, err = wire.Parse(payload)
		}
		if err != nil {
			return err
		}
		w, owed := c.owed[p.ID]
		switch {
		case p.Command == wire.Deliver:
		case c.told && w.size != 10:
			return fmt.Errorf("%+v after the last words", p)
		case p.Command == wire.ConnAck && p.Result != wire.OK:
			c.told = true
		case !owed || p.Command != w.command || p.Result != w.result || len(p.Content) != w.size || strings.Trim(string(p.Content), "x") != "":
			return fmt.Errorf("%v of %d: %v with %d bytes, want %+v (%v)", p.Command, p.ID, p.Result, len(p.Content), w, owed)
		default:
			delete(c.owed, p.ID)
		}
		c.rest = c.rest[wire.HeaderSize+len(payload):]
	}
}

func (c *caller) Owed() int  { return len(c.owed) }
func (c *caller) Told() bool { return c.told }

func exchange(w *simulation.World) simulation.Scene {
	e := []engine.Engine{engine.Events(engine.Auto), engine.Events(engine.Inline), engine.Events(engine.Offload)}[w.Rand.IntN(3)]
	var slots atomic.Int64
	s := &framed.Server{
		Engine: e, Logger: slog.New(slog.DiscardHandler), Limits: engine.Limits{SpreadTime: time.Duration(w.Rand.IntN(2)) * 20 * time.Second},
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			var what string
			var amount int
			fmt.Sscan(string(req), &what, &amount)
			switch what {
			case "late":
				reply, slot := c.Later(), 100+int(slots.Add(1))%900
				w.Go(func() {
					simulation.Pause(slot, time.Duration(amount)*time.Millisecond)
					reply.Send([]byte("xxxxxxxxxx"))
				})
				return dst, nil
			case "fail":
				return dst, wire.Failed
			case "push":
				c.Conn().Push(1, []byte("pushed"))
			}
			return append(dst, strings.Repeat("x", amount)...), nil
		}),
	}
	limits := engine.Limits{}.OrDefaults()
	return simulation.Scene{
		Server: s, Stall: limits.StallTime, Idle: limits.IdleTime, Secure: engine.NewTLSListener,
		Guest: func(r *rand.Rand) simulation.Script { return &caller{r: r, owed: map[uint64]wanted{}} },
		Check: func() error {
			if st := s.Stats(); st.Open != 0 || st.Owed != 0 || st.Waiting != 0 || st.InputMemory != 0 {
				return fmt.Errorf("%+v", st)
			}
			return nil
		},
	}
}

func TestSimulation(t *testing.T) { simulation.Each(t, exchange) }

func TestSimulationOverTLS(t *testing.T) { simulation.EachOverTLS(t, exchange) }
