package http1

import (
	"sync/atomic"

	"github.com/hone-go/hone/engine"
)

// protocol is HTTP/1.1 on an engine.
type protocol struct {
	server *Server
	fast   atomic.Uint64
	loans  atomic.Uint64
}

// Advance lends the connection to net/http.
func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	p.loans.Add(1)
	return 0, 0, t.TakeOver(p.server.lend)
}

// Refuse has no words.
func (p *protocol) Refuse(dst, unserved []byte, why engine.Reason) []byte { return dst }
