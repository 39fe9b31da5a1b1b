package engine_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// withTLS returns every engine over TLS: with loops, and as it is served by goroutines.
func withTLS() []ground {
	return append(loopsOverTLS(), ground{engine.Buffered(0), overTLS})
}

// dialClear connects without a handshake.
func (s *server) dialClear(t *testing.T) net.Conn {
	t.Helper()
	nc := s.connect(t)
	nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// configured listens with a config.
func configured(t *testing.T, config *tls.Config) net.Listener {
	if config.Certificates == nil {
		config.Certificates = []tls.Certificate{certificate()}
	}
	return engine.NewTLSListener(listen(t, overTCP), config)
}

// A ClientHello that says that it has 16 MB is answered with an alert, without a wait for more of it.
func TestHelloOfMegabytes(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.FrameTime = time.Hour })
		nc := s.dialClear(t)
		if _, err := nc.Write([]byte{22, 3, 1, 0, 4, 1, 255, 255, 255}); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(nc); err != nil || len(all) != 7 || all[0] != 21 {
			t.Errorf("the answer is %x (%v)", all, err)
		}
		nc.Close()
	})
}

// The PROXY header of a trusted proxy comes before the handshake, in any segments; OnOpen sees its
// address. A header without a handshake has no more time than both.
func TestProxyHeaderBeforeTLS(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		opened := make(chan engine.Conn, 8)
		s := serve(t, g, echoLines(), trustingLoopback, func(s *engine.Server) {
			s.OnOpen = func(c engine.Conn) { opened <- c }
			s.Limits.FrameTime = 2 * time.Second
		})
		const header = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
		for _, v2 := range []string{header, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x03\xe8\x07\xd0"} {
			nc := s.dialClear(t)
			if _, err := io.WriteString(nc, v2[:len(v2)/2]); err != nil {
				t.Fatal(err)
			}
			c := tls.Client(&prefixing{nc, v2[len(v2)/2:]}, &tls.Config{InsecureSkipVerify: true})
			if _, err := io.WriteString(c, "hello\n"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 6)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello\n" {
				t.Fatalf("read %q (%v)", got, err)
			}
			if a := heard(t, opened, "OnOpen").RemoteAddr().String(); a != "192.0.2.1:1000" {
				t.Errorf("the address is %s", a)
			}
			c.Close()
			s.ended(t, engine.PeerClosed)
		}
		for text, want := range map[string]engine.Reason{header: engine.FrameTimeout, "PROXY TCP4 192": engine.FrameTimeout, "nonsense, of whatever length\n": engine.BadProxyHeader} {
			nc := s.dialClear(t)
			io.WriteString(nc, text)
			if got, err := io.ReadAll(nc); len(got) > 0 || err != nil && !isReset(err) {
				t.Errorf("after %q: read %q (%v)", text, got, err)
			}
			if !eventually(patience, func() bool { return s.Stats().Open == 0 }) || s.Stats().Ended[want] == 0 {
				t.Errorf("after %q it did not end as %v: %v", text, want, s.Stats().Ended)
			}
		}
	})
}

// prefixing writes text before the first bytes.
type prefixing struct {
	net.Conn
	text string
}

func (p *prefixing) Write(b []byte) (int, error) {
	_, err := p.Conn.Write(append([]byte(p.text), b...))
	p.text = ""
	return len(b), err
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

// However a connection ends, except by a reset, the last record is a close_notify, and then comes the
// FIN: also when the reply before it fills the socket.
func TestEndsWithCloseNotify(t *testing.T) {
	const large = 3 << 20
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		protocol := lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "close":
				t.Out = append(t.Out, "bye\n"...)
				return engine.ClosedHere
			case "large":
				t.Out = append(t.Out, make([]byte, large)...)
				return engine.ClosedHere
			case "later":
				r := t.Later()
				go r.Send([]byte("late\n"))
			}
			return nil
		}}
		s, hasty := serve(t, g, protocol), serve(t, g, protocol, func(s *engine.Server) { s.Limits.IdleTime = time.Second })
		connect := func(s *server, text string) *rawTLS {
			nc := s.dialClear(t)
			nc.(*net.TCPConn).SetReadBuffer(64 << 10)
			raw, err := newRawTLS(nc)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" {
				nc.Write(raw.seal(dataRecord, []byte(text)))
			}
			return raw
		}
		ends := func(what string, raw *rawTLS, want int) {
			t.Helper()
			size := 0
			data, err := raw.open()
			for ; err == nil; data, err = raw.open() {
				size += len(data)
			}
			if err != io.EOF || size != want {
				t.Errorf("%s: read %d bytes and %v, want %d, a close_notify and the end", what, size, err, want)
			}
			raw.nc.Close()
		}
		ends("a handler that closes", connect(s, "close\n"), 4)
		ends("a large reply", connect(s, "large\n"), large)
		half := connect(s, "later\n")
		half.nc.Write(half.seal(alertRecord, []byte{1, 0}))
		ends("a half-close", half, 5)
		ends("the idle timeout", connect(hasty, ""), len(refusal(engine.IdleTimeout)))
		drained := connect(s, "later\n")
		for size := 0; size < 5; { // the server has read it
			data, err := drained.open()
			if err != nil {
				t.Fatal(err)
			}
			size += len(data)
		}
		if !eventually(patience, func() bool { return s.Stats().Open == 1 }) {
			t.Errorf("%d connections are open, want 1", s.Stats().Open)
		}
		done := s.drain(t)
		ends("a drain", drained, len(refusal(engine.ShuttingDown)))
		inPeace(t, done, 1)
	})
}

