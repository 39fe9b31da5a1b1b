// Package sys wraps the system calls that the engines need: non-blocking reads and writes
// on ready descriptors, raw sockets and epoll, descriptor limits, and a spare descriptor
// for when none are left. It also creates unix sockets with permissions, and keeps servers
// alive whose log nobody reads. Nothing else in the library imports golang.org/x/sys.
package sys

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// ErrAgain reports that a descriptor is not ready: wait, then try again.
var ErrAgain = errors.New("sys: not ready")

// OutliveReaders keeps this process alive when nobody reads its standard output or standard
// error any more: writes to them then fail. By default Go's runtime ends the process with
// SIGPIPE at the next write, so a server would die with the program that reads its log. For
// commands that serve; one whose output is its result should end with its reader.
func OutliveReaders() {
	// Unlike signal.Ignore, this does not affect the processes that this one starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// ErrClosed reports the end of the stream.
var ErrClosed = errors.New("sys: end of stream")

// Peer returns the process that has connected a unix socket, or listens on it, and whether its user is this
// process's or root. Where the system does not say, the socket's permissions have decided.
func Peer(c syscall.Conn) (pid int, trusted bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, false
	}
	err = raw.Control(func(fd uintptr) {
		id, uid, _, known := PeerCredentials(int(fd))
		pid, trusted = id, !known || uid == 0 || uid == os.Geteuid()
	})
	return pid, trusted && err == nil
}
