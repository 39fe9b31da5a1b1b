package engine_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// certificate returns a certificate for tests, always the same.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// secureConn is a client's TLS connection, with what its socket can do.
type secureConn struct {
	*tls.Conn
	*net.TCPConn
}

// quick returns what clients that do not verify need for a handshake. It is on the cheapest curve, since
// handshakes are most of what TLS costs these tests, but in a run of all tests as Go's defaults are.
func quick() *tls.Config {
	if testrun.All() {
		return &tls.Config{InsecureSkipVerify: true}
	}
	return &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP256}}
}

// secured makes the handshake of a client. The server may refuse it.
func secured(nc net.Conn) secureConn {
	c := secureConn{tls.Client(nc, quick()), nc.(*net.TCPConn)}
	c.Conn.SetDeadline(time.Now().Add(patience))
	c.Conn.Handshake()
	c.Conn.SetDeadline(time.Time{})
	return c
}

func (c secureConn) Read(p []byte) (int, error)          { return c.Conn.Read(p) }
func (c secureConn) Write(p []byte) (int, error)         { return c.Conn.Write(p) }
func (c secureConn) Close() error                        { return c.Conn.Close() }
func (c secureConn) LocalAddr() net.Addr                 { return c.Conn.LocalAddr() }
func (c secureConn) RemoteAddr() net.Addr                { return c.Conn.RemoteAddr() }
func (c secureConn) SetDeadline(at time.Time) error      { return c.Conn.SetDeadline(at) }
func (c secureConn) SetReadDeadline(at time.Time) error  { return c.Conn.SetReadDeadline(at) }
func (c secureConn) SetWriteDeadline(at time.Time) error { return c.Conn.SetWriteDeadline(at) }

// CloseWrite sends a close_notify and a FIN.
func (c secureConn) CloseWrite() error {
	if err := c.Conn.CloseWrite(); err != nil {
		return err
	}
	return c.TCPConn.CloseWrite()
}