// A server may require certificates: OnOpen sees them, and a client without one is refused with an
// alert, for the reason that HandshakeFailed says. Sessions are resumed.
func TestClientCertificates(t *testing.T) {
	roots := x509.NewCertPool()
	leaf, _ := x509.ParseCertificate(certificate().Certificate[0])
	roots.AddCert(leaf)
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			names := make(chan string, 8)
			config := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MaxVersion: version}
			s := serveOn(t, g, configured(t, config), echoLines(), func(s *engine.Server) {
				s.OnOpen = func(c engine.Conn) {
					names <- c.TLS().PeerCertificates[0].Subject.CommonName
				}
				s.HandshakeFailed = func(error) engine.Reason { return engine.UnknownCommand }
			})
			mine := &tls.Config{RootCAs: roots, ServerName: "test", Certificates: []tls.Certificate{certificate()}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			for i := range 2 {
				c := tls.Client(s.dialClear(t), mine)
				io.WriteString(c, "hello\n")
				if _, err := io.ReadFull(c, make([]byte, 6)); err != nil {
					t.Fatal(err)
				}
				if name := heard(t, names, "OnOpen"); name != "test" {
					t.Errorf("the client is %q", name)
				}
				if resumed := c.ConnectionState().DidResume; resumed != (i > 0) {
					t.Errorf("connection %d was resumed: %v", i, resumed)
				}
				c.Close()
			}
			c := tls.Client(s.dialClear(t), &tls.Config{RootCAs: roots, ServerName: "test"})
			io.WriteString(c, "hello\n")
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("an answer without a certificate")
			}
			if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
				t.Error("a connection stays open")
			}
			if st := s.Stats(); st.Handshakes != 2 || st.Resumed != 1 || st.HandshakesFailed != 1 || st.Ended[engine.UnknownCommand] != 1 {
				t.Errorf("%d handshakes, %d resumed, %d failed; ended %v", st.Handshakes, st.Resumed, st.HandshakesFailed, st.Ended)
			}
		}
	})
}

// Code of the server that panics, or ends its goroutine, in a handshake ends its connection only.
// What is not TLS gets what HandshakeFailed says, and both are logged.
func TestHandshakesThatFail(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		var log lockedBuffer
		var bad atomic.Bool
		config := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if hello.Conn.RemoteAddr() == nil || hello.Conn.LocalAddr().Network() != "tcp" {
				return nil, errors.New("no address")
			}
			if bad.Load() {
				panic("in a handshake")
			}
			return nil, nil
		}}
		s := serveOn(t, g, configured(t, config), echoLines(), func(s *engine.Server) {
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s.HandshakeFailed = func(err error) engine.Reason {
				if record, ok := err.(tls.RecordHeaderError); ok && record.Conn != nil {
					io.WriteString(record.Conn, "this is TLS\n")
				}
				return 0
			}
		})
		s.dial(t).ask("hello", "hello")
		plain := s.dialClear(t)
		io.WriteString(plain, "hello\n")
		if got, err := io.ReadAll(plain); string(got) != "this is TLS\n" || err != nil && !isReset(err) {
			t.Errorf("read %q (%v)", got, err)
		}
		bad.Store(true)
		if err := tls.Client(s.dialClear(t), &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("a handshake succeeded although its callback panics")
		}
		bad.Store(false)
		s.dial(t).ask("hello", "hello")
		if !eventually(patience, func() bool { return s.Stats().HandshakesFailed == 2 }) {
			t.Errorf("%d handshakes have failed, want 2", s.Stats().HandshakesFailed)
		}
		if st := s.Stats(); st.Panics != 1 || st.Ended[engine.Panicked] != 1 || st.Ended[engine.Malformed] != 1 || st.Handshakes != 2 {
			t.Errorf("%d panics, %d handshakes, ended %v", st.Panics, st.Handshakes, st.Ended)
		}
		if text := log.String(); !strings.Contains(text, "TLS handshake failed") || !strings.Contains(text, "remote=127.0.0.1") {
			t.Errorf("the log has %q", text)
		}
	})
}

