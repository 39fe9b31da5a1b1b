package load

import (
	"context"
	"crypto/tls"
	"syscall"
)

// Place is where a target is, for programs that speak to it in other ways than the target does.
type Place struct {
	Network, Address string
	Host, Path       string      // of HTTP and WebSocket: the Host header and the request target
	TLS              *tls.Config // nil: no TLS
}

// PlaceOf returns where a target of this package is.
func PlaceOf(t Target) (Place, error) {
	var at site
	var err error
	switch t := t.(type) {
	case HTTP:
		at, err = locate(t.URL, t.Address, "http", "https", t.TLS)
	case WebSocket:
		at, err = locate(t.URL, t.Address, "ws", "wss", t.TLS)
	default:
		at.network, at.address = whereIs(t)
	}
	return Place{Network: at.network, Address: at.address, Host: at.host, Path: at.uri, TLS: at.tls}, err
}

type guardKey struct{}

// Control is net.Dialer's: it sees every address that a dial tries, after its name is resolved and
// before it connects.
type Control func(network, address string, raw syscall.RawConn) error

// Guarded returns a context in which the targets of this package ask guard before they connect.
func Guarded(ctx context.Context, guard Control) context.Context {
	return context.WithValue(ctx, guardKey{}, guard)
}

// Carried returns the content that requests of the plan carry; with sizes that vary, the largest.
func (p Plan) Carried() []byte { return p.content() }
