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

// LimitUnsent has the kernel accept about n bytes beyond what the peer's window lets it
// send, instead of megabytes. Sockets that are not TCP have no such limit.
func LimitUnsent(fd uintptr, n int) {
	unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}

// Close gives the descriptor back, whatever it returns, and takes the socket out
// of every Poll.
func (s Socket) Close() error {
	return os.NewSyscallError("close", unix.Close(int(s)))
}
