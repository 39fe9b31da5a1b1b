package framed_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/fakenet"
	"github.com/hone-go/hone/wire"
)

// listening is the listen role's first line.
type listening struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"`
}

// listenReport is the reply to the line "report".
type listenReport struct {
	CPU   time.Duration `json:"cpu_ns"` // CPU time of the process so far
	Files int           `json:"files"`  // open descriptors, if there is one left to count them
	Stats engine.Stats  `json:"stats"`
}

// listen is the listen role: an echo server without a limit on connections, until
// standard input ends.
//
//	HONE_TEST_ENGINE  the engine's name; none: do not serve, only wait
//	HONE_TEST_FILES   the limit of descriptors
func (roles) listen() error {
	report := func() listenReport { return listenReport{CPU: ownCPU()} }
	ready := listening{PID: os.Getpid()}
	if name := os.Getenv("HONE_TEST_ENGINE"); name != "none" {
		var e engine.Engine
		if err := e.UnmarshalText([]byte(name)); err != nil {
			return err
		}
		if n, err := strconv.ParseUint(os.Getenv("HONE_TEST_FILES"), 10, 64); err == nil {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
				return os.NewSyscallError("setrlimit", err)
			}
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: -1}}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		defer func() {
			s.Close()
			<-served
		}()
		ready.Addr = ln.Addr().String()
		report = func() listenReport { return listenReport{CPU: ownCPU(), Files: openFiles(), Stats: s.Stats()} }
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ready); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := out.Encode(report()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// startListening starts the role on an engine.
func startListening(t *testing.T, name string, env ...string) (*child, listening) {
	t.Helper()
	c := startChild(t, "listen", append(env, "HONE_TEST_ENGINE="+name, "GORACE=atexit_sleep_ms=0")...)
	var ready listening
	c.answer(t, childStart, &ready)
	return c, ready
}

func (c *child) report(t *testing.T) (r listenReport) {
	t.Helper()
	c.ask(t, "report", childStart, &r)
	return r
}

// Five hundred clients connect to a server with 64 descriptors. It keeps serving the open
// connections, refuses the others, uses little CPU while it is full, and accepts new ones
// as soon as there is room.
func TestServerAtItsDescriptorLimitLivesAndRecovers(t *testing.T) {
	waiting.runPlain(t, func(t *testing.T, e engine.Engine) { besiege(t, e.Name()) })
}

func besiege(t *testing.T, name string) {
	server, ready := startListening(t, name, "HONE_TEST_FILES=64")
	var id uint64
	friends := []*peer{dial(t, ready.Addr), dial(t, ready.Addr), dial(t, ready.Addr)}
	greet := func() {
		for _, p := range friends {
			id++
			p.exchange(id, "still here")
		}
	}
	greet()
	var strangers []net.Conn
	defer func() {
		for _, nc := range strangers {
			nc.Close()
		}
	}()
	for range 500 {
		nc, err := net.DialTimeout("tcp", ready.Addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, nc)
		if len(strangers)%50 == 0 {
			greet()
		}
	}
	eventually(t, "every client is served or refused", func() bool {
		now := server.report(t).Stats
		return now.Accepted+now.Ended[engine.NoDescriptors] == 503
	})

	full, since := server.report(t), time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for time.Since(since) < 1200*time.Millisecond {
		<-tick.C
		greet()
		late, err := net.DialTimeout("tcp", ready.Addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, late)
	}
	now := server.report(t)
	share := float64(now.CPU-full.CPU) / float64(time.Since(since))
	t.Logf("full with %d connections, %d refused; %.1f%% of a processor over %v", now.Stats.Open, now.Stats.Ended[engine.NoDescriptors], 100*share, time.Since(since))
	if share > 0.20 {
		t.Errorf("a server without descriptors uses %.0f%% of a processor, want 20%% at most", 100*share)
	}
	if now.Stats.Open < 40 || now.Stats.Open > 60 {
		t.Errorf("%d connections are open with 64 descriptors", now.Stats.Open)
	}

	for _, nc := range strangers {
		nc.Close()
	}
	strangers = nil
	newcomer := dialUntilServed(t, ready.Addr)
	greet()
	newcomer.exchange(2, "and once more")
	for range 20 {
		dialUntilServed(t, ready.Addr)
	}
}

// dialUntilServed dials again while it is refused.
func dialUntilServed(t *testing.T, addr string) *peer {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		nc, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		p := peerOf(t, nc)
		p.Write(submit(1, "anybody in?"))
		if got, err := p.tryPacket(); err == nil && got.ID == 1 {
			return p
		}
		p.Close()
	}
	t.Fatalf("not served within %v", patience)
	return nil
}

