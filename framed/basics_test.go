package framed_test

import (
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

func TestRequestIsAnswered(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		p := dial(t, serve(t, s))
		p.send(submit(7, "hello"))
		p.want(ack(7, "hello"))
		p.closeWrite()
		p.wantEnd()
		ended(t, s, engine.PeerClosed, 1)
	})
}

func TestConnIsAcknowledgedAndIsTheHeartbeat(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}))
		for id := uint64(1); id <= 3; id++ {
			p.send(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: id}))
			p.want(wire.Append(nil, wire.Packet{Command: wire.ConnAck, ID: id}))
		}
	})
}

// Writes by a handler before its reply happen before the client reads the reply, and the
// race detector knows it, even on engines with their own system calls.
func TestReplyIsARaceEdge(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		handled := 0
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, _ []byte) ([]byte, error) {
			handled++
			return dst, nil
		})})
		p := dial(t, addr)
		for id := range uint64(3) {
			p.send(submit(id, ""))
			p.want(ack(id, ""))
			if handled != int(id)+1 {
				t.Errorf("handled %d, want %d", handled, id+1)
			}
		}
	})
}
