package codec

import "syscall"

const ipBindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT, of Linux 4.2

// portWhenConnecting has the kernel choose a socket's port when it connects. By default bind
// chooses the port, and then a port must be free of connections to any address.
func portWhenConnecting(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// Old kernels do not have the option; the dial works without it.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
}
