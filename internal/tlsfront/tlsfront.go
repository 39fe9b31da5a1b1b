// Package tlsfront runs a test over TLS without its clients knowing. They connect to a front, which encrypts
// what they send, and decrypts what the server sends.
package tlsfront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// Listen returns a listener for a server over TLS. Clients connect to ln.
func Listen(t testing.TB, ln net.Listener, config *tls.Config) net.Listener {
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
	return engine.NewTLSListener(f, config)
}

// Certificate makes a certificate for a test's server, with a key with which handshakes are cheap.
func Certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
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
	// The cheapest curve, because handshakes are most of what a front costs.
	server := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP256}})
	if server.Handshake() != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(server, client); err != nil || isReset(client) {
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

// isReset reports whether a client's connection was reset. A write to it may have got the error, and
// then a read ends as if the client had closed its side.
func isReset(client socket) (reset bool) {
	if tcp, ok := client.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { reset = sys.Broken(fd) })
		}
	}
	return reset
}
