package websocket

import (
	"testing"

	"github.com/hone-go/hone/engine"
)

// On a full server silent clients stay, unless GiveWay is set: then the one that has been
// silent for longest is closed with TryAgainLater.
func TestSilentClientsGiveWay(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		if at.engine == nil {
			t.Skip("net/http admits connections there")
		}
		at.limits = engine.Limits{Conns: 2}
		for _, gives := range []bool{false, true} {
			addr := at.serve(&Upgrader{Message: echo, GiveWay: gives})
			one, _ := upgraded(t, addr)
			two, _ := upgraded(t, addr)
			for _, p := range []*peer{one, two} {
				p.send(frame(opText, "hello"))
				p.want(served(opText, "hello"))
			}
			if !gives {
				refused := dialTCP(t, addr)
				refused.want([]byte("HTTP/1.1 503 Service Unavailable\r\n"))
				one.send(frame(opText, "again"))
				one.want(served(opText, "again"))
				continue
			}
			three, _ := upgraded(t, addr)
			three.send(frame(opText, "hello"))
			three.want(served(opText, "hello"))
			eventually(t, "one makes room", func() bool { return at.stats().Ended[engine.Displaced] == 1 && at.stats().Open == 2 })
		}
	})
}
