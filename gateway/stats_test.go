package gateway

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/websocket"
	"github.com/hone-go/hone/wire"
)

// TestEngineStats: an admin side sees the connections of all doors, and they have one limit: an idle one of HTTP makes
// room for a client of frames, and with none the client is refused.
func TestEngineStats(t *testing.T) {
	up := serve(t, &Server{Log: newGate(), Limits: engine.Limits{Conns: 3}})
	up.peer(t).hello(first("a"))
	ln := listen(t)
	go up.ServeWebSocket(ln)
	p := dialSocket(t, ln.Addr().String())
	p.send(websocket.Binary, wire.Packet{Command: wire.Conn, ID: 1, Content: first("b").append(nil)})
	p.must(wire.ConnAck, 1, wire.OK)
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

// TestSum: no counter of the engine is left out.
func TestSum(t *testing.T) {
	var one engine.Stats
	numbers(reflect.ValueOf(&one).Elem(), func(_ string, v reflect.Value) {
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	})
	for i := range one.Own {
		one.Own[i].Name = string(rune('a' + i))
	}
	two := sum(one, one)
	if l := two.Limits; l.Conns != 1 || l.TotalOutput != 2 || l.TotalInput != 2 || l.TotalInFlight != 2 || l.Helpers != 2 {
		t.Errorf("budgets of both are %+v, want 2 of each but connections", l)
	}
	two.Limits = engine.Limits{}
	numbers(reflect.ValueOf(&two).Elem(), func(name string, v reflect.Value) {
		if strings.HasPrefix(name, "Limits.") {
			return // other limits are the same for both
		}
		if v.CanInt() && v.Int() != 2 || v.CanUint() && v.Uint() != 2 {
			t.Errorf("%s is %v, want 2", name, v)
		}
	})
}

// numbers calls each for every number in v.
func numbers(v reflect.Value, each func(name string, v reflect.Value)) {
	switch {
	case v.CanInt() || v.CanUint():
		each(v.Type().String(), v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			numbers(v.Field(i), func(name string, f reflect.Value) { each(v.Type().Field(i).Name+"."+name, f) })
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			numbers(v.Index(i), each)
		}
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
