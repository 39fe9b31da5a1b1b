package load

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"syscall"
)

// Place returns where the plan's target is, one of this package, for programs that also speak to it
// in other ways: its address, the page of HTTP and WebSocket (nil: another target) and the TLS
// configuration (nil: no TLS).
func (p Plan) Place() (at net.Addr, page *url.URL, config *tls.Config, err error) {
	var where site
	switch t := p.Target.(type) {
	case HTTP:
		where, err = locate(t.URL, t.Address, "http", "https", t.TLS)
	case WebSocket:
		where, err = locate(t.URL, t.Address, "ws", "wss", t.TLS)
	default:
		where.network, where.address = whereIs(t)
	}
	if err == nil && where.uri != "" {
		if page, err = url.ParseRequestURI(where.uri); err == nil {
			page.Host = where.host
		}
	}
	return address{where.network, where.address}, page, where.tls, err
}

// address is a net.Addr.
type address struct{ network, text string }

func (a address) Network() string { return a.network }

func (a address) String() string { return a.text }

type guardKey struct{}

// Dial opens a connection to the target as its own Dial does, after guard, if not nil, has allowed
// the address: net.Dialer's Control, which is asked after the name is resolved, before connecting.
func (p Plan) Dial(ctx context.Context, guard func(network, address string, raw syscall.RawConn) error) (net.Conn, error) {
	return p.Target.Dial(context.WithValue(ctx, guardKey{}, guard))
}
