package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// ListenUnix listens on a socket file with the given permissions, whatever the umask is.
// Nobody else can connect while the file is created: a socket refuses connections until
// listen(2), and the permissions are set before that. Closing the listener removes the
// file. Windows ignores the mode: the folder's permissions apply.
//
// A stale file, as a killed server leaves it, is replaced. Whatever else exists there is
// EADDRINUSE, with the reason and the remedy.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	ln, err := listenUnix(path, mode)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			ln, err = listenUnix(path, mode)
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	return ln, nil
}

// removeStale removes a socket file on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		return occupied("that file is not a socket; remove it yourself, or use another path")
	}
	conn, err := net.Dial("unix", path) // never waits, not even for room in the backlog
	if err == nil {
		conn.Close()
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return occupied(fmt.Sprintf("the socket is stale and cannot be removed: %v; remove it yourself", err))
		}
		return nil
	case errors.Is(err, fs.ErrNotExist): // by now
		return nil
	case errors.Is(err, fs.ErrPermission):
		return occupied("no permission to connect to that socket; remove it yourself if no server listens there, or use another path")
	}
	return occupied("another server listens there; stop it, or use another path")
}

// occupied is an EADDRINUSE that says why, and what to do.
type occupied string

func (o occupied) Error() string { return string(o) }
func (occupied) Unwrap() error   { return syscall.EADDRINUSE }
