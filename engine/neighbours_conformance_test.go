package engine_test

import (
	"bytes"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// While OnOpen or OnClose blocks, other connections are served, come and go, and the connection's own
// requests wait.
func TestOthersGoOnWhileHooksBlock(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return !g.isInline() }), func(t *testing.T, g ground) {
		var armed atomic.Bool // for the next hook
		entered, release := make(chan string, 1), make(chan struct{})
		hook := func(name string) {
			if armed.CompareAndSwap(true, false) {
				entered <- name
				<-release
			}
		}
		closed := make(chan struct{}, 32)
		s := serve(t, g, echoLines(), func(s *engine.Server) {
			s.OnOpen = func(engine.Conn) { hook("OnOpen") }
			s.OnClose = func(engine.Conn, engine.Reason) {
				hook("OnClose")
				closed <- struct{}{}
			}
		})
		var others []*client
		for range 12 {
			c := s.dial(t)
			c.ask("hello", "hello")
			others = append(others, c)
		}
		goOn := func(name string) {
			t.Helper()
			if got := heard(t, entered, name); got != name {
				t.Fatalf("%s blocks, want %s", got, name)
			}
			for range 5 {
				for _, c := range others {
					c.ask("go on", "go on")
				}
			}
			c := s.dial(t)
			c.ask("new", "new")
			c.Close()
			heard(t, closed, "another connection's OnClose")
			release <- struct{}{}
		}
		for range 3 {
			armed.Store(true)
			c := s.dial(t)
			c.send("when I am let in\n")
			goOn("OnOpen")
			c.want("when I am let in\n")
			armed.Store(true)
			c.Close()
			goOn("OnClose")
			heard(t, closed, "its OnClose")
		}
	})
}

// The handlers of a connection run one at a time and in order, also when more arrives while one is slow:
// the state that they share needs no lock. The race detector looks as well.
func TestHandlersRunOneAtATime(t *testing.T) {
	const conns, batches, each = 8, 4, 20
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		slow := make(chan struct{}, batches)
		s := serve(t, g, lines{serve: func(turn *engine.Turn, line []byte) error {
			next := turn.Conn().Value().(*int)
			if want := strconv.Itoa(*next); string(line) != want {
				t.Errorf("line %s is served, want %s", line, want)
			}
			if *next++; *next%each == 0 {
				*next++ // so what is served beside this handler is out of order
				slow <- struct{}{}
				<-time.After(5 * time.Millisecond)                        // outlasts the watchdog
				turn.Conn().Push([]byte("beside " + string(line) + "\n")) // has the loop look at the connection
				<-time.After(5 * time.Millisecond)
				*next--
			}
			if *next%3 == 0 {
				return turn.Later().Send(append(line, '\n'))
			}
			return say(turn, string(line))
		}}, func(s *engine.Server) { s.OnOpen = func(c engine.Conn) { c.SetValue(new(int)) } })
		for range conns {
			c, left := s.dial(t), map[string]bool{}
			for batch := range batches {
				var all strings.Builder
				for i := range each {
					line := strconv.Itoa(batch*each+i) + "\n"
					left[line] = true
					all.WriteString(line)
				}
				left["beside "+strconv.Itoa(batch*each+each-1)+"\n"] = true
				c.send(all.String())
				heard(t, slow, "the last of them")
			}
			for len(left) > 0 { // a late reply may overtake
				line, err := c.r.ReadString('\n')
				if err != nil || !left[line] {
					t.Fatalf("read %q (%v)", line, err)
				}
				delete(left, line)
			}
		}
	})
}

// Handlers that compute, more than there are processors, do not hold others up: they end when all
// others have their answers. In the first round the loop is taken away from them, later it knows them.
func TestHandlersThatComputeDoNotHoldOthersUp(t *testing.T) {
	oneByOne(t, everywhere(func(g ground) bool { return g.network == overTCP && !g.isInline() }), func(t *testing.T, g ground) {
		computing := runtime.GOMAXPROCS(0) + 1
		var over atomic.Bool
		t.Cleanup(func() { over.Store(true) })
		entered := make(chan struct{}, computing)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "compute" {
				entered <- struct{}{}
				for !over.Load() {
				}
			}
			return say(t, string(line))
		}})
		var hot, cool []*client
		for range computing {
			hot = append(hot, s.dial(t))
		}
		for range runtime.GOMAXPROCS(0) { // one for each loop
			cool = append(cool, s.dial(t))
		}
		for range 2 {
			over.Store(false)
			for _, c := range hot {
				c.send("compute\n")
			}
			for range hot {
				heard(t, entered, "a handler")
			}
			for _, c := range cool {
				c.ask("quick", "quick")
			}
			over.Store(true)
			for _, c := range hot {
				c.want("compute\n")
			}
		}
	})
}

