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
	return &tlsListener{tls.NewListener(inner, config), inner, config}
}

type tlsListener struct {
	net.Listener // for others than Server.Serve, which accepts from inner
	inner        net.Listener
	config       *tls.Config
}
