package load

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// serveFramed runs hone's own server, which echoes, until the test ends.
func serveFramed(t *testing.T, s *framed.Server) codec.Frames {
	t.Helper()
	s.Handler = framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil })
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	// The first connection makes the server start its shared goroutines.
	nc := must[net.Conn](t)(net.Dial("tcp", ln.Addr().String()))
	defer nc.Close()
	must[int](t)(nc.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1})))
	must[int](t)(nc.Read(make([]byte, 64)))
	return codec.Frames{Address: ln.Addr().String()}
}

func TestRunAgainstEveryEngine(t *testing.T) {
	for _, e := range engine.All() {
		for name, p := range map[string]Plan{
			"closed": {Conns: 8, Depth: 16, Requests: 2000},
			"open":   {Conns: 8, Rate: 5000, MaxLag: time.Second, Requests: 500},
		} {
			t.Run(e.Name()+"/"+name, func(t *testing.T) {
				p.Target = serveFramed(t, &framed.Server{Engine: e})
				p.Echo = true
				if r := measured(t, p); r.Errors["total"] != 0 || r.Requests != p.Requests {
					t.Errorf("%d requests, errors %v", r.Requests, r.Errors)
				}
			})
		}
	}
}

func TestRunOverTheServersLimit(t *testing.T) {
	target := serveFramed(t, &framed.Server{Limits: engine.Limits{Conns: 3}})
	e := faultOf(t, runPlan(t, context.Background(), Plan{Target: target, Conns: 5, Timeout: time.Second}).err)
	if e.Kind != Refused || e.Err != wire.Overloaded {
		t.Errorf("kind %v: %v", e.Kind, e)
	}
	checkLine(t, e, "fewer connections")
}

// An answer longer than the read buffer comes in pieces.
func TestLongAnswers(t *testing.T) {
	target := serveFramed(t, &framed.Server{Limits: engine.Limits{FrameSize: 1 << 20, HardCap: 1 << 20}})
	for _, rate := range []float64{0, 100} {
		r := measured(t, Plan{Target: target, Conns: 3, Depth: 2, Rate: rate, MaxLag: time.Second, Size: 300 << 10, Echo: true, Requests: 12})
		if r.Errors["total"] != 0 || r.Requests != 12 {
			t.Errorf("at rate %v: %d requests, errors %v", rate, r.Requests, r.Errors)
		}
	}
}
