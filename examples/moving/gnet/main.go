// Gnet is a server for length-prefixed messages that was written for gnet, ported to hone's
// engines. before.txt is the original; docs/writing-a-protocol.md compares the names.
package main

import (
	"bytes"
	"encoding/binary"
	"log"
	"net"

	"github.com/hone-go/hone/engine"
)

const most = 64 << 10

type upper struct{}

func (upper) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		rest := in[used:]
		if len(rest) < 4 {
			return used, 4 - len(rest), nil
		}
		length := binary.BigEndian.Uint32(rest)
		if length > most {
			return used, 0, engine.TooLarge
		}
		end := 4 + int(length)
		if len(rest) < end {
			return used, end - len(rest), nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		t.Out = append(t.Out, rest[:4]...)
		t.Out = append(t.Out, bytes.ToUpper(rest[4:end])...)
		used += end
	}
}

func (upper) Refuse(dst, _ []byte, _ engine.Reason) []byte { return dst }

func newServer() *engine.Server {
	return &engine.Server{Protocol: upper{}, Limits: engine.Limits{InFlight: 1}}
}

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:7003")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(newServer().Serve(ln))
}
