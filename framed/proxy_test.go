package framed_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// proxyV2 returns a header of version 2.
func proxyV2(command, family byte, body []byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

// proxyV2From returns a header of version 2 with the source src.
func proxyV2From(src string) []byte {
	from := netip.MustParseAddrPort(src)
	family, to := byte(0x11), []byte{127, 0, 0, 1}
	if from.Addr().Is6() {
		family, to = 0x21, make([]byte, 16)
	}
	body := append(append([]byte{}, from.Addr().AsSlice()...), to...)
	body = binary.BigEndian.AppendUint16(body, from.Port())
	return proxyV2(0x21, family, append(body, 0, 80))
}

// loopback trusts all clients of these tests.
func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// Every place that reads the address gets the one in the header.
func TestToldAddressIsTheAddressEverywhere(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		opened, closed := make(chan string, 1), make(chan string, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), TrustedProxies: loopback(),
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				opened <- c.RemoteAddr().String()
				return ctx
			},
			OnClose: func(c framed.Conn, _ engine.Reason) { closed <- c.RemoteAddr().String() },
		}
		p := dial(t, serve(t, s))
		p.send(append(proxyV2From("203.0.113.8:4712"), submit(1, "")...))
		p.want(ack(1, ""))
		p.Close()
		for _, seen := range []<-chan string{opened, closed} {
			if got := heard(t, seen, "an address"); got != "203.0.113.8:4712" {
				t.Errorf("the address was %s, want the one in the header", got)
			}
		}
	})
}
