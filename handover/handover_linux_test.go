package handover

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// pathIn returns a path in a new folder of this user alone.
func pathIn(t *testing.T) string { return filepath.Join(testrun.SocketFolder(t), "upgrade") }

// clientOf returns a client whose every request has a new connection to network and addr.
func clientOf(network, addr string) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
}

// askPID sends a request and returns the process that answers.
func askPID(c *http.Client, method string, body io.Reader) (string, error) {
	r, err := http.NewRequest(method, "http://server/", body)
	if err != nil {
		return "", err
	}
	answer, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && strings.Count(string(text), "\n") != 3 {
		err = fmt.Errorf("half an answer: %q", text)
	}
	pid, _, _ := strings.Cut(string(text), " ")
	return pid, err
}

// wantFrom expects an answer from one process.
func wantFrom(t *testing.T, addr string, from *child) {
	t.Helper()
	for _, c := range []*http.Client{clientOf("tcp", addr), clientOf("unix", from.path()+".public")} {
		if pid, err := askPID(c, http.MethodGet, nil); err != nil || pid != fmt.Sprint(from.cmd.Process.Pid) {
			t.Errorf("process %s answers (%v), want %d", pid, err, from.cmd.Process.Pid)
		}
	}
}

func (c *child) path() string {
	for _, x := range c.cmd.Env {
		if path, is := strings.CutPrefix(x, "HANDOVER_PATH="); is {
			return path
		}
	}
	return ""
}

// TestNobodyIsRefused replaces a server again and again under new connections by TCP and by a unix socket, with
// uploads and streams.
func TestNobodyIsRefused(t *testing.T) {
	path := pathIn(t)
	old := start(t, "server", path)
	if old.until("taken ") != "false" {
		t.Error("the first server has taken sockets from somebody")
	}
	addr := old.until("at ")
	old.until("ready")
	var done atomic.Bool
	var asked atomic.Uint64
	answered := make(chan struct{}, 1)
	fail := sync.OnceFunc(func() { close(answered) })
	var clients sync.WaitGroup
	for i := range 8 {
		client, method := clientOf("tcp", addr), http.MethodGet
		if i%2 == 1 {
			client = clientOf("unix", path+".public")
		}
		clients.Go(func() {
			for !done.Load() {
				body := io.Reader(nil)
				if method == http.MethodPost {
					body = strings.NewReader(strings.Repeat("x", 1<<16))
				}
				if _, err := askPID(client, method, body); err != nil {
					t.Error(err)
					fail()
					return
				}
				asked.Add(1)
				if !t.Failed() {
					select {
					case answered <- struct{}{}:
					default:
					}
				}
				if method = http.MethodGet; asked.Load()%4 == 0 {
					method = http.MethodPost
				}
			}
		})
	}
	for range testrun.Sized(3, 50) {
		next := start(t, "server", path)
		if next.until("taken ") != "true" {
			t.Error("it has taken no sockets")
		}
		next.until("ready")
		old.until("yielded")
		old.until("drained")
		old.cmd.Wait()
		old = next
		for range 50 {
			<-answered
		}
	}
	done.Store(true)
	clients.Wait()
	wantFrom(t, addr, old)
	t.Log(asked.Load(), "requests")
}

// TestHeirsThatDie: a new process that dies before it is ready changes nothing, and one at a time may try.
func TestHeirsThatDie(t *testing.T) {
	path := pathIn(t)
	old := start(t, "server", path)
	addr := old.until("at ")
	old.until("ready")
	for _, step := range []string{"taken true", "mute", "accepting"} {
		heir := start(t, "server", path, "HANDOVER_HALT="+step)
		heir.until(step)
		second := start(t, "server", path)
		if said := second.until("refused "); !strings.Contains(said, fmt.Sprintf("process %d is replacing it", heir.cmd.Process.Pid)) {
			t.Errorf("%s: the second of two is told: %s", step, said)
		}
		heir.kill()
		old.untilRefused(heir)
		wantFrom(t, addr, old)
	}
	next := start(t, "server", path)
	next.until("ready")
	old.until("drained")
	wantFrom(t, addr, next)
}

