package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// dialError explains why a connection could not be opened after open others.
func dialError(err error, open int64, limit time.Duration) *Error {
	if own := new(Error); errors.As(err, &own) {
		return own // the target's
	}
	e := &Error{Kind: Unreachable, Err: err}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.What = "nothing listens there (connection refused)"
		e.Try = "start the server, or correct the address"
	case errors.Is(err, os.ErrNotExist):
		e.What = "there is no such socket"
		e.Try = "start the server, or correct the path"
	case sys.Exhausted(err):
		e.What = fmt.Sprintf("out of descriptors after %d connections", open)
		e.Try = "raise the limit (ulimit -n) or use fewer connections"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
		e.What, e.Try = noAddress(err, open)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		e.What = fmt.Sprintf("no connection within %v", limit)
		e.Try = "check the address and the firewall, or open connections more slowly"
	default:
		e.What = fmt.Sprintf("cannot connect: %v", err)
		e.Try = "check the address, and that the server runs"
	}
	return e
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
