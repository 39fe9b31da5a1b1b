package fakenet

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A Conn behaves like TCP.
func TestConnBehavesLikeTCP(t *testing.T) {
	pairs := map[string]func(t *testing.T) (a, b net.Conn){
		"memory": func(*testing.T) (net.Conn, net.Conn) { return Pair(Buffer) },
	}
	if runtime.GOOS == "linux" { // other systems have different errors
		pairs["tcp"] = tcpPair
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			checkConns(t, pair)
		})
	}
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func checkConns(t *testing.T, pair func(t *testing.T) (a, b net.Conn)) {
	open := func() (a, b net.Conn) {
		a, b = pair(t)
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}
	buf := make([]byte, 100)
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	read := func(c net.Conn) error { _, err := c.Read(buf); return err }

	a, b := open()
	a.Write([]byte("hello"))
	n, err := io.ReadFull(b, buf[:5])
	if err != nil || string(buf[:n]) != "hello" {
		t.Errorf("read %q and %v", buf[:n], err)
	}
	b.SetReadDeadline(time.Unix(1, 0))
	expect("read after the deadline", read(b), os.ErrDeadlineExceeded)
	b.SetReadDeadline(time.Time{})
	unblocked := make(chan error, 1)
	go func() { unblocked <- read(b) }()
	b.SetReadDeadline(time.Unix(1, 0))
	expect("read cut off", <-unblocked, os.ErrDeadlineExceeded)
	b.SetReadDeadline(time.Now().Add(time.Millisecond))
	expect("read until the deadline", read(b), os.ErrDeadlineExceeded)

	go func() { unblocked <- writeAll(a) }()
	for range 3 {
		b.SetReadDeadline(time.Time{})
		io.ReadFull(b, buf)
	}
	a.SetWriteDeadline(time.Unix(1, 0))
	expect("write to a peer that does not read", <-unblocked, os.ErrDeadlineExceeded)

	a, b = open()
	a.Write([]byte("last"))
	a.(interface{ CloseWrite() error }).CloseWrite()
	if rest, err := io.ReadAll(b); string(rest) != "last" || err != nil {
		t.Errorf("after a half-close read %q and %v", rest, err)
	}
	b.Write([]byte("answer"))
	b.Close()
	if rest, err := io.ReadAll(a); string(rest) != "answer" || err != nil {
		t.Errorf("after the answer read %q and %v", rest, err)
	}
	expect("read on a closed end", read(b), net.ErrClosed)

	a, b = open()
	a.(interface{ SetLinger(int) error }).SetLinger(0)
	a.Close()
	expect("read from a peer that reset", read(b), syscall.ECONNRESET)

	a, b = open()
	a.Write([]byte("unread"))
	io.ReadFull(b, buf[:1])
	b.Close()
	expect("read from a peer that closed with bytes unread", read(a), syscall.ECONNRESET)
}

// writeAll writes until it fails.
func writeAll(c net.Conn) error {
	p := make([]byte, 64<<10)
	for {
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
}
