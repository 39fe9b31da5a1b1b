package engine_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/hone-go/hone/engine"
)

// While user code has the socket, LocalAddr of the Conn still works.
func TestLocalAddrOfATakenSocket(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		seen := make(chan netip.AddrPort, 1)
		s := serve(t, g, lines{serve: func(t *engine.Turn, _ []byte) error {
			c := t.Conn()
			t.TakeOver(forGood(func(net.Conn, []byte) { seen <- c.LocalAddr() }))
			return errHandedOver
		}})
		c := s.dial(t)
		c.send("take\n")
		var want netip.AddrPort
		if a, ok := s.addr.(*net.TCPAddr); ok {
			want = a.AddrPort()
		}
		if got := heard(t, seen, "the socket"); got != want {
			t.Errorf("LocalAddr is %v, want %v", got, want)
		}
	})
}