// lockedBuffer is a buffer for many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Neither a silent connection nor one that sends its hello in pieces keeps others from their
// handshakes, nor do many that stop in the middle; all of these end after FrameTime, and count as
// failed handshakes.
func TestHandshakesInTheMiddle(t *testing.T) {
	const many = 40
	onEach(t, loopsOverTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.FrameTime = 5 * time.Second })
		for range many {
			s.dialClear(t)
		}
		if !eventually(patience, func() bool { return s.Stats().Open == many }) {
			t.Fatalf("%d connections are open", s.Stats().Open)
		}
		for range many {
			nc := s.dialClear(t)
			c := tls.Client(&stopping{Conn: nc, left: 1}, &tls.Config{InsecureSkipVerify: true})
			go c.Handshake()
		}
		pieces := tls.Client(&trickling{s.dialClear(t)}, &tls.Config{InsecureSkipVerify: true})
		if err := pieces.Handshake(); err != nil {
			t.Errorf("a hello in pieces: %v", err)
		}
		pieces.Close()
		s.dial(t).ask("hello", "hello")
		if !eventually(patience, func() bool { return s.Stats().Ended[engine.FrameTimeout] == 2*many }) {
			t.Errorf("%d have ended for their time, want %d", s.Stats().Ended[engine.FrameTimeout], 2*many)
		}
		if failed := s.Stats().HandshakesFailed; failed != 2*many {
			t.Errorf("%d handshakes have failed, want %d", failed, 2*many)
		}
	})
}

// A connection that has sent nothing, or not all of its hello, needs no goroutine.
func TestHalfAHelloNeedsNoGoroutine(t *testing.T) {
	const many = 10
	onEach(t, loopsOverTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.FrameTime = time.Minute })
		var all []*withholding
		halves := 0
		for _, step := range []int{1 << 20, 100, 1} { // in segments of that size
			for range many {
				s.dialClear(t)
				c := &withholding{Conn: s.dialClear(t), step: step, written: make(chan int, 1), rest: make(chan struct{}), done: make(chan error, 1)}
				go func() { c.done <- tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
				halves += heard(t, c.written, "the client's hello")
				all = append(all, c)
			}
		}
		if !eventually(patience, func() bool {
			st := s.Stats()
			return st.InputMemory >= int64(halves) && st.Open == 6*many
		}) {
			t.Errorf("the server holds %d of %d bytes of %d connections", s.Stats().InputMemory, halves, s.Stats().Open)
		}
		if helpers := s.Stats().Helpers; helpers > 0 {
			t.Errorf("%d helpers for silent and half hellos", helpers)
		}
		for _, c := range all {
			close(c.rest)
			if err := heard(t, c.done, "a handshake"); err != nil {
				t.Errorf("in segments of %d bytes: %v", c.step, err)
			}
		}
		if !eventually(patience, func() bool { return s.Stats().InputMemory == 0 }) {
			t.Errorf("%d bytes of input are still held", s.Stats().InputMemory)
		}
	})
}

// withholding writes its first message in segments, the last byte when it may.
type withholding struct {
	net.Conn
	step    int
	begun   bool
	written chan int
	rest    chan struct{}
	done    chan error
}

func (c *withholding) Write(p []byte) (n int, err error) {
	last := p
	if !c.begun {
		c.begun = true
		for last = p; len(last) > 1 && err == nil; last = last[n:] {
			n, err = c.Conn.Write(last[:min(c.step, len(last)-1)])
		}
		c.written <- len(p) - 1
		<-c.rest
	}
	if _, err = c.Conn.Write(last); err != nil {
		return 0, err
	}
	return len(p), nil
}

// stopping writes some times, and then nothing.
type stopping struct {
	net.Conn
	left int
}

