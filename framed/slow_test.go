package framed_test

import (
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// filler returns content whose bytes depend on their position.
func filler(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// A client for whose unfinished message there is no memory gets the refusal "overloaded".
func TestPeerHearsThatThereIsNoRoomForItsMessage(t *testing.T) {
	half := submit(1, string(filler(60<<10)))
	half = half[:len(half)-1]
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{TotalInput: 64 << 10}}
		addr := serve(t, s)
		eventually(t, "a client is refused", func() (refused bool) {
			var peers []*peer
			for range 3 { // the first fills the budget, until it is evicted for that
				p := dial(t, addr)
				<-p.pour(half)
				peers = append(peers, p)
			}
			for _, p := range peers {
				got, err := p.tryPacket()
				refused = refused || err == nil && got.Command == wire.ConnAck && got.Result == wire.Overloaded
				p.Close()
			}
			return refused
		})
	})
}