func TestConnectionsOverTheCapAreRefusedAndToldWhy(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 10}}
		addr := serve(t, s)
		var in []*peer
		for id := range uint64(10) {
			p := dial(t, addr)
			p.exchange(id, "in")
			in = append(in, p)
		}
		for n := range uint64(5) {
			p := dial(t, addr)
			p.pour(bytesInFlight()) // must not destroy the refusal
			p.wantRefusal(wire.Overloaded)
			p.Close()
			ended(t, s, engine.TooManyConns, n+1)
		}
		for i, p := range in {
			p.exchange(uint64(i), "still in")
		}
		in[0].Close()
		in[1].Close()
		eventually(t, "two connections have ended", func() bool { return s.Stats().Open == 8 })
		dial(t, addr).exchange(1, "in again")
		dial(t, addr).exchange(1, "in again")
		dial(t, addr).wantRefusal(wire.Overloaded)
		if now := s.Stats(); now.Accepted != 12 || now.Ended[engine.TooManyConns] != 6 {
			t.Errorf("accepted %d and refused %d, want 12 and 6", now.Accepted, now.Ended[engine.TooManyConns])
		}
	})
}

// bytesInFlight returns pipelined requests of a client that is about to be refused.
func bytesInFlight() []byte { return requests(2000) }

// Refused connections use resources too: only a limited number gets a reason, and the
// rest are closed.
func TestCrowdOfRefusedConnectionsIsBounded(t *testing.T) {
	inTurn.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 1}}
		addr := serve(t, s)
		in := dial(t, addr)
		in.exchange(1, "in")
		files := openFiles()
		const crowd = 300
		for range crowd {
			dial(t, addr)
		}
		ended(t, s, engine.TooManyConns, crowd)
		if more := openFiles() - files - crowd; more > 80 {
			t.Errorf("%d descriptors are in use for %d refused connections", more, crowd)
		}
		in.exchange(2, "still in")
	})
}

// faulty is a listener whose Accept fails a given number of times, and counts its calls.
type faulty struct {
	net.Listener
	fault error
	times int32
	calls atomic.Int32
}

func (l *faulty) Accept() (net.Conn, error) {
	if l.calls.Add(1) <= l.times {
		return nil, l.fault
	}
	return l.Listener.Accept()
}

// passing is a temporary error.
type passing struct{}

func (passing) Error() string   { return "not now" }
func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }

func TestAcceptErrorsThatPassAreWaitedOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  error
		pauses time.Duration // 5 ms, doubling
	}{
		{"temporary", passing{}, (5 + 10 + 20 + 40 + 80 + 160) * time.Millisecond},
		{"temporary, wrapped", fmt.Errorf("accepting: %w", passing{}), (5 + 10 + 20 + 40 + 80 + 160) * time.Millisecond},
		{"no descriptors", &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}, (5 + 10 + 20 + 40 + 80) * time.Millisecond},
		{"no memory", &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.ENOBUFS)}, (5 + 10 + 20 + 40 + 80) * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, e engine.Engine) {
				ln := memoryListener{fakenet.Listen()}
				bad := &faulty{Listener: ln, fault: c.fault, times: 6}
				begun := time.Now()
				serveOn(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}, bad)
				ln.dial(t).exchange(1, "in the end")
				if took := time.Since(begun); took != c.pauses {
					t.Errorf("six faults took %v, want %v", took, c.pauses)
				}
				if n := bad.calls.Load(); n > 8 {
					t.Errorf("Accept was called %d times for six faults and one connection", n)
				}
			})
		})
	}
}

