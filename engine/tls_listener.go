package engine

import (
	"crypto/tls"
	"net"
)

// NewTLSListener returns a listener whose connections use TLS, as tls.NewListener does. Events serves
// them from its event loops, without a goroutine for each. With Server.TrustedProxies, the PROXY
// header comes before the handshake. On Events as many handshakes compute at a time as there are
// processors, and hosts that wait for a turn take it in rotation. A connection of tls.NewListener has
// a goroutine on every engine, and receives the PROXY header encrypted.
func NewTLSListener(inner net.Listener, config *tls.Config) net.Listener {
	return &tlsListener{inner, config}
}

type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept is for others than Server.Serve, which accepts from the inner listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(nc, l.config), nil
}
