package websocket

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A negative size is a mistake of the programmer, and the panic names the field.
func TestNegativeMessageSizePanics(t *testing.T) {
	testrun.WantPanic(t, "websocket: Upgrader.MessageSize is negative; ", func() {
		(&Upgrader{Message: echo, MessageSize: -1}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	})
	testrun.WantPanic(t, "websocket: Options.MessageSize is negative; ", func() { Dial(t.Context(), "ws://127.0.0.1:1/", Options{MessageSize: -1}) })
	testrun.WantPanic(t, "websocket: Frames.MessageSize is negative; ", func() { (&Frames{MessageSize: -1}).Next(nil) })
}

// With the largest value of each field, messages arrive in both directions, compressed or not.
func TestLargestValues(t *testing.T) {
	message := strings.Repeat("a message. ", 1000)
	try := func(t *testing.T, at *place, u *Upgrader, o Options) {
		at.t, u.Message = t, echo
		if got := exchange(t, connected(t, "ws://"+at.serve(u)+"/", o), Text, message); got != message {
			t.Errorf("%d bytes come back", len(got))
		}
	}
	run(t, func(t *testing.T, at *place) {
		testrun.EachLargest(t, func(t *testing.T, u *Upgrader) { try(t, at, u, Options{}) })
		testrun.EachLargest(t, func(t *testing.T, o *Options) { try(t, at, &Upgrader{}, *o) })
		testrun.EachLargest(t, func(t *testing.T, z *Compression) {
			try(t, at, &Upgrader{Compression: z, MessageSize: math.MaxInt}, Options{Compression: z, MessageSize: math.MaxInt})
		}, "Level") // 9 is the largest that is valid
		z := &Compression{Level: 9}
		try(t, at, &Upgrader{Compression: z, MessageSize: math.MaxInt}, Options{Compression: z, MessageSize: math.MaxInt})
		testrun.EachLargest(t, func(t *testing.T, l *engine.Limits) {
			at := *at
			at.limits = *l
			try(t, &at, &Upgrader{}, Options{})
		})
	})
	testrun.EachLargest(t, func(t *testing.T, f *Frames) {
		var b []byte
		b = appendFrame(b, byte(opText)|finBit, []byte(message))
		if kind, payload, _, err := f.Next(b); kind != Text || string(payload) != message || err != nil {
			t.Errorf("%v, %d bytes, %v", kind, len(payload), err)
		}
	})
}