// The same on sockets, while another listener keeps working.
func TestAcceptErrorsOfOneListenerAreNotTheOthers(t *testing.T) {
	const pauses = (5 + 10 + 20 + 40 + 80) * time.Millisecond
	waiting.runPlain(t, func(t *testing.T, e engine.Engine) {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
			t.Run(errno.Error(), func(t *testing.T) {
				fault := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				friend := dial(t, serve(t, s))
				friend.exchange(1, "hello")
				begun := time.Now()
				bad := &faulty{Listener: listenTCP(t), fault: fault, times: 6}
				p := dial(t, serveOn(t, s, bad))
				p.send(submit(1, "in the end"))
				pace := time.NewTicker(2 * time.Millisecond)
				defer pace.Stop()
				for ; bad.calls.Load() < bad.times; <-pace.C {
					friend.exchange(2, "not concerned")
				}
				p.want(ack(1, "in the end"))
				between(t, begun, pauses, pauses)
				if n := bad.calls.Load(); n > 8 {
					t.Errorf("Accept was called %d times for six faults and one connection", n)
				}
				dial(t, bad.Addr().String()).exchange(1, "and at once")
				if st := s.Stats(); st.Accepted != 3 || st.Open != 3 {
					t.Errorf("accepted %d, of which %d are open, want 3 and 3; ended: %v", st.Accepted, st.Open, st.Ended)
				}
			})
		}
	})
}

// Close ends the pause after an accept error.
func TestCloseEndsThePauseAfterAnAcceptError(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		bad := &faulty{Listener: memoryListener{fakenet.Listen()}, fault: passing{}, times: 1 << 30}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		served := make(chan error, 1)
		go func() { served <- s.Serve(bad) }()
		passes(10*time.Minute + 100*time.Millisecond)
		if n := bad.calls.Load(); n < 600 || n > 620 {
			t.Errorf("Accept was called %d times in ten minutes, want once a second", n)
		}
		begun := time.Now()
		s.Close()
		if err := take(t, "Serve returns", served); err != framed.ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Serve returned %v after Close", took)
		}
	})
}

func TestListenerClosedFromOutsideEndsServeAndNothingElse(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		t.Cleanup(func() { s.Close() })
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		p := dial(t, ln.Addr().String())
		p.exchange(1, "in")
		ln.Close()
		if err := take(t, "Serve returns", served); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve returned %v, want the listener's own error", err)
		}
		p.exchange(2, "still in")
		dial(t, serve(t, s)).exchange(1, "on another listener")
		p.exchange(3, "still in")
	})
}

func TestServerServesTwoListeners(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 2}}
		one, two := dial(t, serve(t, s)), dial(t, serve(t, s))
		one.exchange(1, "through the first")
		two.exchange(1, "through the second")
		if n := s.Stats().Open; n != 2 {
			t.Errorf("%d connections open, want 2", n)
		}
		dial(t, one.RemoteAddr().String()).wantRefusal(wire.Overloaded) // the limit is per server
		dial(t, two.RemoteAddr().String()).wantRefusal(wire.Overloaded)
	})
}

// On a full server idle clients stay, unless GiveWay is set.
func TestIdleClientsGiveWay(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, gives := range []bool{false, true} {
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 2}, GiveWay: gives}
			addr := serve(t, s)
			one, two := dial(t, addr), dial(t, addr)
			one.exchange(1, "one")
			two.exchange(2, "two")
			three := dial(t, addr)
			if !gives {
				three.wantRefusal(wire.Overloaded)
				one.exchange(3, "one")
				two.exchange(4, "two")
				continue
			}
			three.exchange(5, "three")
			ended(t, s, engine.Displaced, 1)
		}
	})
}
