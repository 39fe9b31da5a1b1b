package http1

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/engine"
)

// The variant events-tls runs a test over TLS without its clients knowing: they connect to a front,
// which encrypts what they send, and decrypts what the server sends.

// secured returns a listener for a server over TLS, at the address of ln.
func secured(t *testing.T, ln net.Listener) net.Listener {
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
	default:
		return ln
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{Listener: inner, outer: ln}
	f.all.Go(f.serve)
	t.Cleanup(f.all.Wait)
	certificate, _ := certified(t)
	return engine.NewTLSListener(f, &tls.Config{Certificates: []tls.Certificate{certificate}})
}

// onTLS returns the listener for a test: ln, or one over TLS for the variant events-tls.
func onTLS(t *testing.T, ln net.Listener) net.Listener {
	if slices.Contains(strings.Split(t.Name(), "/"), "events-tls") {
		return secured(t, ln)
	}
	return ln
}

// overTLS runs a test over TLS on event loops.
func overTLS(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	switch t.Name() { // those who see the front: its address, refusals without words, its allocations; and short limits, which bound the handshake too
	case "TestContextHooks", "TestAddresses", "TestTooManyConns", "TestBareGetAllocations", "TestHTTP2WithoutTLS",
		"TestHalfHeadsMatchNetHTTP/timeout", "TestBodiesHaveTheirOwnTime", "TestShutdownDoesNotAwaitABodyForEver":
		return
	}
	if slices.Contains(engine.All(), engine.Events(engine.Auto)) {
		t.Run("events-tls", func(t *testing.T) {
			t.Parallel()
			test(t, engine.Events(engine.Auto))
		})
	}
}

type front struct {
	net.Listener // of the server
	outer        net.Listener
	all          sync.WaitGroup
}

func (f *front) Addr() net.Addr { return f.outer.Addr() }

func (f *front) Close() error {
	f.outer.Close()
	return f.Listener.Close()
}

func (f *front) serve() {
	for {
		client, err := f.outer.Accept()
		if err != nil {
			return
		}
		f.all.Go(func() { f.forward(client.(socket)) })
	}
}

// socket is a TCP or unix connection.
type socket interface {
	net.Conn
	CloseWrite() error
}

func (f *front) forward(client socket) {
	defer client.Close()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if a, ok := client.RemoteAddr().(*net.TCPAddr); ok && a.IP.To4() != nil {
		from.IP = a.IP
	}
	nc, err := net.DialTCP("tcp", from, f.Listener.Addr().(*net.TCPAddr))
	if err != nil {
		return
	}
	defer nc.Close()
	server := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	if server.Handshake() != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(server, client); err != nil {
			nc.SetLinger(0)
			nc.Close()
			return
		}
		if server.CloseWrite() == nil {
			nc.CloseWrite()
		}
	})
	if _, err := io.Copy(client, server); err != nil {
		if tcp, ok := client.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		client.Close()
	} else {
		client.CloseWrite()
	}
	both.Wait()
}