func (c *stopping) Write(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// trickling writes single bytes.
type trickling struct{ net.Conn }

func (c *trickling) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// A peer that asks for key updates and does not read gets no more of them than its socket holds: then
// it is not read, and its memory stays small, until it has stalled.
func TestKeyUpdatesOfADeafPeer(t *testing.T) {
	onEach(t, loopsOverTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(*engine.Turn, []byte) error { return nil }}, func(s *engine.Server) { s.Limits.StallTime = time.Second })
		nc := s.dialClear(t)
		nc.(*net.TCPConn).SetReadBuffer(4096)
		raw, err := newRawTLS(nc)
		if err != nil {
			t.Fatal(err)
		}
		most := int64(0)
		for err == nil {
			var all []byte
			for range 100 {
				all = append(append(all, raw.keyUpdate(true, 5)...), raw.seal(dataRecord, []byte("x\n"))...)
			}
			nc.SetDeadline(time.Now().Add(patience))
			_, err = nc.Write(all)
			most = max(most, s.Stats().OutputMemory)
		}
		s.ended(t, engine.WriteStall)
		if most > 256<<10 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the server has held %d bytes for it; writing: %v", most, err)
		}
	})
}

// What is encrypted and not yet written counts as output memory.
func TestSealedOutputIsCounted(t *testing.T) {
	onEach(t, loopsOverTLS(), func(t *testing.T, g ground) {
		const many = 10
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, make([]byte, 30_000+2000*len(line))...) // sealed at once
			return nil
		}}, func(s *engine.Server) { s.Limits.StallTime = -1 })
		for i := range many {
			c := tls.Client(s.dialClear(t), &tls.Config{InsecureSkipVerify: true})
			c.NetConn().(*net.TCPConn).SetReadBuffer(4096)
			for before := s.Stats().Waiting; ; {
				served := s.Stats().Requests
				io.WriteString(c, strings.Repeat("x", i)+"\n")
				if !eventually(patience, func() bool { return s.Stats().Requests > served }) {
					t.Fatal("a request is not served")
				}
				if s.Stats().Waiting > before {
					break // it is not read before its socket has room
				}
			}
		}
		if st := s.Stats(); st.OutputMemory < many*4096 {
			t.Errorf("%d bytes wait in %d bytes of memory", st.Waiting, st.OutputMemory)
		}
	})
}

// Peers that do not read cost a fifth more memory over TLS at most, and end by the same rule.
func TestDeafPeersOverTLS(t *testing.T) {
	const many, stall = 20, 2 * time.Second
	onEach(t, loopsOverTLS(), func(t *testing.T, g ground) {
		most := map[string]int64{}
		for _, n := range []string{overTCP, overTLS} {
			g.network = n
			s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
				t.Out = append(t.Out, make([]byte, 20_000+10_000*len(line))...)
				return nil
			}}, func(s *engine.Server) { s.Limits.StallTime = stall })
			begun := time.Now()
			for i := range many {
				nc := s.dialClear(t)
				nc.(*net.TCPConn).SetReadBuffer(4096)
				if n == overTLS {
					nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
				}
				io.WriteString(nc, strings.Repeat(strings.Repeat("x", i)+"\n", 50))
			}
			if !eventually(2*patience, func() bool {
				st := s.Stats()
				most[n] = max(most[n], st.OutputMemory)
				return st.Ended[engine.WriteStall] == many
			}) {
				t.Errorf("%d of %d have ended for what they did not read", s.Stats().Ended[engine.WriteStall], many)
			}
			if took := time.Since(begun); took < stall {
				t.Errorf("they ended after %v, before %v", took, stall)
			}
		}
		t.Logf("%d bytes, and %d over TLS", most[overTCP], most[overTLS])
		if most[overTLS] > most[overTCP]*12/10 {
			t.Errorf("they hold %d bytes over TLS, %d without", most[overTLS], most[overTCP])
		}
	})
}

