package load

import "syscall"

const ipBindAddressNoPort = 24 // IP_BIND_ADDRESS_NO_PORT, of Linux 4.2

// portWhenConnecting has the kernel choose a socket's port when it connects. When it
// is bound to an address before, a port must otherwise be free of connections to
// everywhere, and one of them is enough to use it up.
func portWhenConnecting(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// An old kernel does without.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
}
