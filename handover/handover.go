// Package handover replaces a running server by a new process while its listening sockets stay open, so that no
// client is refused. The new process takes the sockets from the old one over a unix socket, begins to accept and says
// that it is ready; only then does the old one stop accepting. A new process that fails, hangs or dies before that
// changes nothing. Linux only.
package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

	old      *peer    // the process that has given its sockets; nil: none
	heir     heir     // decides about it
	given    []socket // by it, and not asked for yet
	patience time.Duration
	ctx      context.Context
	leave    context.CancelFunc // ends ctx
	yielded  chan struct{}
	serving  sync.WaitGroup

	mu     sync.Mutex
	holder holder   // decides about the next process
	held   []socket // the one at Path is the first
}

// Take asks the running process for its sockets, and reports whether there is one. Then this process has 30 s until Ready.
func (s *Sockets) Take(ctx context.Context) (taken bool, err error) {
	s.patience, s.Logger = cmp.Or(s.patience, 30*time.Second), cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	s.yielded = make(chan struct{})
	s.ctx, s.leave = context.WithCancel(context.Background())
	if s.Path == "" {
		return false, nil
	}
	if !filepath.IsAbs(s.Path) { // nor an abstract name, which no permissions protect
		return false, s.wrapped(errors.New("give an absolute path"))
	}
	if err := checkFolder(filepath.Dir(s.Path)); err != nil {
		return false, s.wrapped(err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for do := ask; do == ask; {
		m, err := s.ask(ctx)
		switch do = s.heir.heard(m, err); do {
		case hold:
			s.held, s.given = m.Sockets[:1:1], m.Sockets[1:]
		case bind:
			ln, err := sys.ListenUnix(s.Path, 0o600)
			if err != nil {
				return false, s.wrapped(err)
			}
			s.keep(s.Path, ln)
		case giveUp:
			return false, s.wrapped(cmp.Or(err, m.refusal()))
		}
	}
	return s.heir.holds, nil
}

// ask asks the running process once.
func (s *Sockets) ask(ctx context.Context) (message, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.Path)
	if err != nil {
		return message{}, err
	}
	if s.old != nil {
		s.old.conn.Close()
	}
	s.old = newPeer(conn)
	if !s.old.trusted {
		return message{}, errors.New("another user listens there; use a folder that only this user can write to")
	}
	return s.old.exchange(ctx, message{Version: version})
}

// Listen returns the running process's listener for an address, written as there. If it has none, open opens one: a
// *net.TCPListener or *net.UnixListener. The caller owns the listener; for TLS, wrap what Listen returns. Sockets that
// nobody has asked for by the time of Ready are closed.
func (s *Sockets) Listen(address string, open func() (net.Listener, error)) (net.Listener, error) {
	if i := slices.IndexFunc(s.given, func(x socket) bool { return x.Asked == address }); i >= 0 {
		x := s.given[i]
		s.given, s.held = slices.Delete(s.given, i, i+1), append(s.held, x)
		return x.ln, nil
	}
	ln, err := open()
	if err == nil && s.Path != "" {
		s.keep(address, ln)
	}
	return ln, err
}

// keep notes a socket that this process has opened.
func (s *Sockets) keep(asked string, ln net.Listener) {
	if unix, is := ln.(*net.UnixListener); is {
		unix.SetUnlinkOnClose(false) // the next process may have it by then
	}
	s.held = append(s.held, socket{asked, ln.Addr().Network(), ln.Addr().String(), ln})
}

// Ready is called when this process accepts. The old process then stops accepting, systemd is told (sd_notify: READY=1,
// MAINPID), and this process gives its sockets to the next one. An error means that this process
// is to end: the old one serves on, or ctx has ended. Ready has no limit of its own: if the old process hangs, both
// accept.
func (s *Sockets) Ready(ctx context.Context) error {
	if s.old != nil && s.heir.holds {
		m, err := s.old.exchange(ctx, message{Ready: true})
		if ctx.Err() != nil || s.heir.heard(m, err) != own {
			return s.wrapped(cmp.Or(ctx.Err(), m.refusal()))
		}
		s.old.conn.Close()
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
	s.leave()
	if len(s.held) > 0 && s.Path != "" {
		s.held[0].ln.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	if s.old != nil {
		s.old.conn.Close()
	}
	closeAll(s.given)
}

// answer answers the processes that ask for the sockets.
func (s *Sockets) answer() {
	for heir := 1; s.ctx.Err() == nil; heir++ {
		conn, err := s.held[0].ln.Accept()
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
			s.serve(newPeer(conn), heir)
		})
	}
}

// serve gives the sockets to an heir, and leaves them to it when it is ready.
func (s *Sockets) serve(p *peer, heir int) {
	p.conn.SetDeadline(time.Now().Add(s.patience))
	var m message
	if p.trusted {
		m, _ = p.receive()
		closeAll(m.Sockets)
	}
	s.mu.Lock()
	gives, why := s.holder.asked(heir, p.pid, m.Version, p.trusted)
	s.mu.Unlock()
	if gives {
		m, err := p.exchange(s.ctx, message{Sockets: s.held})
		if closeAll(m.Sockets); s.serveOn(p, heir, m) {
			why = fmt.Sprintf("it was not ready: %v", err)
		}
	}
	if why != "" {
		s.Logger.Warn("another process cannot replace this one", "pid", p.pid, "why", why)
		p.conn.SetDeadline(time.Now().Add(time.Second))
		p.send(message{Refused: why})
	}
}

// serveOn leaves the sockets to an heir that says that it is ready, or reports that this process serves on.
func (s *Sockets) serveOn(p *peer, heir int, m message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Ready && s.holder.ready(heir) {
		s.notify(p.pid) // before this process can end
		if p.send(message{Yielded: true}) == nil {
			s.holder.left = true
			s.held[0].ln.Close()
			close(s.yielded)
			return false
		}
		s.notify(os.Getpid()) // it has died by now
	}
	return s.holder.failed(heir)
}

// notify tells the service manager, if there is one, which process to watch and that it is ready.
func (s *Sockets) notify(pid int) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err == nil {
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "READY=1\nMAINPID=%d", pid)
	}
	if err != nil {
		s.Logger.Warn("cannot tell the service manager", "err", err)
	}
}

func (s *Sockets) wrapped(err error) error { return fmt.Errorf("handover: %s: %w", s.Path, err) }
