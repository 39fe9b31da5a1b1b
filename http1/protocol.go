package http1

import (
	"sync/atomic"

	"github.com/hone-go/hone/engine"
)

// maxBody is the largest body that is waited for in memory.
const maxBody = 48 << 10

// protocol is HTTP/1.1 on an engine.
type protocol struct {
	server *Server
	fast   atomic.Uint64
}

// Advance lends the connection to net/http.
func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if p.server.secure.Load() && t.State&stateVisited == 0 {
		if done, err := p.server.chosen(t); done {
			return 0, 0, err
		}
	}
	if len(in) < len("POST ") {
		return 0, len("POST ") - len(in), nil // what it is has to be known
	}
	return 0, 0, p.server.leave(t, in)
}

// Refuse tells a peer that is refused why.
func (p *protocol) Refuse(dst, unserved []byte, why engine.Reason) []byte {
	return refusal(dst, why)
}
