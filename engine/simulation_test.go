package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/simulation"
)

// A server of the scripted protocol in simulated worlds. A message is "ID WHAT AMOUNT", and its answer
// "ID " and filling, as a line.

// visitor is the script of a guest.
type visitor struct {
	r      *rand.Rand
	blocks bool // handlers may wait
	next   int
	owed   map[int]want
	order  []int // the owed ones that come in this order
	rest   []byte
	last   bool // nothing is asked or answered after this
	told   bool
}

// want is an answer.
type want struct {
	size int
	end  bool // a refusal
}

func (v *visitor) Ask() []byte {
	what, amount := "echo", v.r.IntN(100)
	switch draw := v.r.IntN(100); {
	case draw < 50:
	case draw < 65:
		what, amount = "big", v.r.IntN(200<<10)
	case draw < 80:
		what, amount = "late", v.r.IntN(3000)
	case draw < 90 && v.blocks:
		what, amount = "slow", v.r.IntN(300)
	case draw < 93:
		what = "push"
	case draw < 95:
		what = "panic"
	case draw < 96:
		what = "bad"
	}
	id := v.next
	v.next++
	if !v.last && !v.told {
		v.owed[id] = want{size: sizeOf(what, amount), end: what == "panic" || what == "bad"}
		if what != "late" {
			v.order = append(v.order, id)
		}
		v.last = v.owed[id].end
	}
	return message(fmt.Sprintf("%d %s %d", id, what, amount))
}

// sizeOf returns how much filling an answer has.
func sizeOf(what string, amount int) int {
	if what == "late" || what == "slow" {
		return 10
	}
	return amount
}

func (v *visitor) Hear(p []byte) error {
	v.rest = append(v.rest, p...)
	for {
		line, rest, whole := bytes.Cut(v.rest, []byte("\n"))
		if !whole {
			return nil
		}
		v.rest = rest
		if err := v.judge(string(line)); err != nil {
			return err
		}
	}
}

func (v *visitor) judge(line string) error {
	first, filling, _ := strings.Cut(line, " ")
	id, err := strconv.Atoi(first)
	switch {
	case err != nil && v.told:
		return fmt.Errorf("the second refusal is %q", line)
	case err != nil && !slices.Contains(reasonNames[:], line):
		return fmt.Errorf("a line %q", line)
	case err != nil: // it ends what is asked from here on
		v.told = true
		for id, w := range v.owed {
			if w.end {
				delete(v.owed, id)
			}
		}
		return nil
	}
	if first == "-1" {
		return nil // a push
	}
	w, ok := v.owed[id]
	if !ok || w.end || len(filling) != w.size || strings.Trim(filling, "x") != "" {
		return fmt.Errorf("an answer of %d bytes for %d, which is owed: %v (%+v)", len(filling), id, ok, w)
	}
	delete(v.owed, id)
	if len(v.order) > 0 && v.order[0] == id {
		v.order = v.order[1:]
	} else {
		for _, o := range v.order {
			if o == id {
				return fmt.Errorf("the answer for %d comes before that for %d", id, v.order[0])
			}
		}
	}
	return nil
}

func (v *visitor) Owed() int  { return len(v.owed) }
func (v *visitor) Told() bool { return v.told }

// hosts returns the scene of a server.
func hosts(w *simulation.World) simulation.Scene {
	e := []Engine{Events(Auto), Events(Auto), Events(Inline), Events(Offload)}[w.Rand.IntN(4)]
	var opened, closed, slots atomic.Int64
	p := scripted(func(t *Turn, text string) error {
		var id, amount int
		var what string
		fmt.Sscan(text, &id, &what, &amount)
		answer := func() []byte {
			return fmt.Appendf(nil, "%d %s\n", id, strings.Repeat("x", sizeOf(what, amount)))
		}
		switch what {
		case "late":
			reply, slot := t.Later(), 100+int(slots.Add(1))%900
			w.Go(func() {
				simulation.Pause(slot, time.Duration(amount)*time.Millisecond)
				reply.Send(answer())
			})
			return nil
		case "slow":
			simulation.Pause(100+int(slots.Add(1))%900, time.Duration(amount)*time.Millisecond)
		case "push":
			t.Conn().Push([]byte("-1 pushed\n"))
		case "panic":
			t.Out = append(t.Out, "half an answer"...)
			panic("as it was asked to")
		case "bad":
			return Malformed
		}
		t.Out = append(t.Out, answer()...)
		return nil
	})
	s := &Server{
		Protocol: p, Engine: e, Logger: slog.New(slog.DiscardHandler), Limits: Limits{SpreadTime: time.Duration(w.Rand.IntN(2)) * 20 * time.Second},
		OnOpen: func(Conn) { opened.Add(1) }, OnClose: func(Conn, Reason) { closed.Add(1) },
	}
	limits := Limits{}.OrDefaults()
	return simulation.Scene{
		Server: s, Stall: limits.StallTime, Idle: limits.IdleTime, Secure: NewTLSListener,
		Guest: func(r *rand.Rand) simulation.Script {
			return &visitor{r: r, blocks: e != Events(Inline), owed: map[int]want{}}
		},
		Check: func() error {
			if st := s.Stats(); st.Open != 0 || st.Owed != 0 || st.Waiting != 0 || st.InputMemory != 0 || opened.Load() != closed.Load() {
				return fmt.Errorf("%d opened, %d closed, %+v", opened.Load(), closed.Load(), st)
			}
			return nil
		},
	}
}

// The same seed is the same history.
func TestSimulationIsTheSame(t *testing.T) { simulation.Same(t, hosts) }

func TestSimulation(t *testing.T) { simulation.Each(t, hosts) }

func TestSimulationOverTLS(t *testing.T) { simulation.EachOverTLS(t, hosts) }
