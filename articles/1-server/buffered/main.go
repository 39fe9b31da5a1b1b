// Command buffered is the server with a buffer of 4 KiB in each direction.
package main

import (
	"bufio"
	"log"
	"net"

	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/tool/demo"
)

type server struct{ counts stage.Counts }

func main() {
	s := new(server)
	stage.Run(s.serve, s.counts.Stats)
}

func (s *server) serve(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go s.handleConn(conn)
	}
}

func (s *server) handleConn(conn net.Conn) {
	s.counts.Connected.Add(1)
	defer s.counts.Connected.Add(-1)
	defer conn.Close()
	rbuf, wbuf := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		payload, err := demo.ReadFrame(rbuf)
		if err != nil {
			return
		}
		s.counts.Received.Add(1)
		ack, err := s.handlePacket(payload)
		if err != nil {
			log.Print("packet decode error: ", err)
			return
		}
		if err := demo.WriteFrame(wbuf, ack); err != nil {
			return
		}
		if !demo.WholeFrame(rbuf) && wbuf.Flush() != nil { // the article flushes only when the connection ends
			return
		}
		s.counts.Sent.Add(1)
	}
}

func (s *server) handlePacket(payload []byte) ([]byte, error) {
	submit, err := demo.Decode(payload, demo.NewSubmit)
	if err != nil {
		return nil, err
	}
	return demo.Ack(submit.ID), nil
}
