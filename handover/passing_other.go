//go:build !linux

package handover

import (
	"errors"
	"net"
)

func pass(*net.UnixConn, net.Listener) error { return errors.ErrUnsupported }
