package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

const (
	mostPassed  = 253     // descriptors at once, the kernel's limit
	mostMessage = 1 << 20 // bytes that a peer may send
)

// checkFolder refuses a folder to which other users have access.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	if info.Mode().Perm()&0o077 != 0 || uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s is of user %d with mode %#o; use a folder of this user with mode 0700", folder, uid, info.Mode().Perm())
	}
	return nil
}

// peer is the process at the other end. A message is JSON; spaces before it bring the descriptors of its sockets.
type peer struct {
	conn    *net.UnixConn
	pid     int
	trusted bool // it is of this process's user, or root's
	in      *json.Decoder
	passed  []*os.File
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn.(*net.UnixConn)}
	p.in = json.NewDecoder(io.LimitReader(p, mostMessage))
	p.pid, p.trusted = sys.Peer(p.conn)
	return p
}

// exchange sends a message and waits for the next one, which may say why the first could not be sent.
func (p *peer) exchange(ctx context.Context, m message) (message, error) {
	defer context.AfterFunc(ctx, func() { p.conn.SetDeadline(time.Unix(1, 0)) })()
	p.send(m)
	return p.receive()
}

func (p *peer) send(m message) error {
	for rest := m.Sockets; len(rest) > 0; rest = rest[min(mostPassed, len(rest)):] {
		var fds []int
		for _, x := range rest[:min(mostPassed, len(rest))] {
			fd, err := sys.Take(x.ln.(syscall.Conn))
			if err != nil {
				return err
			}
			defer fd.Close()
			fds = append(fds, int(fd))
		}
		if _, _, err := p.conn.WriteMsgUnix([]byte(" "), syscall.UnixRights(fds...), nil); err != nil {
			return err
		}
	}
	return json.NewEncoder(p.conn).Encode(m)
}

// receive returns the next message, with listeners for its sockets.
func (p *peer) receive() (m message, err error) {
	err = p.in.Decode(&m)
	if err == nil && len(p.passed) != len(m.Sockets) {
		err = fmt.Errorf("%d descriptors for %d sockets", len(p.passed), len(m.Sockets))
	}
	for i := 0; i < len(m.Sockets) && err == nil; i++ {
		if err = m.Sockets[i].open(p.passed[i]); err != nil {
			closeAll(m.Sockets[:i])
		}
	}
	for _, file := range p.passed {
		file.Close()
	}
	if p.passed = nil; err != nil {
		m.Sockets = nil
	}
	return m, err
}

// Read reads a part of a message and keeps the descriptors.
func (p *peer) Read(b []byte) (int, error) {
	control := make([]byte, syscall.CmsgSpace(4*mostPassed))
	n, controlled, flags, _, err := p.conn.ReadMsgUnix(b, control) // which sets CLOEXEC
	parts, _ := syscall.ParseSocketControlMessage(control[:controlled])
	for _, part := range parts {
		fds, _ := syscall.ParseUnixRights(&part)
		for _, fd := range fds {
			p.passed = append(p.passed, os.NewFile(uintptr(fd), "socket"))
		}
	}
	if flags&syscall.MSG_CTRUNC != 0 {
		err = errors.New("descriptors are missing; raise their limit (ulimit -n)")
	}
	return max(n, 0), err
}

// open makes a listener of a file, which must be what x says.
func (x *socket) open(file *os.File) error {
	option := func(name int) int {
		value, err := syscall.GetsockoptInt(int(file.Fd()), syscall.SOL_SOCKET, name)
		if err != nil {
			return -1
		}
		return value
	}
	domains := map[int]string{syscall.AF_INET: "tcp", syscall.AF_INET6: "tcp", syscall.AF_UNIX: "unix"}
	if option(syscall.SO_TYPE) != syscall.SOCK_STREAM || option(syscall.SO_ACCEPTCONN) != 1 || domains[option(syscall.SO_DOMAIN)] != x.Network {
		return fmt.Errorf("the descriptor for %s is not a listening socket of %s", x.Asked, x.Network)
	}
	ln, err := net.FileListener(file)
	if err == nil && ln.Addr().String() != x.Bound {
		ln.Close()
		err = fmt.Errorf("the socket for %s is bound to %s, not to %s", x.Asked, ln.Addr(), x.Bound)
	}
	x.ln = ln
	return err
}
