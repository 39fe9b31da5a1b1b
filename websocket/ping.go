package websocket

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/hone-go/hone/engine"
)

// Round-trip times without state: a ping's content is when it was sent.

// pingSize is the size of that content: the time and its checksum, 8 bytes each.
const pingSize = 16

// pings makes and reads contents.
type pings struct {
	began time.Time
	seed  maphash.Seed
}

// next is the content of a ping that is sent now.
func (p *pings) next() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, pingSize), uint64(time.Since(p.began)))
	return binary.BigEndian.AppendUint64(b, maphash.Bytes(p.seed, b))
}

// roundTrip returns how long ago the ping with this content was sent, unless it is not ours.
func (p *pings) roundTrip(content []byte) (d time.Duration, ok bool) {
	if len(content) != pingSize || maphash.Bytes(p.seed, content[:8]) != binary.BigEndian.Uint64(content[8:]) {
		return 0, false
	}
	return time.Since(p.began) - time.Duration(binary.BigEndian.Uint64(content)), true
}

// pong calls Upgrader.Pong for the answer to a ping at in[used:] of Advance's input.
func (p *protocol) pong(t *engine.Turn, used int, content []byte) {
	if p.upgrader.Pong == nil {
		return
	}
	if d, ok := p.upgrader.pings.roundTrip(content); ok {
		t.Mark(used)
		p.upgrader.Pong(Conn{t.Conn(), p}, d)
	}
}
