package torture

import (
	"net/netip"
	"syscall"
	"testing"
)

// heldAddress returns an address for a server that this test starts and restarts. Until it ends the
// kernel gives the port to nobody who takes any: a socket is bound to it that does not listen, beside
// which a listener with SO_REUSEADDR, as Go's are, may name the port.
func heldAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback.As4()}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(loopback, uint16(at.(*syscall.SockaddrInet4).Port)).String()
}
