package client

import (
	"os"
	"syscall"
	"unsafe"
)

// The kernel stamps a segment when it arrives. On loopback that is while the server writes it, so
// the time at which the client gets a CPU to read it does not count.

// stamped asks the kernel for the stamps of what fd receives.
func stamped(fd int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1))
}

// stampMessage is the control message that carries a stamp.
type stampMessage struct {
	head syscall.Cmsghdr
	at   syscall.Timespec
}

// receive reads once into in, and notes when the last of it arrived, if the plan wants that.
func (l *loop) receive(c *conn, in []byte) (n int, errno syscall.Errno) {
	if !l.plan.Stamps {
		got, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&in[0])), uintptr(len(in)), syscall.MSG_DONTWAIT, 0, 0)
		return int(got), errno
	}
	var stamp stampMessage
	part := syscall.Iovec{Base: &in[0]}
	part.SetLen(len(in))
	message := syscall.Msghdr{Iov: &part, Iovlen: 1, Control: (*byte)(unsafe.Pointer(&stamp))}
	message.SetControllen(int(unsafe.Sizeof(stamp)))
	got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&message)), syscall.MSG_DONTWAIT)
	if c.arrived = 0; errno == 0 && stamp.head.Type == syscall.SCM_TIMESTAMPNS {
		c.arrived = stamp.at.Nano() - l.start.UnixNano()
	}
	return int(got), errno
}

// served is how long the server took for the answer that has arrived: since the request was sent,
// and before that, since it was due, for as long as the server had not answered the one before.
// It is negative for an answer without a stamp: the kernel begins to stamp a moment after the first
// socket asks for it.
func (c *conn) served(due int64) int64 {
	if c.arrived == 0 {
		return -1
	}
	took := c.arrived - c.sentAt + max(0, c.before-due)
	c.before = c.arrived
	return took
}
