package engine_test

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// With the largest value of each limit, a server answers now and later, pushes and refuses.
func TestLargestLimits(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		testrun.EachLargest(t, func(t *testing.T, l *engine.Limits) {
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				switch c := t.Conn(); string(line) {
				case "later":
					r := t.Later()
					go r.Send([]byte("late\n"))
					return nil
				case "push":
					c.Push([]byte("pushed\n"))
					c.Offer([]byte("offered\n"))
				case "end":
					return malformed(t)
				}
				return say(t, string(line))
			}}, func(s *engine.Server) { s.Limits = *l })
			long := strings.Repeat("x", 8<<10)
			c, idle := s.dial(t), s.dial(t)
			c.ask("now", "now")
			c.send("later\n" + long + "\n" + "push\n")
			got := map[string]int{}
			for range 5 {
				line, err := c.r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				got[line]++
			}
			if want := map[string]int{"late\n": 1, long + "\n": 1, "push\n": 1, "pushed\n": 1, "offered\n": 1}; !maps.Equal(got, want) {
				t.Errorf("read %.200v", got)
			}
			c.send("end\n")
			c.wantEnd(refusal(engine.Malformed))
			idle.ask("still here", "still here")
		})
	})
}

// Without a limit of the output, unsent output of one peer does not hold up the others.
func TestNoOutputLimit(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		for _, most := range []int{-1, math.MaxInt} {
			conns := make(chan engine.Conn, 2)
			s := serve(t, g, echoLines(), func(s *engine.Server) {
				s.OnOpen = func(c engine.Conn) { conns <- c }
				s.Limits.HardCap, s.Limits.TotalOutput = -1, most
			})
			deaf := s.dial(t)
			c, piece := heard(t, conns, "OnOpen"), make([]byte, 64<<10)
			for sent := 0; c.Unsent() < 1<<20; sent += len(piece) {
				if err := c.Push(piece); err != nil || sent > 64<<20 {
					t.Fatalf("after %d bytes: %v", sent, err)
				}
			}
			s.dial(t).ask("hello", "hello")
			if n := s.Stats().Ended[engine.OutputBudget]; n != 0 {
				t.Errorf("with a TotalOutput of %d, the peer that does not read is closed for others", most)
			}
			deaf.reset()
		}
	})
}
