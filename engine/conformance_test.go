package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/internal/testrun"
)

// The conformance tests of this package use exported names only. Each tests one contract
// and runs on every engine, over TCP, over unix sockets and over connections other than
// plain sockets.

// ground is what a test runs on: an engine, and a network.
type ground struct {
	engine  engine.Engine
	network string
}

// The networks of a ground.
const (
	overTCP     = "tcp"
	overUnix    = "unix"
	overAdapter = "adapter" // a wrapper of TCP, which engines must not treat as a socket
	overTLS     = "tls"     // NewTLSListener on TCP
	overEnds    = "ends"    // connections in memory, which know fake time
	overEndsTLS = "ends-tls"
)

func (g ground) String() string {
	if g.network == overTCP {
		return g.engine.Name()
	}
	return g.engine.Name() + "-" + g.network
}

// isLoop reports whether the engine serves this ground's connections from event loops.
func (g ground) isLoop() bool {
	return strings.HasPrefix(g.engine.Name(), "events") && g.network != overAdapter
}

// isAdapter reports whether the engine does not see this ground's sockets.
func (g ground) isAdapter() bool {
	return g.network == overAdapter || g.network == overTLS && !g.isLoop()
}

// shortly returns a FrameTime for tests: at least 2 s over TLS, where it bounds the handshake too.
func (g ground) shortly(frame time.Duration) time.Duration {
	if g.network == overTLS {
		return max(frame, 2*time.Second)
	}
	return frame
}

// isInline reports whether a handler that blocks stalls other connections of its loop,
// and isBeside whether they continue.
func (g ground) isInline() bool { return g.isLoop() && g.engine == engine.Events(engine.Inline) }
func (g ground) isBeside() bool { return g.isLoop() && g.engine != engine.Events(engine.Inline) }

// engines returns all engines of this operating system, in every mode.
func engines() (all []engine.Engine) {
	for _, e := range engine.All() {
		all = append(all, e)
		if e == engine.Events(engine.Auto) {
			all = append(all, engine.Events(engine.Inline), engine.Events(engine.Offload))
		}
	}
	return all
}

// over returns every engine on one network.
func over(network string) (all []ground) {
	for _, e := range engines() {
		all = append(all, ground{e, network})
	}
	return all
}

// everywhere returns every engine on every network for which all of is hold. All engines serve
// adapters in the same way. On unix sockets, and for loops over TLS, the default engine stands for the
// others, except in a run of all tests and under the race detector.
func everywhere(is ...func(ground) bool) []ground {
	all := append(over(overTCP), ground{engine.Engine{}, overAdapter}, ground{engine.Buffered(0), overTLS})
	if testrun.All() || testrun.Race {
		all = append(all, over(overUnix)...)
	} else {
		all = append(all, ground{engine.Engine{}, overUnix})
	}
	all = append(all, loopsOverTLS()...)
	for _, f := range is {
		all = slices.DeleteFunc(all, func(g ground) bool { return !f(g) })
	}
	return all
}

// loopsOverTLS returns the engine with event loops over TLS: in every mode in a run of all tests
// and under the race detector, and otherwise in the default mode.
func loopsOverTLS() []ground {
	if !testrun.All() && !testrun.Race {
		return slices.DeleteFunc([]ground{{engine.Engine{}, overTLS}}, func(g ground) bool { return !g.isLoop() })
	}
	return slices.DeleteFunc(over(overTLS), func(g ground) bool { return !g.isLoop() })
}

// onEach runs a test on each ground, concurrently, because the tests wait much and
// compute little.
func onEach(t *testing.T, grounds []ground, test func(t *testing.T, g ground)) {
	t.Helper()
	t.Parallel()
	var all sync.WaitGroup
	for _, g := range grounds {
		all.Go(func() {
			t.Run(g.String(), func(t *testing.T) { test(t, g) })
		})
	}
	all.Wait()
}

// oneByOne runs a test on each ground in sequence.
func oneByOne(t *testing.T, grounds []ground, test func(t *testing.T, g ground)) {
	t.Helper()
	for _, g := range grounds {
		t.Run(g.String(), func(t *testing.T) { test(t, g) })
	}
}

