// Command goroutine is the usual server: a goroutine and a buffer for each connection.
package main

import (
	"bytes"
	"net"

	"github.com/hone-go/hone/articles/stage"
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
		s.counts.Connected.Add(1)
		go s.handleConn(conn)
	}
}

func (s *server) handleConn(conn net.Conn) {
	defer s.counts.Connected.Add(-1)
	defer conn.Close()
	buf := make([]byte, 4096)
	for s.replyConn(conn, buf) == nil {
	}
}

// replyConn answers what has arrived in capitals.
func (s *server) replyConn(conn net.Conn, buf []byte) error {
	n, err := conn.Read(buf)
	if err != nil {
		return err
	}
	s.counts.Received.Add(1)
	if _, err := conn.Write(bytes.ToUpper(buf[:n])); err != nil {
		return err
	}
	s.counts.Sent.Add(1)
	return nil
}
