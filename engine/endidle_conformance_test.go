package engine_test

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/engine"
)

// EndIdle ends idle connections that have sent requests, without a refusal, and no
// others: neither one that has never sent a request nor one with half a message.
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

// countedListener counts how often it is closed.
type countedListener struct {
	net.Listener
	closed atomic.Int32
}

func (l *countedListener) Close() error {
	l.closed.Add(1)
	return l.Listener.Close()
}

func TestListenerIsClosedOnce(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		ln := &countedListener{Listener: listen(t, g.network)}
		s := serveOn(t, g, ln, echoLines())
		s.dial(t).ask("one", "one")
		s.Shutdown(t.Context())
		s.Close()
		if !eventually(patience, func() bool { return ln.closed.Load() > 0 }) || ln.closed.Load() != 1 {
			t.Errorf("closed %d times, want 1", ln.closed.Load())
		}
	})
}
