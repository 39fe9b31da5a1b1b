//go:build unix

package sys

import (
	"io/fs"
	"net"
	"os"
	"syscall"
)

// longestQueue exceeds every system's maximum backlog for listen(2), so that the system's
// own limit applies, as in package net.
const longestQueue = 1<<16 - 1

// listenUnix listens on a new socket file.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	socket, err := bindUnix(path, mode)
	if err != nil {
		return nil, err
	}
	defer socket.Close() // FileListener duplicates it
	if err := setMode(path, mode); err != nil {
		os.Remove(path)
		return nil, err
	}
	if err := syscall.Listen(int(socket.Fd()), longestQueue); err != nil {
		os.Remove(path)
		return nil, os.NewSyscallError("listen", err)
	}
	ln, err := net.FileListener(socket)
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(true)
	return ln, nil
}

// bindUnix creates a socket and its file, but does not listen yet.
func bindUnix(path string, mode fs.FileMode) (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), path)
	// On Linux the file gets the socket's own mode, less the umask, so it is never wider
	// than asked. Other systems refuse this and depend on setMode.
	syscall.Fchmod(fd, uint32(mode.Perm()))
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		socket.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	return socket, nil
}

// setMode changes the permissions of a file unless it has them already, as on Linux
// except for what the umask removed: chmod goes by name, and anyone with write access to
// the folder can put another file there.
func setMode(path string, mode fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() == mode.Perm() {
		return err
	}
	return os.Chmod(path, mode.Perm())
}