// inFakeTime runs a test on every engine over connections in memory, and for the engine with event loops over TLS,
// too. What waits costs nothing there, and a busy machine delays nothing.
func inFakeTime(t *testing.T, test func(t *testing.T, g ground)) {
	t.Helper()
	t.Parallel()
	for _, g := range append(over(overEnds), ground{engine.Engine{}, overEndsTLS}) {
		t.Run(g.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, g) })
		})
	}
}

// patience is the timeout of everything that a test waits for, on a busy machine too.
const patience = time.Minute

// tick is the resolution of a server's clock: no limit applies earlier than that before
// it is reached.
const tick = time.Millisecond

// heard returns the next value of ch.
func heard[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// eventually polls for a condition without an event, and reports whether it became true.
func eventually(within time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	pause := 2 * time.Millisecond
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for n := 1; !ok(); n++ {
		if n%20 == 0 && pause < 16*time.Millisecond { // a long wait: some conditions cost much
			pause *= 2
			ticks.Reset(pause)
		}
		select {
		case <-ticks.C:
		case <-deadline.C:
			return ok()
		}
	}
	return true
}

// lines is a line protocol; serve answers each line.
type lines struct {
	serve  func(t *engine.Turn, line []byte) error
	refuse func(why engine.Reason) // called by Refuse, if set
}

// errHandedOver is returned by serve to make Advance return at once, as it must after
// TakeOver.
var errHandedOver = errors.New("the socket is handed over")

func (p lines) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		end := bytes.IndexByte(in[used:], '\n')
		if end < 0 {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		line := in[used : used+end]
		used += end + 1
		switch err := p.serve(t, line); err {
		case nil:
		case errHandedOver:
			return used, 0, nil
		default:
			return used, 0, err
		}
	}
}

func (p lines) Refuse(dst, _ []byte, why engine.Reason) []byte {
	if p.refuse != nil {
		p.refuse(why)
	}
	return append(dst, refusal(why)...)
}

// refusal is the line that tells a peer why its connection ends.
func refusal(why engine.Reason) string { return "refused " + why.String() + "\n" }

// saysItself reports whether the protocol has sent the reason, or there is nothing to
// send: then the engine does not call Refuse.
func saysItself(why engine.Reason) bool {
	switch why {
	case engine.PeerClosed, engine.ClosedHere, engine.TooLarge, engine.Malformed, engine.UnknownCommand, engine.Panicked:
		return true
	}
	return false
}

// malformed is a protocol error, for which the protocol writes the reply itself.
func malformed(t *engine.Turn) error {
	t.Out = append(t.Out, refusal(engine.Malformed)...)
	return engine.Malformed
}

// say answers with a line.
func say(t *engine.Turn, text string) error {
	t.Out = append(append(t.Out, text...), '\n')
	return nil
}

// server is a server under test that records its connections.
type server struct {
	*engine.Server
	t     *testing.T
	g     ground
	addr  net.Addr
	label string
	ends  chan engine.Reason // reasons passed to OnClose, in order
	net   *fakenet.Listener  // nil: addr is in the kernel

	mu     sync.Mutex
	opened map[engine.Conn]int
	closed map[engine.Conn]int
}

var servers atomic.Uint64 // numbers servers, for their labels

// serve serves p until the test ends. The server's hooks record connections and call
// those that set has installed. At the end OnClose must have been called once for every
// connection that OnOpen saw, and for no other one; TestMain looks for goroutines that
// are left.
func serve(t *testing.T, g ground, p engine.Protocol, set ...func(s *engine.Server)) *server {
	t.Helper()
	if g.network != overEnds && g.network != overEndsTLS {
		return serveOn(t, g, listen(t, g.network), p, set...)
	}
	in := fakenet.Listen()
	ln := net.Listener(in)
	if g.network == overEndsTLS {
		ln = engine.NewTLSListener(in, &tls.Config{Certificates: []tls.Certificate{certificate()}})
	}
	s := serveOn(t, g, ln, p, set...)
	s.net = in
	return s
}

