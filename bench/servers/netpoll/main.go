// Command netpoll is the service on github.com/cloudwego/netpoll.
package main

import (
	"context"
	"errors"

	"github.com/cloudwego/netpoll"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/wire"
)

func main() {
	service.Main([]string{"pollers"}, func(o service.Options, ready func(string)) error {
		if err := netpoll.Configure(netpoll.Config{PollerNum: o.Loops}); err != nil {
			return err
		}
		ln, err := netpoll.CreateListener("tcp", o.Addr)
		if err != nil {
			return err
		}
		s := &server{options: o}
		loop, err := netpoll.NewEventLoop(s.onRequest)
		if err != nil {
			return err
		}
		ready(o.Addr)
		return loop.Serve(ln)
	})
}

type server struct {
	options service.Options
	buffers service.Buffers
}

// onRequest is called on a goroutine of netpoll's pool when a connection has
// brought something, and answers until nothing is left. Reading waits for the
// rest of a request that has begun.
func (s *server) onRequest(_ context.Context, conn netpoll.Connection) error {
	buffer := s.buffers.Get()
	answers := *buffer
	reader, err := conn.Reader(), error(nil)
	for err == nil && reader.Len() > 0 {
		if !complete(reader) && len(answers) > 0 {
			err = write(conn.Writer(), answers)
			answers = answers[:0]
		}
		if err != nil {
			break
		}
		var payload []byte
		if payload, err = next(reader); err == nil {
			answers, err = s.options.Answer(answers, payload)
		}
	}
	err = errors.Join(err, reader.Release(), write(conn.Writer(), answers))
	s.buffers.Put(buffer, answers)
	if err != nil {
		return errors.Join(err, conn.Close()) // netpoll ignores what is returned
	}
	return nil
}

// complete reports whether the next request can be read without waiting.
func complete(r netpoll.Reader) bool {
	if r.Len() < wire.HeaderSize {
		return false
	}
	header, err := r.Peek(wire.HeaderSize)
	if err != nil {
		return false
	}
	_, need, err := wire.Frame(header, service.FrameLimit)
	return err != nil || wire.HeaderSize+need <= r.Len()
}

// next is the next request's payload, valid until the reader is released.
func next(r netpoll.Reader) ([]byte, error) {
	header, err := r.Next(wire.HeaderSize)
	if err != nil {
		return nil, err
	}
	_, need, err := wire.Frame(header, service.FrameLimit)
	if err != nil {
		return nil, err
	}
	return r.Next(need)
}

// write copies answers into the writer's own memory and sends them.
func write(w netpoll.Writer, answers []byte) error {
	if len(answers) == 0 {
		return nil
	}
	out, err := w.Malloc(len(answers))
	if err != nil {
		return err
	}
	copy(out, answers)
	return w.Flush()
}
