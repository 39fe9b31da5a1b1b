package framed_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// A negative size is a mistake of the programmer, and the panic names the field.
func TestNegativeSizesPanic(t *testing.T) {
	for field, o := range map[string]framed.ClientOptions{"FrameSize": {FrameSize: -1}, "Window": {Window: -1}} {
		text := "framed: ClientOptions." + field + " is negative; "
		testrun.WantPanic(t, text, func() { framed.Dial(t.Context(), "127.0.0.1:1", o) })
		testrun.WantPanic(t, text, func() { framed.NewClient(nil, o) })
		m := &framed.Mux{Addr: "127.0.0.1:1", Client: o}
		testrun.WantPanic(t, text, func() { m.Open(context.Background()) })
	}
	testrun.WantPanic(t, "engine: Limits.FrameSize is -1; ", func() {
		(&framed.Server{Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameSize: -1}}).Serve(nil)
	})
}

// With the largest value of each field, requests are answered, now and later, and pushes arrive.
func TestLargestValues(t *testing.T) {
	handler := framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		if string(req) == "later" {
			c.Conn().Push(7, []byte("pushed"))
			r := c.Later()
			go r.Send([]byte("later")) // req is the server's again when the handler has returned
		}
		return append(dst, req...), c.Context().Err()
	})
	try := func(t *testing.T, s *framed.Server, m *framed.Mux) {
		pushed := make(chan uint64, 1)
		s.Handler = handler
		m.Addr = serve(t, s)
		m.Client.OnDeliver = func(id uint64, _ []byte) { pushed <- id }
		defer m.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, text := range []string{"now", "later", strings.Repeat("long", 10_000)} {
			if reply, err := m.Call(ctx, nil, []byte(text)); err != nil || string(reply) != text {
				t.Fatalf("%.10q: %.10q, %v", text, reply, err)
			}
		}
		if id := <-pushed; id != 7 {
			t.Errorf("push %d", id)
		}
	}
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			testrun.EachLargest(t, func(t *testing.T, l *engine.Limits) {
				try(t, &framed.Server{Engine: e, Limits: *l}, &framed.Mux{})
			})
			try(t, &framed.Server{Engine: e, RequestTime: math.MaxInt64}, &framed.Mux{})
		})
	}
	testrun.EachLargest(t, func(t *testing.T, o *framed.ClientOptions) { try(t, &framed.Server{}, &framed.Mux{Client: *o}) })
	// Conns is how many connections there are, not a limit.
	testrun.EachLargest(t, func(t *testing.T, m *framed.Mux) { try(t, &framed.Server{}, m) }, "Conns")
}