func serveOn(t *testing.T, g ground, ln net.Listener, p engine.Protocol, set ...func(s *engine.Server)) *server {
	t.Helper()
	s := &server{
		Server: &engine.Server{Protocol: p, Engine: g.engine},
		t:      t, g: g, addr: ln.Addr(),
		label:  t.Name() + " " + strconv.FormatUint(servers.Add(1), 10),
		ends:   make(chan engine.Reason, 1<<14),
		opened: map[engine.Conn]int{}, closed: map[engine.Conn]int{},
	}
	for _, f := range set {
		f(s.Server)
	}
	if s.Logger == nil { // several listeners may share a server, which then reads it already
		s.Logger = slog.New(slog.DiscardHandler) // panics are often intended
	}
	onOpen, onClose := s.OnOpen, s.OnClose
	s.OnOpen = func(c engine.Conn) {
		s.mu.Lock()
		s.opened[c]++
		s.mu.Unlock()
		if onOpen != nil {
			onOpen(c)
		}
	}
	s.OnClose = func(c engine.Conn, why engine.Reason) {
		s.mu.Lock()
		s.closed[c]++
		s.mu.Unlock()
		s.ends <- why
		if onClose != nil {
			onClose(c, why)
		}
	}
	begun, served := make(chan struct{}), make(chan error, 1)
	s.labelled(func() {
		s.Context() // prepares the server for Stats
		close(begun)
		served <- s.Serve(ln)
	})
	<-begun
	t.Cleanup(func() {
		closed := make(chan struct{})
		s.labelled(func() { s.Close(); close(closed) })
		heard(t, closed, "Close returns")
		if err := heard(t, served, "Serve returns"); err != engine.ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
		s.audit()
	})
	return s
}

// labelled runs f on a goroutine labelled for this server, as are all goroutines that it
// starts.
func (s *server) labelled(f func()) {
	pprof.Do(context.Background(), pprof.Labels("server", s.label), func(context.Context) { go f() })
}

// goroutines returns how many goroutines the server has now, including those started by
// its handlers.
func (s *server) goroutines() int { return labelledGoroutines()[s.label] }

// labelledGoroutines counts the goroutines of each server that has some.
func labelledGoroutines() map[string]int {
	var text bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&text, 1)
	all, some := map[string]int{}, 0
	for line := range strings.Lines(text.String()) {
		if count, _, ok := strings.Cut(line, " @ "); ok {
			some, _ = strconv.Atoi(count)
		} else if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
			var of struct {
				Server string `json:"server"`
			}
			if json.Unmarshal([]byte(labels), &of) == nil && of.Server != "" {
				all[of.Server] += some
			}
		}
	}
	return all
}

// TestMain runs the tests. At the end no goroutine of a server, and no socket, may
// be left: looking after each test would cost more than the tests.
func TestMain(m *testing.M) {
	testrun.SideBySide(8)
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // opens the runtime's poller
		ln.Close()
	}
	open := openSockets()
	code := m.Run()
	if code == 0 && !eventually(patience, func() bool { return len(labelledGoroutines()) == 0 }) {
		for label, n := range labelledGoroutines() {
			fmt.Fprintf(os.Stderr, "%d goroutines have outlived the server of %s\n", n, label)
		}
		code = 1
	}
	if code == 0 && !eventually(patience, func() bool { return openSockets() <= open }) {
		fmt.Fprintf(os.Stderr, "%d sockets are open, and %d were at the beginning\n", openSockets(), open)
		code = 1
	}
	os.Exit(code)
}

// openSockets returns how many sockets, epoll instances and the like this process has, or 0
// where that cannot be read.
func openSockets() (n int) {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range all {
		what, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if strings.Contains(what, ":[") || strings.HasPrefix(what, "anon_inode:") {
			n++ // everything else has a path: -cpuprofile's file, for example
		}
	}
	return n
}

// audit checks the records of a server that has been closed.
func (s *server) audit() {
	if s.t.Failed() {
		return // leftovers of a failed test are expected
	}
	imbalance := ""
	if !eventually(patience, func() bool { imbalance = s.imbalance(); return imbalance == "" }) {
		s.t.Error(imbalance)
	}
}

