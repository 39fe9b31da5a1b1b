// Command direct is the article's first server: every read and every write is a system call.
package main

import (
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
	for {
		payload, err := demo.ReadFrame(conn)
		if err != nil {
			return
		}
		s.counts.Received.Add(1)
		ack, err := s.handlePacket(payload)
		if err != nil {
			log.Print("packet decode error: ", err)
			return
		}
		if err := demo.WriteFrame(conn, ack); err != nil {
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
