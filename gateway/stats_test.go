package gateway

import (
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// TestEngineStats: an admin side sees the connections of all doors, and they have one limit: an idle one of HTTP makes
// room for a client of frames, and with none the client is refused.
func TestEngineStats(t *testing.T) {
	up := serve(t, &Server{Log: newGate(), Limits: engine.Limits{Conns: 3}})
	up.peer(t).hello(first("a"))
	up.peer(t).hello(first("b"))
	posts(t, up.Server).want("204", "POST", "/v1/c", "x")
	if st := up.EngineStats(); st.Open != 3 || st.Accepted != 3 || st.Promised != 3 || st.Limits.Conns != 3 {
		t.Errorf("%d open, %d accepted, %d promised, limit %d; want 3 of each", st.Open, st.Accepted, st.Promised, st.Limits.Conns)
	}
	up.peer(t).hello(first("d"))
	up.peer(t).closed()
	waitFor(t, "the end of HTTP's", func() bool { return up.EngineStats().Open == 3 })
	if st := up.EngineStats(); st.Ended[engine.Displaced] != 1 || st.Ended[engine.TooManyConns] != 1 {
		t.Errorf("%d were displaced and %d were refused", st.Ended[engine.Displaced], st.Ended[engine.TooManyConns])
	}
}

// TestWaiting has the log hang: the statistics say for how long records have waited, meanwhile.
func TestWaiting(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	p := up.peer(t)
	p.hello(first("a"))
	if st := up.Stats(); st.Waiting != 0 || st.Starting || st.LastAppend.IsZero() {
		t.Errorf("before: %+v", st)
	}
	log.set(true, nil)
	p.submit(1, "x")
	waitFor(t, "the record to wait", func() bool { return up.Stats().Waiting > 0 })
	log.set(false, nil)
	p.must(wire.SubmitAck, 1, wire.OK)
	waitFor(t, "it to be over", func() bool { return up.Stats().Waiting == 0 })
	n := uint64(0)
	for _, count := range up.Stats().Appends.Counts {
		n += count
	}
	if n != 2 {
		t.Errorf("%d appends were timed, want the claim and the record", n)
	}
}
