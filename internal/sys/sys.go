// Package sys wraps the system calls that the engines need: non-blocking reads and writes
// on ready descriptors, raw sockets and epoll, descriptor limits, and a spare descriptor
// for when none are left. It also creates unix sockets with permissions. Nothing else in
// the library imports golang.org/x/sys.
package sys

import "errors"

// ErrAgain reports that a descriptor is not ready: wait, then try again.
var ErrAgain = errors.New("sys: not ready")

// ErrClosed reports the end of the stream.
var ErrClosed = errors.New("sys: end of stream")
