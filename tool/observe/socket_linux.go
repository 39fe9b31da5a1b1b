package observe

import "syscall"

// bornPrivate gives a socket file its mode when bind makes it: the file takes
// the mode of the socket itself.
func bornPrivate(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) })
	if err != nil {
		return err
	}
	return failed
}
