// Command nbio is the service on github.com/lesismal/nbio.
package main

import (
	"errors"

	"github.com/lesismal/nbio"

	"github.com/hone-go/hone/bench/service"
)

// mostWaiting is what may wait for a client that does not read before nbio closes its connection, as in its quick start.
const mostWaiting = 6 << 20

func main() {
	service.Main([]string{"pollers"}, func(o service.Options, ready func(string)) error {
		s := &server{options: o}
		engine := nbio.NewEngine(nbio.Config{
			Network: "tcp", Addrs: []string{o.Addr}, NPoller: o.Loops, MaxWriteBufferSize: mostWaiting,
		})
		engine.OnOpen(func(c *nbio.Conn) { c.SetSession(new(session)) })
		engine.OnData(s.onData)
		if err := engine.Start(); err != nil {
			return err
		}
		ready(o.Addr)
		engine.Wait()
		return errors.New("the engine has ended")
	})
}

type server struct {
	options service.Options
	buffers service.Buffers
}

// session is what a connection remembers.
type session struct{ held []byte } // the front of a request whose rest has not come

func (s *server) onData(c *nbio.Conn, data []byte) {
	own, ok := c.Session().(*session)
	if !ok {
		c.Close()
		return
	}
	if len(own.held) > 0 {
		own.held = append(own.held, data...)
		data = own.held
	}
	buffer := s.buffers.Get()
	v := s.options.Serve(*buffer, data)
	if rest := data[v.Used:]; len(rest) > 0 {
		own.held = append(own.held[:0], rest...)
	} else {
		own.held = nil
	}
	var err error
	if len(v.Out) > 0 {
		_, err = c.Write(v.Out)
	}
	s.buffers.Put(buffer, v.Out)
	if err != nil || v.Close {
		c.Close()
	}
}