// imbalance returns how the calls of OnOpen and OnClose differ, or "".
func (s *server) imbalance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, n := range s.opened {
		if closed := s.closed[c]; n != 1 || closed != 1 {
			return fmt.Sprintf("OnOpen was called %d times for a connection and OnClose %d times, want once each", n, closed)
		}
	}
	if st := s.Stats(); st.OutputMemory != 0 || st.InputMemory != 0 || st.InLine != 0 {
		return fmt.Sprintf("%d bytes of output and %d of input are counted, and %d connections wait in line, after all have ended", st.OutputMemory, st.InputMemory, st.InLine)
	}
	if opened, closed := len(s.opened), len(s.closed); opened != closed {
		return fmt.Sprintf("OnOpen was called for %d connections and OnClose for %d, want as many", opened, closed)
	}
	return ""
}

// ended waits for the next OnClose and checks its reason.
func (s *server) ended(t *testing.T, want engine.Reason) {
	t.Helper()
	if why := heard(t, s.ends, "OnClose"); why != want {
		t.Errorf("OnClose got %v, want %v", why.String(), want.String())
	}
}

// outcome is the result of a Shutdown.
type outcome struct {
	engine.Drained
	err  error
	took time.Duration
}

// shutdown starts a Shutdown and returns a channel for its result.
func (s *server) shutdown(ctx context.Context) <-chan outcome {
	done := make(chan outcome, 1)
	s.labelled(func() {
		begun := time.Now()
		err := s.Shutdown(ctx)
		took := time.Since(begun)
		done <- outcome{s.Stats().Drained, err, took}
	})
	return done
}

// drain starts a Shutdown without a deadline, and returns when the server is draining.
func (s *server) drain(t *testing.T) <-chan outcome {
	t.Helper()
	done := s.shutdown(context.Background())
	shut := net.Listener(fakenet.Listen())
	if s.net == nil {
		shut = listen(t, overTCP)
	}
	shut.Close() // fails unless the server is draining
	if !eventually(patience, func() bool { return s.Serve(shut) == engine.ErrServerClosed }) {
		t.Fatal("the server did not start to drain")
	}
	return done
}

// inPeace waits for a Shutdown that forces no connection.
func inPeace(t *testing.T, done <-chan outcome, clean int) {
	t.Helper()
	got := heard(t, done, "Shutdown returns")
	if want := (engine.Drained{Clean: clean}); got.Drained != want || got.err != nil {
		t.Errorf("Shutdown ended with %+v and %v, want %+v and no error", got.Drained, got.err, want)
	}
}

// listen listens on a new address of the network.
func listen(t *testing.T, network string) net.Listener {
	t.Helper()
	switch network {
	case overUnix:
		ln, err := net.Listen("unix", filepath.Join(testrun.SocketFolder(t), "s"))
		if err != nil {
			t.Fatal(err)
		}
		return ln
	default:
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		switch network {
		case overAdapter:
			return adapting{ln, func(nc net.Conn) net.Conn { return adapter{nc} }}
		case overTLS:
			return engine.NewTLSListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate()}})
		}
		return ln
	}
}

// adapting is a listener of wrapped connections.
type adapting struct {
	net.Listener
	wrap func(nc net.Conn) net.Conn
}

func (l adapting) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(nc), nil
}

// adapter is a connection other than a plain socket. It can be half-closed.
type adapter struct{ net.Conn }

func (a adapter) CloseWrite() error { return a.Conn.(*net.TCPConn).CloseWrite() }

// client is the other side of a connection. Unless a test has set a deadline, every read
// and every piece of a write has its own timeout: many clients on a busy machine take
// long, but never stop making progress.
type client struct {
	net.Conn
	t       *testing.T
	r       *bufio.Reader
	limited atomic.Bool // a test has set a deadline
}

