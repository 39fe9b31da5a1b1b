package framed_test

import (
	"fmt"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// The content of a Refusal reaches the client with the code: returned or wrapped by a
// handler, also after Later, given to Reply.Fail, and by Connect. The connection stays
// open, and what the handler had appended is not sent.
func TestRefusalHasContent(t *testing.T) {
	later := &framed.Refusal{Result: wire.Overloaded, Content: []byte("in 5 s")}
	h := framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		switch string(req) {
		case "wrapped":
			return append(dst, "half a reply"...), fmt.Errorf("busy: %w", later)
		case "after later":
			c.Later()
			return dst, later
		case "late":
			go c.Later().Fail(later)
			return dst, nil
		case "in dst":
			return nil, &framed.Refusal{Result: 77, Content: append(dst, "made there"...)}
		case "no code":
			return dst, &framed.Refusal{Content: []byte("whatever")}
		case "no content":
			return dst, &framed.Refusal{Result: wire.Overloaded}
		}
		return append(dst, req...), nil
	})
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: h, Connect: h}
		p := dial(t, serve(t, s))
		for id, x := range []struct {
			request string
			result  wire.Result
			content string
		}{
			{"wrapped", wire.Overloaded, "in 5 s"},
			{"after later", wire.Overloaded, "in 5 s"},
			{"late", wire.Overloaded, "in 5 s"},
			{"in dst", 77, "made there"},
			{"no code", wire.Failed, "whatever"},
			{"no content", wire.Overloaded, ""},
			{"fine", wire.OK, "fine"},
		} {
			p.send(submit(uint64(id), x.request))
			p.want(frame(wire.SubmitAck, uint64(id), x.result, x.content))
			p.send(frame(wire.Conn, uint64(id), 0, x.request))
			p.want(frame(wire.ConnAck, uint64(id), x.result, x.content))
		}
	})
}

// A client returns the code as its error, and the content.
func TestClientReturnsARefusal(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			return dst, &framed.Refusal{Result: wire.Overloaded, Content: req}
		})}
		c, err := framed.Dial(patient(t), serve(t, s), framed.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := c.Call(patient(t), []byte("before "), []byte("in 5 s"))
		if err != wire.Overloaded || string(got) != "before in 5 s" {
			t.Errorf("Call returned %q and %v, want what was said and the code", got, err)
		}
	})
}
