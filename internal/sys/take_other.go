//go:build !linux

package sys

import (
	"errors"
	"syscall"
)

// Take is not offered here.
func Take(syscall.Conn) (Socket, error) { return NoSocket, errors.ErrUnsupported }
