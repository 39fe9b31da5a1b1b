package sys

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// tcpPair returns a connection on 127.0.0.1, closed when the test ends.
func tcpPair(t *testing.T) (near *net.TCPConn, far Socket) {
	t.Helper()
	near, far = ownTCPPair(t)
	t.Cleanup(func() { far.Close() })
	return near, far
}

// ownTCPPair returns a connection on 127.0.0.1 whose far side the test closes.
func ownTCPPair(t *testing.T) (near *net.TCPConn, far Socket) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	far, err = Take(accepted.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	return nc.(*net.TCPConn), far
}

// A socket taken from a connection keeps the options that package net has set, and
// closing the connection does not affect the socket.
func TestTakenSocketIsTheConnections(t *testing.T) {
	counted(t)
	near, far := tcpPair(t)
	for option, name := range map[int]string{syscall.TCP_NODELAY: "no delay", syscall.TCP_KEEPINTVL: "keep-alive"} {
		if v, err := syscall.GetsockoptInt(int(far), syscall.IPPROTO_TCP, option); err != nil || v == 0 {
			t.Errorf("%s: %d and %v", name, v, err)
		}
	}
	p := newPoll(t, nil)
	b := make([]byte, 10)
	if _, err := p.Read(far, b); err != ErrAgain {
		t.Errorf("with nothing to read: %v; it must not block", err)
	}
	if _, err := p.Write(far, []byte("hello")); err != nil {
		t.Error(err)
	}
	if n, err := near.Read(b); err != nil || string(b[:n]) != "hello" {
		t.Errorf("read %q and %v", b[:n], err)
	}
	near.Close()
	if _, err := Take(near); err == nil {
		t.Error("took the socket of a closed connection")
	}
}

func TestSocketCloseWrite(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	near, far := tcpPair(t)
	do(t, far.CloseWrite())
	if n, err := near.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d and %v, want the end", n, err)
	}
	if _, err := near.Write([]byte("still there?")); err != nil {
		t.Error(err)
	}
	do(t, p.Add(far, In, 1))
	if got := (waiting{on: (*Poll).Block}).untilTold(p); got != "1 in;" {
		t.Errorf("reported %q", got)
	}
	if n := far.Unread(); n != 12 {
		t.Errorf("%d bytes unread, want 12", n)
	}
}

func TestSocketResetOnClose(t *testing.T) {
	counted(t)
	p := newPoll(t, nil)
	near, far := ownTCPPair(t)
	do(t, p.Add(far, In, 1))
	wrote := 0
	for piece := make([]byte, 1<<20); ; {
		n, err := p.Write(far, piece)
		if wrote += n; err == ErrAgain {
			break
		}
		if err != nil || wrote > 1<<30 {
			t.Fatalf("wrote %d bytes to a peer that does not read, then %v", wrote, err)
		}
	}
	if n := far.Unsent(); n == 0 {
		t.Error("nothing is unsent although the peer does not read")
	}
	far.ResetOnClose()
	do(t, far.Close())
	var err error
	for buf := make([]byte, 1<<16); err == nil; {
		_, err = near.Read(buf)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer read %v, want ECONNRESET", err)
	}
}

func TestNoSocket(t *testing.T) {
	p := newPoll(t, nil)
	NoSocket.ResetOnClose()
	_, read := p.Read(NoSocket, make([]byte, 1))
	_, write := p.Write(NoSocket, make([]byte, 1))
	for _, err := range []error{read, write, NoSocket.Close(), NoSocket.CloseWrite()} {
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%v, want EBADF", err)
		}
	}
	if NoSocket.Unsent() != 0 || NoSocket.Unread() != 0 {
		t.Error("NoSocket has bytes")
	}
	if a := NoSocket.LocalAddr(); a.IsValid() {
		t.Errorf("NoSocket has the address %v", a)
	}
	if _, _, _, known := PeerCredentials(int(NoSocket)); known {
		t.Error("NoSocket has a peer")
	}
}

// For TCP the kernel returns credentials too, with a user that does not exist, or 0.
func TestPeerCredentialsAreOfUnixSocketsOnly(t *testing.T) {
	near, far := tcpPair(t)
	if pid, uid, gid, known := PeerCredentials(int(far)); known || pid != -1 || uid != -1 || gid != -1 {
		t.Errorf("a TCP peer has process %d of user %d, group %d", pid, uid, gid)
	}
	if got, want := far.LocalAddr().String(), near.RemoteAddr().String(); got != want {
		t.Errorf("LocalAddr is %s, want %s", got, want)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	pid, uid, gid, known := PeerCredentials(pair[0])
	if !known || pid != os.Getpid() || uid != os.Getuid() || gid != os.Getgid() {
		t.Errorf("a unix peer is process %d of user %d, group %d, known: %v; want this process", pid, uid, gid, known)
	}
	if a := Socket(pair[0]).LocalAddr(); a.IsValid() {
		t.Errorf("a unix socket has the address %v", a)
	}
}
