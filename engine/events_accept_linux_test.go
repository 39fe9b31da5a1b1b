package engine

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// More loops than processors would only compete for them.
func TestLoopsAreNoMoreThanProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * runtime.NumCPU()))
	s := &Server{Engine: Events(Auto), Protocol: &oneLine{}}
	s.init()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	<-s.running
	s.Close()
	<-ended
	if n := len(s.started()); n != runtime.NumCPU() {
		t.Errorf("%d loops on %d processors", n, runtime.NumCPU())
	}
}

// onLoops is oneLine for several loops.
type onLoops struct{}

func (onLoops) Advance(t *Turn, in []byte) (int, int, error) { return new(oneLine).Advance(t, in) }
func (onLoops) Refuse(dst, _ []byte, _ Reason) []byte        { return dst }

func loopback(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serveOn runs a server with n loops until the test ends, and returns how to connect to it.
func serveOn(t *testing.T, s *Server, n int, ln net.Listener) (dial func() net.Conn) {
	t.Helper()
	s.init()
	if err := s.startSome(n, kernelPoll); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return func() net.Conn {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			panic(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
}

// Nobody writes within 128 bytes, two cache lines, of the counters of a loop or flusher, and Stats sums
// them all.
func TestCountersAreApart(t *testing.T) {
	for _, n := range []int{1, 2, 9, 64} {
		s := &Server{Engine: Events(Auto), Protocol: onLoops{}}
		dial := serveOn(t, s, n, loopback(t))
		for range n + 1 {
			nc := dial()
			nc.Write([]byte("hello\n"))
			if _, err := nc.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		type span struct{ from, to uintptr }
		var spans []span
		shares := 0
		s.eachShard(func(sh *shard) {
			spans = append(spans, span{uintptr(unsafe.Pointer(&sh.counts.requests)), uintptr(unsafe.Pointer(&sh.counts.events)) + unsafe.Sizeof(sh.counts.events)})
			own := spans[len(spans)-1]
			if before, after := own.from-uintptr(unsafe.Pointer(&sh.chunks)), uintptr(unsafe.Pointer(&sh.visiting))-own.to; before < 128 || after < 128 {
				t.Errorf("counters begin %d bytes behind what all read, and end %d before what others write", before, after)
			}
			if sh.counts.requests.Load() > 0 {
				shares++
			}
		})
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i, one := range spans[1:] {
			if one.from < spans[i].to+128 {
				t.Errorf("with %d loops, counters are %d bytes behind others", n, int(one.from)-int(spans[i].to))
			}
		}
		if st := s.Stats(); len(spans) != n+len(s.flushers) || shares != n || st.Requests != uint64(n+1) {
			t.Errorf("with %d loops: %d counters, %d of them have counted requests, %d in all", n, len(spans), shares, st.Requests)
		}
	}
}

// New connections join the loop that has the fewest, and wait for no mutex of another.
func TestLoopsHaveEquallyMany(t *testing.T) {
	const loops, each = 5, 8
	ended := make(chan Conn, loops*each)
	s := &Server{Engine: Events(Auto), Protocol: onLoops{}, OnClose: func(c Conn, _ Reason) { ended <- c }}
	dial := serveOn(t, s, loops, loopback(t))
	clients := map[*shard][]net.Conn{}
	connect := func() {
		nc := dial()
		nc.Write([]byte("hello\n"))
		if _, err := nc.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		s.each(func(k connRef) {
			if k.held().addr().String() == nc.LocalAddr().String() {
				clients[k.sh] = append(clients[k.sh], nc)
			}
		})
	}
	for range loops * each {
		connect()
	}
	left := s.loops[3]
	for range 2 { // at first all have as many, and then one has lost its own
		for _, l := range s.loops {
			if n := l.open.Load(); n != each || len(clients[&l.shard]) != each {
				t.Errorf("a loop has %d connections of %d", n, loops*each)
			}
		}
		for _, nc := range clients[&left.shard] {
			nc.Close()
			<-ended
		}
		for left.open.Load() > 0 { // a slot is freed after OnClose
			runtime.Gosched()
		}
		clients[&left.shard] = nil
		for _, l := range s.loops {
			if l != left {
				l.mu.Lock()
			}
		}
		for range each {
			connect()
		}
		for _, l := range s.loops {
			if l != left {
				l.mu.Unlock()
			}
		}
	}
}

// Whoever has accepted a connection, its socket has the options that package net gives, and the
// engine's limit of unsent bytes.
func TestOptionsOfSockets(t *testing.T) {
	options := [][2]int{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY}, {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT}, {syscall.IPPROTO_TCP, 25 /* TCP_NOTSENT_LOWAT */},
	}
	for name, x := range map[string]struct {
		config net.ListenConfig
		want   [6]int
	}{
		"default":       {net.ListenConfig{}, [6]int{1, 1, 15, 15, 9, maxUnsent}},
		"no keep-alive": {net.ListenConfig{KeepAlive: -1}, [6]int{1, 0, 7200, 75, 9, maxUnsent}},
	} {
		ln, err := x.config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{Engine: Events(Auto), Protocol: onLoops{}}
		dial := serveOn(t, s, 2, ln)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 25 {
					nc := dial()
					nc.Write([]byte("hello\n"))
					if _, err := nc.Read(make([]byte, 1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		seen := 0
		s.each(func(k connRef) {
			seen++
			var got [6]int
			for i, option := range options {
				got[i], _ = syscall.GetsockoptInt(int(k.s.socket), option[0], option[1])
			}
			if got != x.want {
				t.Errorf("%s: connection %d has %v, want %v", name, seen, got, x.want)
			}
		})
		if seen != 200 {
			t.Errorf("%s: %d connections", name, seen)
		}
	}
}

// Handshakes that end while they wait for their clients leave as many turns as there were.
func TestHandshakesThatEndAddNoTurns(t *testing.T) {
	s := &Server{Engine: Events(Auto), Protocol: &oneLine{}, Limits: Limits{FrameTime: 100 * time.Millisecond}}
	s.init()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(NewTLSListener(ln, secureConfig())) }()
	var clients sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		clients.Go(func() { tls.Client(&half{Conn: nc}, &tls.Config{InsecureSkipVerify: true}).Read(make([]byte, 1)) })
	}
	clients.Wait()
	free := 0
	for s.turns.Take(netip.Addr{}, Conn{}, false) {
		free++
	}
	if want := runtime.GOMAXPROCS(0); free != want {
		t.Errorf("%d turns, want %d", free, want)
	}
	s.Close()
	<-ended
}

// blocking is a protocol whose handler waits.
type blocking struct {
	oneLine
	entered, proceed chan struct{}
}

func (p *blocking) Advance(t *Turn, in []byte) (int, int, error) {
	close(p.entered)
	<-p.proceed
	return p.oneLine.Advance(t, in)
}

// A turn at a handshake does not wait for the connection's loop, which a handler may block.
func TestTurnsNeedNoLoop(t *testing.T) {
	p := &blocking{entered: make(chan struct{}), proceed: make(chan struct{})}
	s := &Server{Engine: Events(Inline), Protocol: p}
	dial := serveOn(t, s, 1, loopback(t))
	defer close(p.proceed)
	secured := loopback(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(NewTLSListener(secured, secureConfig())) }()
	t.Cleanup(func() {
		secured.Close()
		<-ended
	})
	for s.turns.Take(netip.Addr{}, Conn{}, false) {
	}
	nc, err := net.Dial("tcp", secured.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go tls.Client(&half{Conn: nc}, &tls.Config{InsecureSkipVerify: true}).Handshake()
	for until, waits := time.Now().Add(10*time.Second), false; !waits; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the handshake is not in line")
		}
		s.each(func(k connRef) { waits = waits || k.s.facets.has(isInLine) })
	}
	dial().Write([]byte("x\n"))
	<-p.entered
	for given := false; !given; {
		next, waits := s.turns.Pass()
		if !waits {
			t.Fatal("nobody waits for a turn")
		}
		given = next.giveTurn()
	}
	for until, shakes := time.Now().Add(10*time.Second), false; !shakes; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("no helper has begun with the handshake")
		}
		s.each(func(k connRef) { shakes = shakes || k.s.secured && !k.s.facets.has(isHandedOff) })
	}
}

// half is a client's connection that sends its first message only.
type half struct {
	net.Conn
	sent bool
}

func (h *half) Write(p []byte) (int, error) {
	if h.sent {
		return len(p), nil
	}
	h.sent = true
	return h.Conn.Write(p)
}
