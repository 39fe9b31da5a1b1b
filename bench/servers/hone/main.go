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

// lateAnswer is to be sent by another goroutine than the handler's.
type lateAnswer struct {
	reply   framed.Reply
	content []byte
}

func serve(o service.Options, ready func(string)) error {
	s := &framed.Server{Limits: engine.Limits{Conns: o.Conns}}
	if err := s.Engine.UnmarshalText([]byte(o.Engine)); err != nil {
		return err
	}
	late := make(chan lateAnswer, 1<<10)
	go func() {
		for a := range late {
			a.reply.Send(a.content)
		}
	}()
	s.Handler = framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
		if len(req) > 0 && req[0] == service.Late {
			late <- lateAnswer{c.Later(), append([]byte(nil), req...)}
			return dst, nil
		}
		return append(dst, req...), nil
	})
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	ready(ln.Addr().String())
	return s.Serve(ln)
}
