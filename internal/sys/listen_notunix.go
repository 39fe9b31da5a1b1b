//go:build !unix

package sys

import (
	"io/fs"
	"net"
)

func listenUnix(path string, _ fs.FileMode) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if op, ok := err.(*net.OpError); ok {
		err = op.Err
	}
	return ln, err
}
