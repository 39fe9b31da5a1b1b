// Command gnet is the service on github.com/panjf2000/gnet.
package main

import (
	"bytes"

	"github.com/hone-go/hone/bench/service"
	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"
)

// The engines: requests are answered on the event loop, or, as its manual advises
// for handlers that block, on a pool of goroutines.
const (
	onLoop = "loop"
	onPool = "pool"
)

func main() {
	service.Main([]string{onLoop, onPool}, func(o service.Options, ready func(string)) error {
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
	if s.options.Engine == onPool {
		return s.offload(c, in)
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

// offload lets a goroutine of gnet's pool answer the complete requests. They are
// copied: in belongs to the loop.
func (s *server) offload(c gnet.Conn, in []byte) gnet.Action {
	used, err := service.Complete(in)
	switch {
	case err != nil:
		return gnet.Close
	case used == 0: // Discard(0) discards everything
		return gnet.None
	}
	requests := bytes.Clone(in[:used])
	if _, err := c.Discard(used); err != nil {
		return gnet.Close
	}
	err = goroutine.DefaultWorkerPool.Submit(func() {
		v := s.options.Serve(nil, requests)
		// An error says that the connection has gone, and that is its own affair.
		_ = c.AsyncWrite(v.Out, func(c gnet.Conn, _ error) error {
			if v.Close {
				return c.Close()
			}
			return nil
		})
	})
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}
