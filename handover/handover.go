// Package handover replaces a running server by a new process while its listening sockets stay open, so that no
// client is refused. The new process takes the sockets from the old one over a unix socket, begins to accept and says
// that it is ready; only then does the old one stop accepting. A new process that fails, hangs or dies before that
// changes nothing. Linux only.
package handover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// Sockets are the listening sockets of a process. Call Take, Listen for each socket, Ready and Close, in this order.
type Sockets struct {
	// Path is the socket at which the running process gives its listening sockets to the next one, which must be of
	// the same user, or root. Nobody else may have access to its folder (mode 0700). When a process ends, the files of
	// Path and of its unix sockets stay; the next one replaces them. Zero: nothing is handed over.
	Path string
	// Logger gets a line when a process asks for the sockets. Zero: no logging.
	Logger *slog.Logger

	old      *source  // the process that has given its sockets; nil: none
	given    []socket // by it, and not asked for yet
	held     []socket // the one at Path is the first
	patience time.Duration
	yielded  chan struct{}
	ctx      context.Context
	leave    context.CancelFunc // ends ctx
	serving  sync.WaitGroup

	mu     sync.Mutex
	holder holder
}

// Take asks the running process for its sockets, and reports whether there is one. Then this process has 30 s until Ready.
func (s *Sockets) Take(ctx context.Context) (taken bool, err error) {
	s.patience, s.Logger = cmp.Or(s.patience, 30*time.Second), cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	s.yielded = make(chan struct{})
	s.ctx, s.leave = context.WithCancel(context.Background())
	if s.Path == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	info, err := os.Stat(filepath.Dir(s.Path))
	switch {
	case runtime.GOOS != "linux":
		err = errors.ErrUnsupported
	case err == nil && (!filepath.IsAbs(s.Path) || info.Mode().Perm()&0o077 != 0): // nor an abstract name
		err = errors.New("give an absolute path in a folder of this user with mode 0700")
	}
	for again := true; again && err == nil; {
		again, err = next(false, s.ask(ctx))
	}
	if err == nil {
		_, err = s.Listen("", func() (net.Listener, error) { return sys.ListenUnix(s.Path, 0o600) })
	}
	if err != nil {
		return false, s.wrapped(err)
	}
	return s.old != nil, nil
}

// ask asks the running process once.
func (s *Sockets) ask(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.Path)
	if err != nil {
		return err
	}
	old := &source{UnixConn: conn.(*net.UnixConn)}
	old.in = json.NewDecoder(io.LimitReader(old, 1<<20))
	if _, trusted := sys.Peer(old); !trusted {
		err = errors.New("another user listens there")
	} else if s.given, err = old.hear(ctx); err == nil {
		s.old = old
		return nil
	}
	old.Close()
	return err
}

// Listen returns the running process's listener for an address, written as there. If it has none, open opens one: a
// *net.TCPListener or *net.UnixListener. The caller owns the listener; for TLS, wrap what Listen returns. Sockets that
// nobody has asked for by the time of Ready are closed.
func (s *Sockets) Listen(address string, open func() (net.Listener, error)) (net.Listener, error) {
	if i := slices.IndexFunc(s.given, func(x socket) bool { return x.Asked == address }); i >= 0 {
		x := s.given[i]
		s.given, s.held = slices.Delete(s.given, i, i+1), append(s.held, x)
		return x.Listener, nil
	}
	ln, err := open()
	if err == nil && s.Path != "" {
		if unix, is := ln.(*net.UnixListener); is {
			unix.SetUnlinkOnClose(false) // the next process may have it by then
		}
		s.held = append(s.held, socket{ln, address, boundTo(ln)})
	}
	return ln, err
}

// Ready is called when this process accepts. The old process then stops accepting, systemd is told (sd_notify: READY=1,
// MAINPID), and this process gives its sockets to the next one. An error means that this process
// is to end: the old one serves on, or ctx has ended. Ready has no limit of its own: if the old process hangs, both
// accept.
func (s *Sockets) Ready(ctx context.Context) error {
	if s.old != nil {
		s.old.Write([]byte(ready))
		_, err := s.old.hear(ctx)
		_, err = next(true, err)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return s.wrapped(err)
		}
		s.old.Close()
	}
	closeAll(s.given)
	s.given = nil
	if s.Path != "" {
		s.serving.Go(s.answer)
	}
	s.notify(os.Getpid())
	return nil
}

// Yielded returns a channel that is closed when another process has taken over: stop accepting, and drain.
func (s *Sockets) Yielded() <-chan struct{} { return s.yielded }

// Close stops giving the sockets to others. It leaves them open. A process that has them and is not ready keeps them.
func (s *Sockets) Close() {
	s.mu.Lock()
	s.holder.left = true
	s.mu.Unlock()
	s.leave()
	if len(s.held) > 0 {
		s.held[0].Close()
	}
	s.serving.Wait()
	if s.old != nil {
		s.old.Close()
	}
	closeAll(s.given)
}

// answer answers the processes that ask for the sockets.
func (s *Sockets) answer() {
	for {
		conn, err := s.held[0].Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors are left
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.serving.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(s.ctx, func() { conn.Close() })()
			s.serve(conn.(*net.UnixConn))
		})
	}
}

