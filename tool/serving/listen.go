package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tlsfiles"
	"github.com/hone-go/hone/tool/exit"
)

// firstInherited is the first descriptor that a supervisor passes.
const firstInherited = 3

// listen opens the address of --addr: HOST:PORT, unix:PATH with these permissions, or
// fd:N.
func listen(ctx context.Context, addr string, mode fs.FileMode) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path, mode)
	}
	if number, ok := strings.CutPrefix(addr, "fd:"); ok {
		return inherit(number)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, exit.Usagef("serve: --addr %q is neither HOST:PORT nor unix:PATH nor fd:N; write it as in 127.0.0.1:7000", addr)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	return ln, cannotListen("--addr", addr, err)
}

// cannotListen explains in one line why hone cannot listen on a flag's address.
func cannotListen(flag, addr string, err error) error {
	switch {
	case err == nil:
		return nil
	case sys.Exhausted(err):
		return exit.Failedf("serve: %s %s: %w; raise the limit of descriptors (ulimit -n, LimitNOFILE)", flag, addr, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return exit.Failedf("serve: %s %s: the port is in use; stop the process that listens there, or use another port (0 picks a free one)", flag, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return exit.Failedf("serve: %s %s: this machine has no such address; use one of its addresses, or 127.0.0.1", flag, addr)
	case errors.Is(err, fs.ErrPermission):
		return exit.Failedf("serve: %s %s: not permitted; use a port from 1024 up, or pass the socket in (fd:3)", flag, addr)
	}
	return exit.Failedf("serve: %s %s: %w; check the address", flag, addr, err)
}

// listenUnix listens on a socket file.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if path == "" {
		return nil, exit.Usagef("serve: --addr unix: has no path; write it as in unix:/run/hone.sock")
	}
	if path[0] == '@' { // Linux's abstract names are not files
		return nil, exit.Usagef("serve: --addr unix:%s is not a file, so no permissions would protect it; use a path, as in unix:/run/hone.sock", path)
	}
	ln, err := sys.ListenUnix(path, mode)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE): // it has a remedy already
		return nil, exit.Failedf("serve: --addr unix:%s: %w", path, errors.Unwrap(err))
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Failedf("serve: --addr unix:%s: no such folder; create it first", path)
	}
	return nil, exit.Failedf("serve: --addr unix:%s: %w; check the path and who may write there", path, err)
}

// Mode is the permissions of a socket file, in octal.
type Mode fs.FileMode

// Set accepts permissions as chmod does.
func (f *Mode) Set(text string) error {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > uint64(fs.ModePerm) {
		return errors.New("not permissions; write them in octal, as in 0660")
	}
	*f = Mode(mode)
	return nil
}

// String returns the permissions in octal.
func (f *Mode) String() string { return fmt.Sprintf("%04o", uint32(*f)) }

// Type is the placeholder of the value in help.
func (f *Mode) Type() string { return "MODE" }

// inherit listens on a socket passed by the parent process.
func inherit(number string) (net.Listener, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < firstInherited {
		return nil, exit.Usagef("serve: --addr fd:%s: no such descriptor; passed sockets begin at fd:%d", number, firstInherited)
	}
	if passed, ours := passedSockets(); passed > 0 && (!ours || fd >= firstInherited+passed) {
		return nil, exit.Failedf("serve: --addr fd:%d: LISTEN_FDS=%d and LISTEN_PID=%s do not give it to this process (%d); start hone without a wrapper, or exec it",
			fd, passed, os.Getenv("LISTEN_PID"), os.Getpid())
	}
	file := os.NewFile(uintptr(fd), "fd:"+number)
	if file == nil {
		return nil, exit.Failedf("serve: --addr fd:%d: no such descriptor; pass in a listening socket", fd)
	}
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, exit.Failedf("serve: --addr fd:%d: not a listening socket: %w; pass one in", fd, err)
	}
	return ln, nil
}

// passedSockets reads systemd's socket activation: the number of sockets, and whether
// they are for this process.
func passedSockets() (n int, ours bool) {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 1 {
		return 0, false
	}
	return n, os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid())
}

// tlsConfig builds the configuration from the certificate's files; nil without one.
func tlsConfig(files tlsfiles.Server) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	config, err := files.Config()
	switch {
	case err == nil:
		return config, nil
	case files.ClientCA == "":
		return nil, exit.Failedf("serve: --cert %s --key %s: %w; give a certificate and its key, both PEM", files.Cert, files.Key, err)
	}
	return nil, exit.Failedf("serve: --cert %s --key %s --client-ca %s: %w; give a certificate, its key and the clients' authorities, all PEM",
		files.Cert, files.Key, files.ClientCA, err)
}

// AddressOf formats ln's address as --addr accepts it.
func AddressOf(ln net.Listener) string {
	if ln.Addr().Network() == "unix" {
		return "unix:" + ln.Addr().String()
	}
	return fmt.Sprint(ln.Addr())
}
