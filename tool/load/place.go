package load

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"

	"github.com/hone-go/hone/tool/load/codec"
)

// Place returns where the plan's target is, for programs that also speak to it in other ways: its
// address, the page of HTTP and WebSocket (nil: another target) and the TLS configuration (nil: no TLS).
func (p Plan) Place() (at net.Addr, page *url.URL, config *tls.Config, err error) {
	r, err := p.Target.Prepare(p.carries())
	return address{r.Network, r.Address}, r.Page, r.TLS, err
}

// address is a net.Addr.
type address struct{ network, text string }

func (a address) Network() string { return a.network }

func (a address) String() string { return a.text }

// Dial opens a connection to the target as its own Dial does, where guard allows it.
func (p Plan) Dial(ctx context.Context, guard codec.Guard) (net.Conn, error) {
	return p.Target.Dial(codec.Guarded(ctx, guard))
}
