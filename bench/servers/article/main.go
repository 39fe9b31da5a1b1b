// Command article is the service as the first article's server reads requests: a goroutine a
// connection, and a signed length that is believed. The bytes 00 00 00 03 end its process, and
// 40 00 00 00 make it allocate a gibibyte.
package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/hone-go/hone/bench/service"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		ready(ln.Addr().String())
		for {
			conn, err := ln.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return err
			case err != nil: // as when there are no descriptors; without a pause it would use a whole CPU
				time.Sleep(5 * time.Millisecond)
			default:
				go serve(conn, o)
			}
		}
	})
}

func serve(conn net.Conn, o service.Options) {
	defer conn.Close()
	for {
		var length int32
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		payload := make([]byte, length-4) // as in the article: nothing checks it
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		answer, err := o.Answer(nil, payload)
		if err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
