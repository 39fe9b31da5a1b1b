package sys

import (
	"os"

	"golang.org/x/sys/unix"
)

// CloseWrite tells the peer that nothing more will be sent.
func (s Socket) CloseWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(int(s), unix.SHUT_WR))
}

// ResetOnClose makes Close throw away what is not sent and tell a TCP peer that
// the connection broke.
func (s Socket) ResetOnClose() {
	unix.SetsockoptLinger(int(s), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// Close gives the descriptor back, whatever it returns, and takes the socket out
// of every Poll.
func (s Socket) Close() error {
	return os.NewSyscallError("close", unix.Close(int(s)))
}
