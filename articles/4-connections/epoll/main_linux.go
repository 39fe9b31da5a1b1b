// Command epoll is the article's server: one loop waits for all connections and serves those that are
// ready, one after the other.
package main

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	counts stage.Counts
	epoll  int
	mu     sync.Mutex
	conns  map[int32]net.Conn
	buf    []byte
}

func main() {
	s := &server{conns: make(map[int32]net.Conn), buf: make([]byte, 4096)}
	stage.Run(s.serve, s.counts.Stats)
}

func (s *server) serve(ln net.Listener) (err error) {
	if s.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- s.start() }()
	go func() { failed <- s.accept(ln) }()
	return <-failed
}

func (s *server) accept(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		s.counts.Connected.Add(1)
		if s.add(conn) != nil {
			conn.Close()
			s.counts.Connected.Add(-1)
		}
	}
}

// add has the loop watch a connection.
func (s *server) add(conn net.Conn) error {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var added error
	err = raw.Control(func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns[int32(fd)] = conn
		added = syscall.EpollCtl(s.epoll, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLHUP, Fd: int32(fd)})
	})
	return errors.Join(err, added)
}

// start is the loop.
func (s *server) start() error {
	events := make([]syscall.EpollEvent, 100)
	for {
		n, err := syscall.EpollWait(s.epoll, events, -1)
		if err != nil && err != syscall.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			s.mu.Lock()
			conn := s.conns[e.Fd]
			s.mu.Unlock()
			if conn != nil && s.replyConn(conn, s.buf) != nil {
				s.mu.Lock()
				delete(s.conns, e.Fd)
				s.mu.Unlock()
				conn.Close() // which also ends the watch
				s.counts.Connected.Add(-1)
			}
		}
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
