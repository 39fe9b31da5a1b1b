//go:build !linux

package codec

import "syscall"

func portWhenConnecting(_, _ string, _ syscall.RawConn) error { return nil }
