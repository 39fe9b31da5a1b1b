package engine_test

import (
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// A connection that does not authenticate in time is refused, whether it is silent, keeps
// sending requests, or waits for a late reply. One that authenticates stays, whether
// Trust was called within its visit or later from elsewhere.
func TestAuthTime(t *testing.T) {
	const limit = time.Second // a busy machine may use up some of it before a connection authenticates
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "prove":
				t.Conn().Trust()
			case "prove later":
				c := t.Conn()
				go c.Trust()
			case "later":
				t.Later()
				return nil
			}
			return say(t, string(line))
		}}, func(s *engine.Server) { s.Limits.AuthTime, s.Limits.StallTime = limit, time.Second })
		trusted := []*client{s.dial(t), s.dial(t)}
		trusted[0].ask("prove", "prove")
		trusted[1].ask("prove later", "prove later")
		begun := time.Now()
		silent, busy, waiting := s.dial(t), s.dial(t), s.dial(t)
		waiting.send("later\n")
		for asked := true; asked; {
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
