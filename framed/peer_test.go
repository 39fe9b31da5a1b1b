package framed_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// identity is everything that a Conn reports about its peer.
type identity struct {
	local       netip.AddrPort
	certificate string // verified
	pid, uid    int
	gid         int
	known       bool
}

func identify(c framed.Conn) identity {
	who := identity{local: c.LocalAddr()}
	who.pid, who.uid, who.gid, who.known = c.Credentials()
	if state := c.TLS(); state != nil && len(state.VerifiedChains) > 0 {
		who.certificate = string(state.PeerCertificates[0].Raw)
	}
	return who
}

// nobody is what a Conn reports without a connection.
var nobody = identity{pid: -1, uid: -1, gid: -1}

// TestPeerIsKnownWhereverThereIsAConn: the address, the certificate and the process are
// available when a connection begins, in handlers and outside of them, on every engine
// and kind of connection; and no longer after it has ended.
func TestPeerIsKnownWhereverThereIsAConn(t *testing.T) {
	secure := tlsConfig(t)
	me := secure.Clone()
	me.InsecureSkipVerify = true
	leaf, err := x509.ParseCertificate(me.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	secure.ClientAuth, secure.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	secure.ClientCAs.AddCert(leaf)
	run(t, func(t *testing.T, e engine.Engine) {
		for _, c := range []struct {
			name, network, addr string
			tls, hidden         bool
		}{
			{"tcp", "tcp", "127.0.0.1:0", false, false},
			{"tcp6", "tcp", "[::1]:0", false, false},
			{"hidden", "tcp", "127.0.0.1:0", false, true},
			{"tls", "tcp", "127.0.0.1:0", true, false},
			{"unix", "unix", "", false, false},
			{"tls over unix", "unix", "", true, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				if c.network == "unix" {
					c.addr = filepath.Join(t.TempDir(), "s")
				}
				ln, err := net.Listen(c.network, c.addr)
				if err != nil {
					t.Fatal(err)
				}
				want := nobody
				if a, ok := ln.Addr().(*net.TCPAddr); ok {
					want.local = a.AddrPort()
				} else if runtime.GOOS == "linux" {
					want.pid, want.uid, want.gid, want.known = os.Getpid(), os.Getuid(), os.Getgid(), true
				}
				nc, err := net.Dial(c.network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				if c.tls {
					ln, nc = engine.NewTLSListener(ln, secure), tls.Client(nc, me)
					want.certificate = string(leaf.Raw)
				}
				if c.hidden {
					ln = adapter{ln}
				}
				seen, met := make(chan identity, 3), make(chan framed.Conn, 1)
				see := framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
					seen <- identify(c.Conn())
					return dst, nil
				})
				s := &framed.Server{
					Engine: e, Handler: see, Connect: see,
					ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
						seen <- identify(c)
						met <- c
						return ctx
					},
				}
				serveOn(t, s, ln)
				p := peerOf(t, nc)
				p.send(wire.Append(nil, wire.Packet{Command: wire.Conn, ID: 1}))
				p.packet()
				p.exchangeEmpty(2)
				for _, where := range []string{"in ConnContext", "in Connect", "in the handler"} {
					if got := heard(t, seen, where); got != want {
						t.Errorf("%s: %+v, want %+v", where, got, want)
					}
				}
				conn := heard(t, met, "ConnContext")
				if got := identify(conn); got != want {
					t.Errorf("outside of handlers: %+v, want %+v", got, want)
				}
				if state := conn.TLS(); (state != nil) != c.tls {
					t.Errorf("TLS is %v, want a state: %v", state, c.tls)
				}
				p.Close()
				eventually(t, "the connection has ended", func() bool { return s.Stats().Open == 0 })
				if got := identify(conn); got != nobody || conn.TLS() != nil {
					t.Errorf("after its end: %+v, TLS %v", got, conn.TLS())
				}
			})
		}
	})
	if got := identify(framed.Conn{}); got != nobody {
		t.Errorf("the zero Conn returned %+v", got)
	}
}

// exchangeEmpty sends a request and expects an empty reply.
func (p *peer) exchangeEmpty(id uint64) {
	p.t.Helper()
	p.send(submit(id, "?"))
	p.want(ack(id, ""))
}

// TestPeerIsAskedWhileItLeaves: connections end at any moment, and another may have
// reused their descriptor.
func TestPeerIsAskedWhileItLeaves(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		met := make(chan framed.Conn)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			met <- c.Conn()
			return dst, nil
		})}
		addr := serve(t, s)
		here := netip.MustParseAddrPort(addr)
		for range 50 {
			p := dial(t, addr)
			p.send(submit(1, ""))
			c := heard(t, met, "a handler")
			go p.Close()
			eventually(t, "the connection has ended", func() bool {
				got := identify(c)
				if got != nobody && (got.local != here || got.known) {
					t.Fatalf("%+v, want %v or nothing", got, here)
				}
				return got == nobody
			})
		}
	})
}
