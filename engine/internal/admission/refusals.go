package admission

import (
	"net"
	"sync"
	"time"

	"github.com/hone-go/hone/engine/internal/transport"
)

// Refusals tells refused connections why. The zero value is ready for use.
type Refusals struct {
	mu    sync.Mutex
	told  map[*net.Conn]struct{} // by pointer, because connections need not be comparable
	ended bool
}

// mostTold is the maximum number of refused connections that are told at the same time; the
// others are just closed.
const mostTold = 64

// Tell closes a connection. Unless too many are told already, a goroutine of the group first sends
// it words, and lingers so that the peer can read them.
func (r *Refusals) Tell(nc net.Conn, linger time.Duration, group *sync.WaitGroup, words func() []byte) {
	mine := &nc
	r.mu.Lock()
	tell := len(r.told) < mostTold && !r.ended
	if tell {
		if r.told == nil {
			r.told = map[*net.Conn]struct{}{}
		}
		r.told[mine] = struct{}{}
		group.Add(1)
	}
	r.mu.Unlock()
	if !tell {
		nc.Close()
		return
	}
	go func() {
		defer group.Done()
		defer func() {
			r.mu.Lock()
			delete(r.told, mine)
			r.mu.Unlock()
			nc.Close()
		}()
		explain(nc, linger, words)
	}()
}

func explain(nc net.Conn, linger time.Duration, words func() []byte) {
	if _, tls := nc.(interface{ NetConn() net.Conn }); tls {
		return // a TLS handshake for a refusal would help a flood
	}
	nc.SetDeadline(time.Now().Add(min(linger, time.Second)))
	nc.Write(words())
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		var waste [transport.LingerRead]byte
		for range transport.LingerBytes / len(waste) {
			if _, err := nc.Read(waste[:]); err != nil {
				return
			}
		}
	}
}

// End ends the linger of all, and tells no others.
func (r *Refusals) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for nc := range r.told {
		(*nc).SetDeadline(transport.Past())
	}
}
