package lab

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/hone-go/hone/tool/demo"
)

// epollServer is the article's epoll server: one loop waits for all connections and reads
// those that are ready, one after the other, from a map of package net's connections. It
// speaks the first article's protocol.
type epollServer struct {
	step  *demo.Step // serves single requests
	ready int        // the epoll descriptor
	wake  [2]int
	mu    sync.Mutex
	conns map[int32]net.Conn
	ln    net.Listener

	stopped bool
}

func epollStage() (*stage, error) {
	step, err := demo.NewStep("direct")
	if err != nil {
		return nil, err
	}
	s := &epollServer{step: step, conns: make(map[int32]net.Conn)}
	if s.ready, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = syscall.Pipe2(s.wake[:], syscall.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, syscall.Close(s.ready))
	}
	if err = s.watch(int32(s.wake[0])); err != nil {
		return nil, err
	}
	return &stage{serve: s.serve, stop: s.stop}, nil
}

func (s *epollServer) watch(fd int32) error {
	return syscall.EpollCtl(s.ready, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLHUP, Fd: fd})
}

func (s *epollServer) serve(ln net.Listener) error {
	s.mu.Lock()
	s.ln = ln
	s.mu.Unlock()
	var looping sync.WaitGroup
	looping.Go(s.loop)
	defer func() {
		looping.Wait()
		for _, fd := range []int{s.ready, s.wake[0], s.wake[1]} {
			syscall.Close(fd)
		}
	}()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		if err := s.admit(conn); err != nil {
			conn.Close()
		}
	}
}

// admit registers a connection with the loop.
func (s *epollServer) admit(conn net.Conn) error {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var watched error
	err = raw.Control(func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopped {
			watched = net.ErrClosed
			return
		}
		s.conns[int32(fd)] = conn
		watched = s.watch(int32(fd))
	})
	return errors.Join(err, watched)
}

// loop serves one request of each ready connection until it is woken. A client that sends
// half a request blocks all others, in the article as here.
func (s *epollServer) loop() {
	events := make([]syscall.EpollEvent, 100)
	for {
		n, err := syscall.EpollWait(s.ready, events, -1)
		if err != nil && err != syscall.EINTR {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == int32(s.wake[0]) {
				return
			}
			s.mu.Lock()
			conn := s.conns[e.Fd]
			s.mu.Unlock()
			if conn != nil && s.step.Exchange(conn, conn) != nil {
				s.mu.Lock()
				delete(s.conns, e.Fd)
				s.mu.Unlock()
				conn.Close() // Close also removes it from epoll
			}
		}
	}
}

func (s *epollServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.ln != nil {
		s.ln.Close()
	}
	syscall.Write(s.wake[1], []byte{0})
	for _, conn := range s.conns {
		conn.Close()
	}
}

// descriptors returns how many files this process and its children may have open.
func descriptors() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	return int(min(limit.Cur, 1<<30)), nil
}