// serve answers a process that asks for the sockets, its heir maybe.
func (s *Sockets) serve(heir *net.UnixConn) {
	heir.SetDeadline(time.Now().Add(s.patience))
	pid, trusted := sys.Peer(heir)
	s.mu.Lock()
	gives, why := s.holder.asked(pid, trusted)
	s.mu.Unlock()
	if gives {
		why = s.give(heir, pid)
	}
	if why != "" {
		s.Logger.Warn("another process cannot replace this one", "pid", pid, "why", why)
		heir.SetDeadline(time.Now().Add(time.Second))
		say(heir, message{Version: version, Refused: why})
	}
}

// give leaves the sockets to an heir when it is ready, or returns why this process serves on.
func (s *Sockets) give(heir *net.UnixConn, pid int) (why string) {
	err := say(heir, message{Version: version, Sockets: s.held})
	if err == nil {
		_, err = heir.Read(make([]byte, len(ready)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder.left {
		return "" // the end of the connection tells the heir
	}
	if err == nil {
		err = say(heir, message{Version: version}) // fails if it has died
	}
	if err != nil {
		s.holder.heir = 0
		return fmt.Sprintf("it was not ready: %v", err)
	}
	s.holder.left = true
	s.notify(pid) // before this process can end
	s.held[0].Close()
	close(s.yielded)
	return ""
}

// notify tells the service manager, if there is one, which process to watch and that it is ready.
func (s *Sockets) notify(pid int) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err == nil {
		_, err = fmt.Fprintf(conn, "READY=1\nMAINPID=%d", pid)
		conn.Close()
	}
	if err != nil {
		s.Logger.Warn("cannot tell the service manager", "err", err)
	}
}

func (s *Sockets) wrapped(err error) error { return fmt.Errorf("handover: %s: %w", s.Path, err) }

const (
	version = 1   // of the messages
	ready   = "r" // all that a new process says
)

// message is what the old process says, in JSON: Sockets, then nothing more to a new one that is ready; or Refused, why
// it serves on. A space before it brings each descriptor. Every version has Version and Refused.
type message struct {
	Version int    `json:"handover"`
	Refused string `json:",omitempty"`
	Sockets []socket
}

// socket is a listening socket, the address that it was asked for with, and its own.
type socket struct {
	net.Listener `json:"-"`
	Asked, Bound string
}

func boundTo(ln net.Listener) string { return ln.Addr().Network() + " " + ln.Addr().String() }

func closeAll[L net.Listener](all []L) {
	for _, ln := range all {
		ln.Close()
	}
}

func say(to *net.UnixConn, m message) error {
	for _, x := range m.Sockets {
		if err := pass(to, x.Listener); err != nil {
			return err
		}
	}
	return json.NewEncoder(to).Encode(m)
}

// source is the old process.
type source struct {
	*net.UnixConn
	in     *json.Decoder
	passed []net.Listener
}

// hear returns the sockets of the next message.
func (s *source) hear(ctx context.Context) ([]socket, error) {
	defer context.AfterFunc(ctx, func() { s.SetDeadline(time.Unix(1, 0)) })()
	var m message
	err := s.in.Decode(&m)
	switch {
	case err != nil:
	case m.Refused != "":
		err = fmt.Errorf("the running process serves on: %s", m.Refused)
	case m.Version != version:
		err = fmt.Errorf("the running process speaks version %d of the hand-over, not %d", m.Version, version)
	case len(s.passed) != len(m.Sockets):
		err = fmt.Errorf("%d descriptors for %d sockets", len(s.passed), len(m.Sockets))
	}
	for i := 0; i < len(m.Sockets) && err == nil; i++ {
		x := &m.Sockets[i]
		if x.Listener = s.passed[i]; boundTo(x) != x.Bound {
			err = fmt.Errorf("the socket for %s listens at %s, not at %s", x.Asked, boundTo(x), x.Bound)
		}
	}
	if err != nil {
		closeAll(s.passed)
		m.Sockets = nil
	}
	s.passed = nil
	return m.Sockets, err
}

// holder decides what the process that has the sockets does with those that ask for them. Like next it touches
// nothing: a test drives both through every order of messages and deaths.
type holder struct {
	heir int  // the process that has been given the sockets and is not ready yet; 0: none
	left bool // this process has yielded, or shuts down
}

// asked reports whether to give a process the sockets, or why it is refused. If neither, it is to ask again.
func (h *holder) asked(pid int, trusted bool) (gives bool, why string) {
	switch {
	case !trusted:
		return false, "only its own user and root may replace it"
	case h.left:
		return false, ""
	case h.heir != 0:
		return false, fmt.Sprintf("process %d is replacing it", h.heir)
	}
	h.heir = pid
	return true, ""
}

// next decides what a new process does about an answer: it asks again, ends with an error, or goes on, with the sockets
// or, where nobody listens, with new ones. A process that is gone without a word is dead.
func next(holds bool, answer error) (again bool, err error) {
	switch {
	case errors.Is(answer, fs.ErrNotExist), errors.Is(answer, syscall.ECONNREFUSED):
		return false, nil
	case errors.Is(answer, io.EOF), errors.Is(answer, syscall.ECONNRESET):
		return !holds, nil
	}
	return false, answer
}
