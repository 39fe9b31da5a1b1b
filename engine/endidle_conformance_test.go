package engine_test

import (
	"testing"

	"github.com/hone-go/hone/engine"
)

// EndIdle ends connections that have asked and wait, without a word, and no others: neither
// one that has never asked nor one with half a message.
func TestEndIdle(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines())
		silent, half, idle := s.dial(t), s.dial(t), s.dial(t)
		idle.ask("one", "one")
		half.ask("two", "two")
		half.send("thr")
		const sent = len("one\ntwo\nthr")
		if !eventually(patience, func() bool { return s.Stats().BytesIn == uint64(sent) && s.Stats().Open == 3 }) {
			t.Fatalf("%d bytes have arrived, want %d", s.Stats().BytesIn, sent)
		}
		s.EndIdle()
		idle.wantEnd("")
		half.ask("ee", "three")
		silent.ask("four", "four")
		if !eventually(patience, func() bool { return s.Stats().Open == 2 }) {
			t.Errorf("%d connections are open, want 2", s.Stats().Open)
		}
		if n := s.Stats().Ended[engine.ClosedHere]; n != 1 {
			t.Errorf("%d were closed here, want 1", n)
		}
	})
}
