// Command netbufio is the service on nothing but net and bufio: a goroutine a
// connection, buffered both ways, written when the requests that have arrived
// are answered.
package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/wire"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		return accept(ln, o)
	})
}

// accept waits after a failure, longer each time, as net/http does: most pass.
func accept(ln net.Listener, o service.Options) error {
	var wait time.Duration
	for {
		conn, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			time.Sleep(wait)
			continue
		}
		wait = 0
		go serve(conn, o)
	}
}

func serve(conn net.Conn, o service.Options) {
	defer conn.Close()
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	var frame, answer []byte
	for {
		frame = append(frame[:0], make([]byte, wire.HeaderSize)...)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		_, need, err := wire.Frame(frame, service.FrameLimit)
		if err != nil {
			return
		}
		frame = append(frame, make([]byte, need)...)
		if _, err := io.ReadFull(in, frame[wire.HeaderSize:]); err != nil {
			return
		}
		answer, err = o.Answer(answer[:0], frame[wire.HeaderSize:])
		if err != nil {
			return
		}
		if _, err := out.Write(answer); err != nil {
			return
		}
		if !complete(in) {
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
}

// complete reports whether the next request can be read without waiting.
func complete(in *bufio.Reader) bool {
	held, err := in.Peek(in.Buffered())
	if err != nil {
		return false
	}
	_, need, err := wire.Frame(held, service.FrameLimit)
	return need == 0 || err != nil
}
