// Package service is what every server of the comparison does, whatever moves
// its bytes: it answers each Submit with a SubmitAck that carries the request's
// id and content. The servers differ in the engine underneath, in nothing else.
package service

import (
	"encoding/binary"
	"sync"

	"github.com/hone-go/hone/wire"
)

// Late, as the first byte of a content, asks for an answer that is sent after the handler has
// returned, by hone alone. Ordinary content is lower-case letters.
const Late = 'R'

// FrameLimit is the longest request, as hone's own default has it.
const FrameLimit = 64 << 10

// Options are what a server program is told by its flags.
type Options struct {
	Addr   string  // host:port; port 0 picks one
	Loops  int     // event loops or pollers, and GOMAXPROCS; 0: as many as there are CPUs
	Conns  int     // connections that must be allowed, where there is a limit
	Engine string  // one of the program's
	TLS    bool    // speak TLS; the servers of HTTP can
	Pusher *Pusher // to be filled in by servers that push
}

// Visit is the result of handling the bytes that a connection has brought.
type Visit struct {
	Out   []byte // the answers, to be written as one
	Used  int    // bytes that were requests; the rest is the beginning of the next
	Close bool   // close the connection, after Out where the engine can
}

// Serve answers the complete requests at the front of in, appending to dst. What
// is no request ends the connection: the protocol offers no way to go on.
func (o Options) Serve(dst, in []byte) Visit {
	v := Visit{Out: dst}
	for !v.Close {
		payload, need, err := wire.Frame(in[v.Used:], FrameLimit)
		if err == nil && need > 0 {
			break
		}
		if err == nil {
			v.Out, err = o.Answer(v.Out, payload)
			v.Used += wire.HeaderSize + len(payload)
		}
		v.Close = err != nil
	}
	return v
}

// Answer appends the whole answer to one request, as wire.Frame cut it. It does without the rest of
// package wire, so that the servers build against every revision of hone that they are compared with.
func (o Options) Answer(dst, payload []byte) ([]byte, error) {
	const head = 9 // bytes before the content
	switch {
	case len(payload) < head:
		return dst, wire.Malformed
	case payload[0] != byte(wire.Submit):
		return dst, wire.UnknownCommand
	}
	start := len(dst)
	dst = append(append(dst, 0, 0, 0, 0, byte(wire.SubmitAck)), payload[1:head]...)
	dst = append(append(dst, byte(wire.OK)), payload[head:]...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

// Buffers lends memory for answers to servers whose engine has copied or sent
// them when the call that takes them returns. The zero value is ready.
type Buffers struct{ pool sync.Pool }

// mostKept is the largest buffer that is worth keeping.
const mostKept = 64 << 10

// Get returns an empty buffer.
func (b *Buffers) Get() *[]byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return p
	}
	return new([]byte)
}

// Put takes back what Get returned, with out as it has grown meanwhile.
func (b *Buffers) Put(p *[]byte, out []byte) {
	if cap(out) <= mostKept {
		*p = out[:0]
		b.pool.Put(p)
	}
}
