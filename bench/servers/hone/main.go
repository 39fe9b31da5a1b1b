// Command hone is the service on hone itself, on any of its engines and with all
// of its default limits but the number of connections.
package main

import (
	"net"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

func main() {
	var names []string
	for _, e := range []engine.Engine{
		engine.Events(engine.Auto), engine.Events(engine.Inline), engine.Events(engine.Offload), engine.Buffered(0),
	} {
		names = append(names, e.Name())
	}
	service.Main(names, serve)
}

func serve(o service.Options, ready func(string)) error {
	s := &framed.Server{Limits: engine.Limits{Conns: o.Conns}}
	if err := s.Engine.UnmarshalText([]byte(o.Engine)); err != nil {
		return err
	}
	s.Handler = framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil })
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	ready(ln.Addr().String())
	return s.Serve(ln)
}
