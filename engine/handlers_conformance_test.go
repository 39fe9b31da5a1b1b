package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// Resources for many slow handlers are released while the server stays busy: helpers end
// although one client never stops sending requests.
func TestGoroutinesOfSlowHandlersGoHomeOnABusyServer(t *testing.T) {
	const crowd, atOnce, few = 300, 100, 30 // an engine may limit how many block at once
	onEach(t, everywhere(ground.isBeside), func(t *testing.T, g ground) {
		block := newGate(t)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "block" {
				block.pass()
			}
			return say(t, "answer")
		}}, func(s *engine.Server) { s.Limits.StallTime = 2 * time.Second }) // makes periodic work run every quarter of a second
		pinger := s.dial(t)
		pinger.ask("hello", "answer")
		base := s.goroutines()
		var slow []*client
		for range crowd {
			c := s.dial(t)
			c.send("block\n")
			slow = append(slow, c)
		}
		for range atOnce {
			heard(t, block.entered, "a handler")
		}
		// The last handlers to block may still hold their loops, until the watchdog runs.
		ticks := time.NewTicker(5 * time.Millisecond)
		defer ticks.Stop()
		peak := s.goroutines()
		for begun := time.Now(); peak < base+atOnce && time.Since(begun) < patience; peak = s.goroutines() {
			<-time.After(50 * time.Millisecond) // counting costs much
		}
		if peak < base+atOnce {
			t.Fatalf("%d goroutines before %d handlers block, and %d after %v of it: the test proves nothing", base, atOnce, peak, patience)
		}
		block.open()
		for _, c := range slow {
			c.want("answer\n")
		}
		begun := time.Now()
		pinger.SetDeadline(begun.Add(2 * patience))
		left := s.goroutines()
		for n := 1; left > base+few && time.Since(begun) < patience; n++ {
			<-ticks.C
			pinger.ask("ping", "answer")
			if n%20 == 0 {
				left = s.goroutines()
			}
		}
		if left > base+few {
			t.Errorf("%d goroutines before %d slow handlers, %d during them, and still %d after %v of pings", base, crowd, peak, left, patience)
		}
	})
}

// While all helpers are stuck in handlers, connections with fast handlers are still
// served.
func TestStuckHelpersDoNotHoldOthersUp(t *testing.T) {
	const crowd, most = 20, 2
	if !slices.ContainsFunc(engine.All(), func(e engine.Engine) bool { return e == engine.Events(engine.Auto) }) {
		t.Skip("this ground has no event loops")
	}
	g := ground{engine.Events(engine.Auto), overTCP}
	block := newGate(t)
	s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
		if string(line) == "block" {
			block.pass()
		}
		return say(t, "answer")
	}}, func(s *engine.Server) { s.Limits.Helpers = most })
	healthy := s.dial(t)
	healthy.ask("hello", "answer")
	for range crowd {
		s.dial(t).send("block\n")
	}
	for range most {
		heard(t, block.entered, "a handler")
	}
	for pings, mistaken := 0, 0; pings < 50; pings++ {
		healthy.SetDeadline(time.Now().Add(patience))
		healthy.send("ping\n")
		line, err := healthy.r.ReadString('\n')
		if err == nil && line == "answer\n" {
			continue
		}
		// If the machine stops a handler for some milliseconds, the handler looks slow
		// and waits in line after the stuck ones. That is a hand-off in addition to those
		// of the stuck ones.
		if mistaken++; s.Stats().HandOffs < uint64(crowd+mistaken) || mistaken > 3 {
			t.Fatalf("ping %d: %q, %v; %d hand-offs for %d blocking handlers", pings, line, err, s.Stats().HandOffs, crowd)
		}
		healthy = s.dial(t)
	}
	late := s.dial(t)
	late.ask("hello", "answer")
	block.open()
}

// A connection that breaks while it waits for a helper gives its place back at once, and what it
// has sent is not served. Those that live are served when a helper is free.
func TestBrokenInLine(t *testing.T) {
	offLoop := func(g ground) bool { return g.isLoop() && g.engine == engine.Events(engine.Offload) }
	onEach(t, everywhere(offLoop), func(t *testing.T, g ground) {
		gate, served := newGate(t), make(chan string, 10)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "block" {
				gate.pass()
			}
			served <- string(line)
			return echoing(t, line)
		}}, func(s *engine.Server) { s.Limits.Helpers, s.Limits.Conns = 1, 6 })
		blocker, live := s.dial(t), s.dial(t)
		blocker.send("block\n")
		heard(t, gate.entered, "the handler")
		live.send("live\n")
		for range 10 { // more than have a place at the same time
			c := s.dial(t)
			c.send("dead\n")
			if !eventually(patience, func() bool { return s.Stats().Open == 3 }) {
				t.Fatalf("%d connections are open, want 3", s.Stats().Open)
			}
			c.reset()
			if !eventually(patience, func() bool { return s.Stats().Open == 2 }) {
				t.Fatalf("%d connections are open after one of three broke, want 2", s.Stats().Open)
			}
		}
		gate.open()
		blocker.want("block\n")
		live.want("live\n")
		for range 2 { // in any order
			if got := heard(t, served, "a request"); got == "dead" {
				t.Error("a request was served although its client had left")
			}
		}
		if len(served) > 0 {
			t.Errorf("%q was served as well", <-served)
		}
		if n := s.Stats().Ended[engine.PeerReset]; n != 10 {
			t.Errorf("%d connections ended as PeerReset, want 10", n)
		}
	})
}