// A connection whose turn at the handshake comes when its time is over, or that ends in line, takes
// no turn from others.
func TestTurnsAreNotLost(t *testing.T) {
	const frame = 2 * time.Second
	loops := slices.DeleteFunc(over(overTLS), func(g ground) bool { return !g.isInline() })
	onEach(t, loops, func(t *testing.T, g ground) {
		shaking, handling := newGate(t), newGate(t)
		var slow atomic.Bool
		config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if slow.Load() {
				shaking.pass()
			}
			return nil, nil
		}}
		s := serveOn(t, g, configured(t, config), lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "wait" {
				handling.pass()
			}
			return say(t, string(line))
		}}, func(s *engine.Server) { s.Limits.FrameTime = frame })
		var busy []*client
		for range runtime.GOMAXPROCS(0) { // one for each loop
			c := s.dial(t)
			c.ask("hello", "hello") // its handshake is over here too, and needs no turn
			busy = append(busy, c)
		}
		slow.Store(true)
		crowd := 0
		shake := func() {
			crowd++
			c := tls.Client(s.dialClear(t), &tls.Config{InsecureSkipVerify: true})
			go c.Handshake()
		}
		for range runtime.GOMAXPROCS(0) {
			shake()
			heard(t, shaking.entered, "a handshake")
		}
		for range 4 * runtime.GOMAXPROCS(0) {
			shake()
		}
		if !eventually(patience, func() bool { return s.Stats().Open == len(busy)+crowd }) {
			t.Fatal("they are not open")
		}
		for _, c := range busy {
			c.send("wait\n")
			heard(t, handling.entered, "a handler")
		}
		<-time.After(2 * frame) // the loops are blocked, so nothing shows that the time is over
		shaking.open()
		handling.open()
		for _, c := range busy {
			c.want("wait\n")
		}
		if !eventually(patience, func() bool { return s.Stats().Open == len(busy) }) {
			t.Errorf("%d connections are open, want %d", s.Stats().Open, len(busy))
		}
		slow.Store(false)
		for range 2 * runtime.GOMAXPROCS(0) {
			s.dial(t).ask("hello", "hello")
		}
	})
}

// What crypto/tls has read too far while user code had the connection is served when it is back,
// although nothing more arrives.
func TestLoanThatReadsAhead(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: answerRecord})
		nc := s.dialClear(t)
		raw, err := newRawTLS(nc)
		if err != nil {
			t.Fatal(err)
		}
		reads := func(want string) {
			t.Helper()
			for got := ""; got != want; {
				data, err := raw.open()
				if got += string(data); err != nil || len(got) > len(want) {
					t.Fatalf("read %q (%v), want %q", got, err, want)
				}
			}
		}
		nc.Write(raw.seal(dataRecord, []byte("lend 1 0 x\n")))
		reads("1 0\n")
		nc.Write(append(raw.seal(dataRecord, []byte("back\n")), raw.seal(dataRecord, []byte("now 2 3 x\n"))...))
		reads(string(answerTo(2, 3)))
	})
}

// A close_notify that comes together with the first request, and no FIN after it, ends the connection
// when the request is answered.
func TestFirstRequestMayBeTheLast(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		opened := make(chan engine.Conn, 1)
		s := serve(t, g, lines{serve: answerRecord}, func(s *engine.Server) {
			s.OnOpen = func(c engine.Conn) { opened <- c }
		})
		for range 10 { // the request may still come together with the handshake
			nc := s.dialClear(t)
			raw, err := newRawTLS(nc)
			if err != nil {
				t.Fatal(err)
			}
			heard(t, opened, "OnOpen")
			nc.Write(append(raw.seal(dataRecord, []byte("now 1 3 x\n")), raw.seal(alertRecord, []byte{1, 0})...))
			got := ""
			data, err := raw.open()
			for ; err == nil; data, err = raw.open() {
				got += string(data)
			}
			if want := string(answerTo(1, 3)); err != io.EOF || got != want {
				t.Fatalf("read %q and %v, want %q and the end", got, err, want)
			}
		}
	})
}

// A client that closes its side anywhere in the handshake has left: what it sent is not malformed.
func TestPeersThatLeaveTheirHandshake(t *testing.T) {
	onEach(t, withTLS(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) {
			s.HandshakeFailed = func(error) engine.Reason { return engine.UnknownCommand }
		})
		all := []leaving{{}, {bytes: 1}, {bytes: 100}, {writes: 1}, {writes: 1, bytes: 3}, {writes: 1, bytes: 20}}
		for _, c := range all {
			c.TCPConn = s.dialClear(t).(*net.TCPConn)
			if _, err := tls.Client(&c, &tls.Config{InsecureSkipVerify: true}).Read(make([]byte, 1)); err == nil {
				t.Errorf("the server has sent something after %d writes and %d bytes", c.writes, c.bytes)
			}
		}
		if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
			t.Error("a connection stays open")
		}
		if st := s.Stats(); int(st.HandshakesFailed) != len(all) || int(st.Ended[engine.PeerClosed]) != len(all) {
			t.Errorf("%d of %d handshakes have failed; ended %v", st.HandshakesFailed, len(all), st.Ended)
		}
	})
}

// leaving writes some times, then some bytes, and then closes its sending side.
type leaving struct {
	*net.TCPConn
	writes, bytes int
}

func (c *leaving) Write(p []byte) (int, error) {
	if c.writes--; c.writes >= 0 {
		return c.TCPConn.Write(p)
	}
	c.TCPConn.Write(p[:min(c.bytes, len(p))])
	c.bytes = 0
	c.TCPConn.CloseWrite()
	return len(p), nil
}
