//go:build !unix

package sys

import (
	"io/fs"
	"net"
)

// ListenUnix listens on a new socket file. The mode is ignored here: the folder's
// permissions apply.
func ListenUnix(path string, _ fs.FileMode) (net.Listener, error) { return net.Listen("unix", path) }
