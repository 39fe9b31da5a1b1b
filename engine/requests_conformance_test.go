package engine_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// owing answers "now" at once, and promises a reply to every other line, to be sent by
// answer.
type owing struct {
	mu    sync.Mutex
	owed  []engine.Reply
	taken int
}

func (o *owing) serve(t *engine.Turn, line []byte) error {
	if string(line) == "now" {
		return say(t, "now")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owed = append(o.owed, t.Later())
	o.taken++
	return nil
}

// answer sends the oldest n replies, or all.
func (o *owing) answer(n int) {
	o.mu.Lock()
	n = min(n, len(o.owed))
	some := o.owed[:n:n]
	o.owed = o.owed[n:]
	o.mu.Unlock()
	for _, r := range some {
		r.Send([]byte("late\n"))
	}
}

func (o *owing) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken
}

// The requests in flight of all connections together stay within the limit; connections
// that are answered at once are served meanwhile, new ones too; and all requests are
// answered in the end, repeatedly.
func TestTotalInFlightPausesAndResumes(t *testing.T) {
	const limit, crowd, each, rounds = 40, 8, 50, 3
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		o := &owing{}
		s := serve(t, g, lines{serve: o.serve}, func(s *engine.Server) { s.Limits.TotalInFlight = limit })
		prompt := s.dial(t)
		prompt.ask("later\nnow", "now")
		o.answer(1)
		prompt.want("late\n")
		prompt.ask("now", "now") // from now on, its replies are no longer late
		var all []*client
		for range crowd {
			all = append(all, s.dial(t))
		}
		for round := range rounds {
			before := o.count()
			for _, c := range all {
				io.WriteString(c, strings.Repeat("later\n", each))
			}
			if !eventually(patience, func() bool { return s.Stats().Paused == crowd }) {
				t.Fatalf("round %d: %d of %d connections are paused, %d requests in flight", round, s.Stats().Paused, crowd, o.count()-before)
			}
			// Connections that have never sent a request may exceed the limit by a
			// quarter, and every visit that started before it was reached may have one
			// more request.
			if taken := o.count() - before; taken < limit || taken > limit+limit/4+crowd {
				t.Errorf("round %d: %d requests in flight with a limit of %d", round, taken, limit)
			}
			prompt.ask("now", "now")
			newcomer := s.dial(t)
			newcomer.ask("now", "now")
			newcomer.Close()
			if !eventually(patience, func() bool {
				o.answer(limit)
				return o.count() == before+crowd*each && s.Stats().Owed == 0
			}) {
				t.Fatalf("round %d: %d of %d requests were accepted: %+v", round, o.count()-before, crowd*each, s.Stats())
			}
			for _, c := range all {
				c.want(strings.Repeat("late\n", each))
			}
		}
		if st := s.Stats(); st.Open != crowd+1 || st.Paused != 0 {
			t.Errorf("%d connections are open, want %d; %d are paused", st.Open, crowd+1, st.Paused)
		}
	})
}

// Replies that are never sent occupy their share of the limit and block nothing else,
// even if they are more than half of it.
func TestTotalInFlightWithRepliesThatNeverCome(t *testing.T) {
	const limit, stuck = 8, 6
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		o := &owing{}
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "never" {
				t.Later()
				return nil
			}
			return o.serve(t, line)
		}}, func(s *engine.Server) {
			s.Limits.TotalInFlight, s.Limits.LingerTime = limit, 200*time.Millisecond // makes sweeps frequent
		})
		s.dial(t).send(strings.Repeat("never\n", stuck))
		if !eventually(patience, func() bool { return s.Stats().Owed == stuck }) {
			t.Fatalf("%d replies are owed, want %d", s.Stats().Owed, stuck)
		}
		c := s.dial(t)
		c.send(strings.Repeat("later\n", 20))
		for range 20 {
			if !eventually(patience, func() bool { return s.Stats().Owed > stuck }) {
				t.Fatalf("no more requests are served: %+v", s.Stats())
			}
			o.answer(1)
			c.want("late\n")
		}
	})
}

// A connection that ends while it waits in line, or while replies are owed to it, frees
// its share of the limit; and a drain answers what was sent.
func TestTotalInFlightOfConnectionsThatEnd(t *testing.T) {
	const limit, crowd = 4, 6
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		o := &owing{}
		s := serve(t, g, lines{serve: o.serve}, func(s *engine.Server) { s.Limits.TotalInFlight = limit })
		for range 3 {
			var all []*client
			for range crowd {
				c := s.dial(t)
				c.send(strings.Repeat("later\n", 5))
				all = append(all, c)
			}
			if !eventually(patience, func() bool { return s.Stats().Paused == crowd }) {
				t.Fatalf("%d of %d connections are paused", s.Stats().Paused, crowd)
			}
			for _, c := range all {
				c.reset()
			}
			// Without reading, no reset is detected.
			if !eventually(patience, func() bool { o.answer(limit); return s.Stats().Open == 0 }) {
				t.Fatalf("all clients have disconnected, but %d connections are open", s.Stats().Open)
			}
			o.answer(crowd * limit)
		}
		c := s.dial(t)
		c.send(strings.Repeat("later\n", 10))
		if !eventually(patience, func() bool { return s.Stats().Paused == 1 }) {
			t.Fatal("the limit no longer applies")
		}
		if owed := s.Stats().Owed; owed < limit || owed > limit+1 {
			t.Errorf("%d replies are owed, want %d", owed, limit)
		}
		done := s.shutdown(context.Background())
		for i := range 10 {
			if !eventually(patience, func() bool { return s.Stats().Owed > 0 }) {
				t.Fatalf("the drain did not serve what was sent: %d answered", i)
			}
			o.answer(1)
			c.want("late\n")
		}
		c.wantEnd(refusal(engine.ShuttingDown))
		c.Close()
		inPeace(t, done, 1)
	})
}
