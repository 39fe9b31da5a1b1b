package codec

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/hone-go/hone/tool/load/source"
)

// The context of Dial carries a run's source addresses and its guard to the target. So the Target
// interface stays small, and every target of this package dials in the same way.
type (
	sourcesKey struct{}
	guardKey   struct{}
)

// sources gives each connection the next address (round robin).
type sources struct {
	addresses source.Addresses
	next      atomic.Uint64
}

// FromSources returns a context whose connections come from a's addresses.
func FromSources(ctx context.Context, a source.Addresses) context.Context {
	if a.Len() == 0 {
		return ctx
	}
	return context.WithValue(ctx, sourcesKey{}, &sources{addresses: a})
}

// Guard allows the address of a connection before it is opened: net.Dialer's Control, which is asked
// after the name is resolved.
type Guard func(network, address string, raw syscall.RawConn) error

// Guarded returns a context whose connections guard has to allow; nil: all.
func Guarded(ctx context.Context, guard Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, guard)
}

// dial opens a connection, from the context's next source address if it has any, and else with
// its guard.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if guard, ok := ctx.Value(guardKey{}).(Guard); ok {
		d.Control = guard
	}
	if from, ok := ctx.Value(sourcesKey{}).(*sources); ok {
		local := from.addresses.At(from.next.Add(1) - 1)
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
		d.Control = portWhenConnecting
	}
	return d.DialContext(ctx, network, address)
}
