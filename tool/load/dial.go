package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/tool/load/source"
)

// The context of Dial carries a run's source addresses to its target. So the Target interface
// stays small, and every target of this package dials in the same way.
type sourcesKey struct{}

// sources gives each connection the next address (round robin).
type sources struct {
	addresses source.Addresses
	next      atomic.Uint64
}

// fromSources returns a context whose connections come from a's addresses.
func fromSources(ctx context.Context, a source.Addresses) context.Context {
	if a.Len() == 0 {
		return ctx
	}
	return context.WithValue(ctx, sourcesKey{}, &sources{addresses: a})
}

// dial opens a connection, from the context's next source address if it has any, and else with
// its guard.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if guard, ok := ctx.Value(guardKey{}).(func(string, string, syscall.RawConn) error); ok {
		d.Control = guard
	}
	if from, ok := ctx.Value(sourcesKey{}).(*sources); ok {
		local := from.addresses.At(from.next.Add(1) - 1)
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
		d.Control = portWhenConnecting
	}
	return d.DialContext(ctx, network, address)
}

// whereIs returns the address of a target of this package.
func whereIs(t Target) (network, address string) {
	switch t := t.(type) {
	case Frames:
		return cmp.Or(t.Network, "tcp"), t.Address
	case Messages:
		return cmp.Or(t.Network, "tcp"), t.Address
	case sited:
		return t.its().network, t.its().address
	}
	return "", ""
}

// handshakesOf returns the handshake counters of a target; nil: it does not use TLS.
func handshakesOf(t Target) *handshakes {
	if t, ok := t.(sited); ok {
		return t.its().handshakes
	}
	return nil
}

// noAddress explains that the kernel has no local address or port to connect from.
func noAddress(err error, open int64) (what, try string) {
	op, call := new(net.OpError), new(os.SyscallError)
	if errors.As(err, &op) && errors.As(err, &call) && call.Syscall == "bind" && !errors.Is(err, syscall.EADDRINUSE) {
		from := "an address"
		if local, ok := op.Source.(*net.TCPAddr); ok && local != nil {
			from = local.IP.String()
		}
		return fmt.Sprintf("cannot connect from %s, which is not one of this machine's addresses", from),
			"name those that ip address shows, or add it to an interface"
	}
	return fmt.Sprintf("out of local ports after %d connections", open),
		"spread them over more source addresses (--source), use fewer connections, or widen net.ipv4.ip_local_port_range"
}