// TestOldThatDies: whoever has the sockets serves, even if the old process dies or hangs before it has answered.
func TestOldThatDies(t *testing.T) {
	path := pathIn(t)
	old := start(t, "server", path)
	addr := old.until("at ")
	old.until("ready")
	for _, step := range []string{"taken true", "accepting"} {
		heir := start(t, "server", path, "HANDOVER_HALT="+step)
		heir.until(step)
		old.kill()
		heir.goOn()
		heir.until("ready")
		wantFrom(t, addr, heir)
		old = heir
	}
	heir := start(t, "server", path, "HANDOVER_HALT=accepting")
	heir.until("accepting")
	old.cmd.Process.Signal(syscall.SIGSTOP)
	syscall.Wait4(old.cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
	heir.goOn()
	wantFrom(t, addr, heir)
	old.cmd.Process.Signal(syscall.SIGCONT)
	heir.until("ready")
	old.until("drained")
	heir.kill()
	again := start(t, "server", path)
	if again.until("taken ") != "false" {
		t.Error("it has taken the sockets of a dead process")
	}
}

// TestStrangers: another user gets nothing, even if the folder is open, nor does another version.
func TestStrangers(t *testing.T) {
	path := pathIn(t)
	old := start(t, "server", path)
	addr := old.until("at ")
	old.until("ready")
	newer := start(t, "stranger", path) // of another version: it ends when it has read the offer
	if said := newer.until("got "); said != "3 <nil>" {
		t.Errorf("this user gets %s", said)
	}
	old.untilRefused(newer)
	wantFrom(t, addr, old)
	if os.Geteuid() != 0 {
		testrun.Lacks(t, "only root can be another user")
	}
	program := filepath.Join(testrun.SocketFolder(t), "stranger")
	image, err := os.ReadFile("/proc/self/exe")
	for _, err := range []error{err, os.WriteFile(program, image, 0o755), os.Chmod(program, 0o755), os.Chmod(filepath.Dir(program), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stranger := func(part string) *child {
		c := &child{t: t, cmd: exec.Command(program)}
		c.cmd.Dir = "/"
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return c.start(part, path)
	}
	if said := stranger("stranger").until("got "); !strings.Contains(said, "permission denied") {
		t.Error(said)
	}
	os.Chmod(filepath.Dir(path), 0o755)
	os.Chmod(path, 0o666)
	if said := stranger("stranger").until("got "); said != "0 the running process serves on: only its own user and root may replace it" {
		t.Errorf("a stranger gets %s", said)
	}
	if said := stranger("server").until("refused "); !strings.Contains(said, "give an absolute path in a folder of this user with mode 0700") {
		t.Errorf("a stranger says %s", said)
	}
	wantFrom(t, addr, old)
}

// served is a Sockets that is ready, with n listeners.
func served(t *testing.T, path string, n int, limit time.Duration, logger *slog.Logger) *Sockets {
	t.Helper()
	s := &Sockets{Path: path, Logger: logger, patience: limit}
	if taken, err := s.Take(t.Context()); taken || err != nil {
		t.Fatal(taken, err)
	}
	for i := range n {
		listen(t, s, i)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		closeAll(s.held)
	})
	return s
}

// listen asks for the listener number i.
func listen(t *testing.T, s *Sockets, i int) net.Listener {
	t.Helper()
	ln, err := s.Listen(fmt.Sprint("number ", i), func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// descriptors returns how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestManySockets passes more sockets than one message may have. They arrive in order, are not inherited by children
// and block nobody, and those that nobody asks for are closed.
func TestManySockets(t *testing.T) {
	const many, unasked = 600, 7
	path := pathIn(t)
	old := served(t, path, many, 0, nil)
	before := descriptors(t)
	next := &Sockets{Path: path}
	if taken, err := next.Take(t.Context()); !taken || err != nil {
		t.Fatal(taken, err)
	}
	for i := range many - unasked {
		ln := listen(t, next, i).(*net.TCPListener)
		if got, want := boundTo(ln), old.held[i+1].Bound; got != want {
			t.Fatalf("socket %d is %s, want %s", i, got, want)
		}
		raw, err := ln.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) {
			closes, _, _ := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0)
			flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
			if closes&syscall.FD_CLOEXEC == 0 || flags&syscall.O_NONBLOCK == 0 {
				t.Errorf("socket %d: close-on-exec %d, flags %#x", i, closes, flags)
			}
		})
	}
	if err := next.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-old.Yielded()
	old.Close()
	closeAll(old.held)
	if now := descriptors(t); now > before-unasked {
		t.Errorf("%d descriptors, %d before the old process closed %d", now, before, many)
	}
	conn, err := net.Dial("unix", path) // which is the new process's now
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	next.Close()
	closeAll(next.held)
	if said := start(t, "server", path).until("taken "); said != "false" {
		t.Error("the socket of a process that has ended gives sockets")
	}
}

// TestTooFewDescriptors: a process that cannot take all sockets takes none, and the old one serves on.
func TestTooFewDescriptors(t *testing.T) {
	path, warned := pathIn(t), make(told, 100)
	served(t, path, 20, 0, slog.New(slog.NewTextHandler(warned, nil)))
	if said := start(t, "poor", path).until("got "); !strings.Contains(said, "descriptors are missing") && !strings.Contains(said, "too many open files") {
		t.Errorf("it says %s", said)
	}
	<-warned // that it has ended
	start(t, "server", path).until("taken true")
}

// TestTooLate: a process that hangs is refused when it wakes up.
func TestTooLate(t *testing.T) {
	path := pathIn(t)
	warned := make(told, 100)
	old := served(t, path, 1, time.Second, slog.New(slog.NewTextHandler(warned, nil)))
	late := &Sockets{Path: path}
	if taken, err := late.Take(t.Context()); !taken || err != nil {
		t.Fatal(taken, err)
	}
	if said := <-warned; !strings.Contains(said, "another process cannot replace this one") || !strings.Contains(said, "i/o timeout") {
		t.Error(said)
	}
	if said := fmt.Sprint(late.Ready(t.Context())); !strings.Contains(said, "the running process serves on: it was not ready: ") {
		t.Errorf("one that was late is told: %s", said)
	}
	late.Close()
	closeAll(late.held)
	select {
	case <-old.Yielded():
		t.Error("it has yielded")
	default:
	}
}

// told receives lines.
type told chan string

func (c told) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestUnfitSockets: what is not the listening socket that it is said to be is refused.
func TestUnfitSockets(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	fit := socket{ln, "x", boundTo(ln)}
	with := func(x socket) message { return message{Version: version, Sockets: []socket{fit, x}} }
	for _, x := range []struct {
		says  string
		offer message
	}{
		{"the running process speaks version 2 of the hand-over, not 1", message{Version: version + 1, Sockets: []socket{fit}}},
		{"another server listens there", message{Version: version}},
		{"a descriptor is not a listening socket", with(socket{dressed{conn.(syscall.Conn)}, "a connection", ""})},
		{"a descriptor is not a listening socket", with(socket{dressed{packets.(syscall.Conn)}, "packets", ""})},
		{"the socket for x listens at " + boundTo(ln) + ", not at unix y", with(socket{ln, "x", "unix y"})},
	} {
		path := pathIn(t)
		at, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		before := descriptors(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := at.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			say(conn.(*net.UnixConn), x.offer)
			io.Copy(io.Discard, conn) // until it has ended
		}()
		s := &Sockets{Path: path}
		_, err = s.Take(t.Context())
		if said := fmt.Sprint(err); !strings.Contains(said, x.says) {
			t.Errorf("%s, want … %s", said, x.says)
		}
		s.Close()
		<-ended
		at.Close()
		if now := descriptors(t); now > before {
			t.Errorf("%s: %d descriptors, %d before", x.says, now, before)
		}
	}
}

// dressed is a socket that looks like a listener.
type dressed struct{ syscall.Conn }

func (dressed) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (dressed) Close() error              { return nil }
func (dressed) Addr() net.Addr            { return &net.TCPAddr{} }

// TestPaths: a path that others could reach is refused, and without one nothing is handed over.
func TestPaths(t *testing.T) {
	open := testrun.SocketFolder(t)
	if err := os.Chmod(open, 0o750); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		open + "/upgrade": "in a folder of this user with mode 0700",
		"@upgrade":        "give an absolute path",
		"upgrade":         "give an absolute path",
		open + "/no/x":    "no such file",
	} {
		_, err := (&Sockets{Path: path}).Take(t.Context())
		if said := fmt.Sprint(err); !strings.Contains(said, says) {
			t.Errorf("%s: %s, want … %s", path, said, says)
		}
	}
	s := served(t, "", 1, 0, nil)
	select {
	case <-s.Yielded():
		t.Error("yielded to nobody")
	default:
	}
}

// TestServiceManager: Ready tells it which process is the main one.
func TestServiceManager(t *testing.T) {
	manager := filepath.Join(testrun.SocketFolder(t), "notify")
	at, err := net.ListenPacket("unixgram", manager)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	t.Setenv("NOTIFY_SOCKET", manager)
	served(t, "", 1, 0, nil)
	p := make([]byte, 100)
	at.SetReadDeadline(time.Now().Add(patience))
	if n, _, err := at.ReadFrom(p); err != nil || string(p[:n]) != fmt.Sprintf("READY=1\nMAINPID=%d", os.Getpid()) {
		t.Errorf("%q %v", p[:n], err)
	}
}