// connect opens a connection, which has no client yet.
func (s *server) connect(t *testing.T) (nc net.Conn) {
	t.Helper()
	var err error
	if s.net != nil {
		nc, err = s.net.Dial()
	} else {
		nc, err = net.Dial(s.addr.Network(), s.addr.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// dial connects to the server. All operations of the client have timeouts.
func (s *server) dial(t *testing.T) *client {
	t.Helper()
	nc := s.connect(t)
	switch s.g.network {
	case overTLS:
		nc = secured(nc)
	case overEndsTLS:
		nc = tls.Client(nc, quick())
	}
	return s.over(t, nc)
}

// over returns the client of a connection.
func (s *server) over(t *testing.T, nc net.Conn) *client {
	c := &client{Conn: nc, t: t}
	c.r = bufio.NewReader(c)
	return c
}

func (c *client) SetDeadline(at time.Time) error {
	c.limited.Store(true)
	return c.Conn.SetDeadline(at)
}

func (c *client) Read(p []byte) (int, error) {
	if !c.limited.Load() {
		c.SetReadDeadline(time.Now().Add(patience))
	}
	return c.Conn.Read(p)
}

func (c *client) Write(p []byte) (n int, err error) {
	for more := true; more && err == nil; more = n < len(p) {
		if !c.limited.Load() {
			c.SetWriteDeadline(time.Now().Add(patience))
		}
		var m int
		m, err = c.Conn.Write(p[n:min(len(p), n+64<<10)])
		n += m
	}
	return n, err
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatalf("sending %.40q: %v", text, err)
	}
}

// want reads exactly this text.
func (c *client) want(text string) {
	c.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c.r, got); string(got[:n]) != text {
		c.t.Fatalf("read %.80q (%v), want %.80q", got[:n], err, text)
	}
}

// ask sends a line and reads its answer.
func (c *client) ask(line, answer string) {
	c.t.Helper()
	c.send(line + "\n")
	c.want(answer + "\n")
}

// wantEnd reads this text and then the end of the stream, a FIN and not a reset, and then
// closes the connection as most peers do.
func (c *client) wantEnd(text string) {
	c.t.Helper()
	if got, err := io.ReadAll(c.r); string(got) != text || err != nil {
		c.t.Errorf("read %.120q (%v), want %.120q and the end of the stream", got, err, text)
	}
	c.Close()
}

// wantRefused reads why the server has no place for the connection. Over TLS it does not say: a
// handshake for a refusal would help a flood.
func (c *client) wantRefused(why engine.Reason) {
	c.t.Helper()
	if nc, ok := c.Conn.(secureConn); ok {
		if nc.Conn.ConnectionState().HandshakeComplete || !c.over() {
			c.t.Error("a refused connection has completed its handshake, or stays open")
		}
		return
	}
	c.wantEnd(refusal(why))
}

// over waits for the end of the stream, FIN or reset, and reports whether it came.
func (c *client) over() bool {
	_, err := io.Copy(io.Discard, c.r)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// reset ends the connection with RST.
func (c *client) reset() {
	switch nc := c.Conn.(type) {
	case *net.TCPConn:
		nc.SetLinger(0)
	case secureConn:
		nc.TCPConn.SetLinger(0)
		nc.TCPConn.Close() // without a close_notify
	}
	c.Close()
}

// gate is a point at which a handler blocks until the test opens it.
type gate struct{ entered, release chan struct{} }

// newGate returns a gate that opens at the latest when the test ends.
func newGate(t *testing.T) *gate {
	g := &gate{make(chan struct{}, 1<<10), make(chan struct{})}
	t.Cleanup(g.open)
	return g
}

func (g *gate) pass() {
	g.entered <- struct{}{}
	<-g.release
}

// open opens the gate. Only the test's goroutine calls it.
func (g *gate) open() {
	select {
	case <-g.release:
	default:
		close(g.release)
	}
}

// alone reports whether the test is to continue here. A test that could crash the process
// runs in one of its own; that process's failure becomes an error of the calling test.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv("HONE_TEST_ALONE") != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.Command(self, "-test.run="+pattern, "-test.timeout=20s")
	cmd.Env = append(os.Environ(), "HONE_TEST_ALONE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		text := string(out)
		if at := strings.Index(text, "panic: "); at >= 0 {
			text = text[at:min(len(text), at+400)]
		}
		t.Errorf("the test's process ended with %v:\n%.2000s", err, text)
	}
	return false
}

// forGood gives a socket away for good.
func forGood(serve func(nc net.Conn, unread []byte)) func(nc net.Conn, unread []byte) ([]byte, bool) {
	return func(nc net.Conn, unread []byte) ([]byte, bool) {
		serve(nc, unread)
		return nil, false
	}
}
