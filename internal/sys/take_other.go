//go:build !linux

package sys

import (
	"errors"
	"syscall"
)

// Take is not supported here.
func Take(syscall.Conn) (Socket, error) { return NoSocket, errors.ErrUnsupported }
