//go:build !unix

package sys

import (
	"io/fs"
	"net"
)

// ListenUnix listens on a new socket file. There are no such permissions here: the
// folder's decide.
func ListenUnix(path string, _ fs.FileMode) (net.Listener, error) { return net.Listen("unix", path) }
