// Package sys is the operating system as the engines need it: non-blocking
// reads and writes on descriptors known to be ready, bare sockets and the poll
// that waits for them, descriptor limits, and
// the spare descriptor for the moment when there are none left. Servers have unix
// sockets with permissions from it. Nothing else in the library imports
// golang.org/x/sys.
package sys

import "errors"

// ErrAgain says that a descriptor is not ready: wait, then try again.
var ErrAgain = errors.New("sys: not ready")

// ErrClosed says that the peer has sent its last byte.
var ErrClosed = errors.New("sys: end of stream")