// What a handler leaves when its connection has broken meanwhile, a reply or a promise of the socket,
// reaches nobody else.
func TestBrokenWhileItsHandlerRuns(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return !g.isInline() }), func(t *testing.T, g ground) {
		met, release := make(chan engine.Conn, 1), make(chan struct{})
		var taken atomic.Int32
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			if string(line) == "secret" || string(line) == "take" {
				met <- t.Conn()
				<-release
			}
			if string(line) == "take" {
				t.TakeOver(forGood(func(net.Conn, []byte) { taken.Add(1) }))
				return errHandedOver
			}
			return say(t, string(line))
		}})
		for _, line := range []string{"secret", "take", "secret", "take"} {
			c := s.dial(t)
			c.send(line + "\n")
			conn := heard(t, met, "a handler")
			c.reset()
			if !eventually(patience, func() bool { return conn.Push([]byte("push\n")) == engine.ErrClosed }) {
				t.Fatal("a push does not find the connection broken")
			}
			release <- struct{}{}
			heard(t, s.ends, "OnClose")
			for range 3 {
				other := s.dial(t)
				other.ask("hello", "hello")
				other.Close()
				s.ended(t, engine.PeerClosed)
			}
		}
		if n := taken.Load(); n > 0 {
			t.Errorf("%d sockets were handed over", n)
		}
	})
}

// The kernel may buffer mebibytes of replies, and report that there is room only when a third of that
// has been sent. A peer that reads all the time must not be closed for it.
func TestSteadyReaderBehindKernelBuffersIsNoStall(t *testing.T) {
	const size = 8 << 20
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, make([]byte, size)...)
			return nil
		}}, func(s *engine.Server) { s.Limits.StallTime = time.Second })
		c := s.dial(t)
		c.send("large\n")
		// A mebibyte in a second: less than a third of the server's kernel buffer, more than the
		// sixteenth with which the peer's kernel opens its window again.
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		part := make([]byte, 20<<10)
		for begun := time.Now(); time.Since(begun) < 3*time.Second; {
			<-ticks.C
			if _, err := c.r.Read(part); err != nil || len(s.ends) > 0 {
				t.Fatalf("cut off after %v: %v, %v", time.Since(begun), err, s.Stats().Ended)
			}
		}
	})
}

// HardCap limits what a peer has not read when something is pushed, not the size of that: a peer that
// reads gets all. One that reads nothing is closed, and the push says so.
func TestHardCapIsForPeersThatDoNotRead(t *testing.T) {
	large := bytes.Repeat([]byte("large "), 2<<20/6)
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		conns := make(chan engine.Conn, 2)
		s := serve(t, g, replier(len(large)), func(s *engine.Server) { s.OnOpen = func(c engine.Conn) { conns <- c } })
		c := s.dial(t)
		c.ask("ping", "small")
		conn := heard(t, conns, "OnOpen")
		for range 8 {
			for _, p := range [][]byte{large[:9], large} {
				if err := conn.Push(p); err != nil {
					t.Fatalf("a push of %d bytes to a peer that has read everything: %v", len(p), err)
				}
			}
			c.want(string(large[:9]) + string(large))
		}
		c.ask("large", strings.Repeat("x", len(large)))
		s.narrow(t)
		deaf, err := heard(t, conns, "OnOpen"), error(nil)
		for i := 0; err == nil && i < 10_000; i++ {
			err = deaf.Push(large[:8<<10])
		}
		if again := deaf.Push(large[:9]); err != engine.SlowReader || again != engine.ErrClosed {
			t.Errorf("pushes to a peer that reads nothing returned %v, and then %v", err, again)
		}
		s.ended(t, engine.SlowReader)
		c.ask("ping", "small")
	})
}

// A connection counts for the address of its socket, and no longer when it has ended.
func TestConnsPerAddressCountsSockets(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, answering, func(s *engine.Server) { s.Limits.ConnsPerAddress = 2 })
		from := func(ip string) *client {
			nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).Dial("tcp", s.addr.String())
			if err != nil {
				t.Skipf("needs all of 127.0.0.0/8 to be local, as on Linux: %v", err)
			}
			t.Cleanup(func() { nc.Close() })
			return s.over(t, nc)
		}
		first, second := from("127.0.0.2"), from("127.0.0.2")
		first.ask("hello", "answer")
		second.ask("hello", "answer")
		from("127.0.0.2").wantEnd(refusal(engine.TooManyPerAddress))
		from("127.0.0.3").ask("hello", "answer")
		second.Close()
		s.ended(t, engine.PeerClosed)
		from("127.0.0.2").ask("hello", "answer")
		first.ask("hello", "answer")
	})
}

// A trusted proxy without a valid header is refused, and nothing behind it is served; from others a
// header is a message like any.
func TestOnlyTrustedProxiesSendHeaders(t *testing.T) {
	const header = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
	onEach(t, append(over(overTCP), over(overAdapter)...), func(t *testing.T, g ground) {
		address := lines{serve: func(t *engine.Turn, line []byte) error {
			return say(t, t.Conn().RemoteAddr().Addr().String())
		}}
		trusting, other := serve(t, g, address, trustingLoopback), serve(t, g, address)
		c := trusting.dial(t)
		c.send(header + "hello\n")
		c.want("192.0.2.1\n")
		for _, bad := range []string{"hello\n", "PROXY TCP5 192.0.2.1 192.0.2.2 1000 2000\r\n", "PROXY UNKNOWN " + strings.Repeat("x", 200)} {
			c := trusting.dial(t)
			c.send(bad + "behind it\n")
			c.wantEnd(refusal(engine.BadProxyHeader))
		}
		if !eventually(patience, func() bool { return trusting.Stats().Ended[engine.BadProxyHeader] == 3 }) || trusting.Stats().Requests != 1 {
			t.Errorf("%d requests were served, want 1; ended %v", trusting.Stats().Requests, trusting.Stats().Ended)
		}
		other.dial(t).ask(strings.TrimSuffix(header, "\n"), "127.0.0.1")
	})
}
