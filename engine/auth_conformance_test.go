package engine_test

import (
	"io"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// A connection that does not authenticate in time is refused, whether it is silent, keeps
// sending requests, or waits for a late reply. One that authenticates stays, whether
// Trust was called within its visit or later from elsewhere.
func TestAuthTime(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		limit, proven := g.shortly(time.Second), make(chan struct{}, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "prove":
				t.Conn().Trust()
			case "prove later":
				c := t.Conn()
				go func() { c.Trust(); proven <- struct{}{} }()
			case "later":
				t.Later()
				return nil
			}
			return say(t, string(line))
		}}, func(s *engine.Server) { s.Limits.AuthTime, s.Limits.StallTime = limit, time.Second })
		// A busy machine may use up the time before a connection authenticates.
		proves := func(line string) *client {
			for {
				c := s.dial(t)
				io.WriteString(c, line+"\n")
				if got, _ := c.r.ReadString('\n'); got == line+"\n" {
					return c
				}
				if c.Close(); s.Stats().Ended[engine.AuthTimeout] > 20 {
					t.Fatalf("no connection can authenticate by %q", line)
				}
			}
		}
		trusted := []*client{proves("prove"), proves("prove later")}
		heard(t, proven, "Trust")
		begun := time.Now()
		silent, busy, waiting := s.dial(t), s.dial(t), s.dial(t)
		waiting.send("later\n")
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for asked := true; asked; <-pace.C {
			busy.send("what\n")
			line, err := busy.r.ReadString('\n')
			if asked = line == "what\n"; !asked && line != refusal(engine.AuthTimeout) {
				t.Errorf("a connection that keeps sending requests reads %q (%v)", line, err)
			}
		}
		if took := time.Since(begun); took < limit-tick {
			t.Errorf("refused after %v, before %v", took, limit)
		}
		silent.wantEnd(refusal(engine.AuthTimeout))
		if !waiting.over() { // no refusal, because a reply is owed
			t.Error("a connection that waits for a late reply was not closed")
		}
		for _, c := range []*client{silent, busy, waiting} {
			c.Close()
		}
		// A client of another process may redial a port that its server used before and
		// that is ours now.
		if !eventually(patience, func() bool { return s.Stats().Ended[engine.AuthTimeout] >= 3 }) {
			t.Errorf("%d connections ended with AuthTimeout, want 3", s.Stats().Ended[engine.AuthTimeout])
		}
		for _, c := range trusted {
			c.ask("still here", "still here")
		}
	})
}
