//go:build !linux

package sys

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// Take is not supported here.
func Take(syscall.Conn) (Socket, error) { return NoSocket, errors.ErrUnsupported }

// Acceptor is empty here: the listener accepts.
type Acceptor struct{}

// Learn does nothing here.
func (a *Acceptor) Learn(net.Listener, net.Conn) {}

// Follow does nothing here.
func (a *Acceptor) Follow(func(Socket, netip.AddrPort)) {}

// CloseWrite is not supported here.
func (s Socket) CloseWrite() error { return errors.ErrUnsupported }

// ResetOnClose does nothing here.
func (s Socket) ResetOnClose() {}

// LimitUnsent does nothing here.
func LimitUnsent(fd uintptr, n int) {}

// LocalAddr is not supported here.
func (s Socket) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// PeerCredentials is not supported here.
func PeerCredentials(int) (pid, uid, gid int, known bool) { return -1, -1, -1, false }

// Close is not supported here.
func (s Socket) Close() error { return errors.ErrUnsupported }
