// Command gnet is the service on github.com/panjf2000/gnet.
package main

import (
	"github.com/hone-go/hone/bench/service"
	"github.com/panjf2000/gnet/v2"
)

func main() {
	service.Main([]string{"loop"}, func(o service.Options, ready func(string)) error {
		s := &server{options: o, ready: ready}
		return gnet.Run(s, "tcp://"+o.Addr, gnet.WithMulticore(o.Loops > 1), gnet.WithNumEventLoop(o.Loops))
	})
}

type server struct {
	gnet.BuiltinEventEngine
	options service.Options
	ready   func(string)
	buffers service.Buffers
}

// OnBoot is called when the listener is there.
func (s *server) OnBoot(gnet.Engine) gnet.Action {
	s.ready(s.options.Addr)
	return gnet.None
}

// OnTraffic is called when a connection has brought something. What it does not
// discard, it sees again.
func (s *server) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	buffer := s.buffers.Get()
	v := s.options.Serve(*buffer, in)
	if v.Used > 0 { // Discard(0) discards everything
		_, err = c.Discard(v.Used)
	}
	if err == nil && len(v.Out) > 0 {
		_, err = c.Write(v.Out)
	}
	s.buffers.Put(buffer, v.Out)
	if err != nil || v.Close {
		return gnet.Close
	}
	return gnet.None
}
