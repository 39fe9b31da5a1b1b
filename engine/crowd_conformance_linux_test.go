package engine_test

import (
	"io"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A server without descriptors serves the connections it has, refuses the others, rests meanwhile, and
// accepts again when there is room.
func TestDescriptorsRunOutAndComeBack(t *testing.T) {
	const crowd, free = 60, 24
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		if !alone(t) { // the limit is the process's
			return
		}
		ln := listen(t, overTCP)
		var dialled []net.Conn
		for range crowd { // while there are descriptors for this side
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			dialled = append(dialled, nc)
		}
		defer limitDescriptors(t, free)()
		s := serveOn(t, g, ln, answering)
		if !eventually(patience, func() bool { st := s.Stats(); return st.Accepted+st.Ended[engine.NoDescriptors] == crowd }) {
			t.Fatalf("%+v", s.Stats())
		}
		const watched = 300 * time.Millisecond
		before := usedCPU()
		<-time.After(watched)
		if used := usedCPU() - before; used > watched/4 {
			t.Errorf("without descriptors, the server used %v of processor time in %v", used, watched)
		}
		served := 0
		for range 2 {
			served = 0
			for _, nc := range dialled {
				nc.SetDeadline(time.Now().Add(patience))
				io.WriteString(nc, "hello\n")
				if _, err := io.ReadFull(nc, make([]byte, len("answer\n"))); err == nil {
					served++
				}
			}
		}
		if open := s.Stats().Open; served != open || served < 5 || served > free {
			t.Errorf("%d were served and %d are open, with %d descriptors", served, open, free)
		}
		for _, nc := range dialled {
			nc.Close()
		}
		for range 5 {
			if !eventually(patience, func() bool { return isServed(s, patience) }) {
				t.Fatal("nobody is served any more")
			}
		}
	})
}

// usedCPU returns the processor time of this process.
func usedCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Refused connections use resources too: a limited number is told why, and the rest are closed.
func TestCrowdOfRefusedConnectionsIsBounded(t *testing.T) {
	const crowd, most = 300, 80
	oneByOne(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, answering, func(s *engine.Server) { s.Limits.Conns = 1 })
		in := s.dial(t)
		in.ask("hello", "answer")
		before := openSockets()
		for range crowd {
			s.dial(t)
		}
		if !eventually(patience, func() bool { return s.Stats().Ended[engine.TooManyConns] == crowd }) {
			t.Fatalf("%d were refused, want %d", s.Stats().Ended[engine.TooManyConns], crowd)
		}
		if more := openSockets() - before - crowd; more > most {
			t.Errorf("%d descriptors are in use for %d refused connections", more, crowd)
		}
		in.ask("hello", "answer")
	})
}

// A hostile connection takes little more of the server's memory than an idle one. Both sides are in
// this process, and the client's costs the same in both cases.
func TestHostileConnectionsCostLittle(t *testing.T) {
	const most = 8 << 10
	large := strings.Repeat("x", 60<<10)
	oneByOne(t, []ground{{engine.Engine{}, overTCP}, {engine.Buffered(0), overTCP}}, func(t *testing.T, g ground) {
		idle := memoryEach(t, g, func(c *client) { c.ask("ping", "small") })
		for name, do := range map[string]func(c *client){
			"a byte":                       func(c *client) { c.send("p") },
			"a few bytes of much":          func(c *client) { c.send("Lmuch") },
			"idle, and then a byte":        func(c *client) { c.ask("ping", "small"); c.send("p") },
			"refused, and stays":           func(c *client) { c.send("bad\n"); c.want(refusal(engine.Malformed)) },
			"refused, with much behind it": func(c *client) { c.send("bad\n" + large[:32<<10]); c.want(refusal(engine.Malformed)) },
			"idle after a large reply":     func(c *client) { c.ask("large", large) },
			"idle after a large request":   func(c *client) { c.ask(large, "small") },
			"half a header of a proxy":     func(c *client) { c.send("PROXY TCP4 192.0.2.1 192.") },
			"a long header of a proxy":     func(c *client) { c.send("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x01\x00\xc0\x00") },
		} {
			trusts := func(*engine.Server) {}
			if strings.HasSuffix(name, "proxy") {
				trusts = trustingLoopback
			}
			more := memoryEach(t, g, do, trusts) - idle
			if t.Logf("%+6d bytes: %s", more, name); more > most {
				t.Errorf("%s costs %d bytes more than an idle connection, want %d at most", name, more, most)
			}
		}
	})
}

// memoryEach returns the memory of a connection, both sides together, after do.
func memoryEach(t *testing.T, g ground, do func(c *client), set ...func(s *engine.Server)) int64 {
	crowd := testrun.Sized(100, 250)
	replies := replier(60 << 10)
	s := serve(t, g, parcels{lines{serve: func(t *engine.Turn, line []byte) error {
		if string(line) == "bad" {
			return malformed(t)
		}
		return replies.serve(t, line)
	}}}, append(set, func(s *engine.Server) { s.Limits.FrameTime, s.Limits.LingerTime = -1, time.Hour })...)
	defer s.Close()
	var all []*client
	open := func() {
		c, before := s.dial(t), s.Stats().BytesIn
		do(c)
		if !eventually(patience, func() bool { return s.Stats().BytesIn > before }) {
			t.Fatal("nothing is read")
		}
		all = append(all, c)
	}
	open() // costs what is needed once
	before := liveMemory()
	for range crowd {
		open()
	}
	after := liveMemory()
	if st := s.Stats(); st.Open != crowd+1 {
		t.Fatalf("%d connections are open, want %d; ended %v", st.Open, crowd+1, st.Ended)
	}
	for _, c := range all {
		c.Close()
	}
	return (after - before) / int64(crowd)
}

// liveMemory returns the heap and stack memory in use after a garbage collection. Memory allocated
// during one counts as live, so it takes the lower of two results.
func liveMemory() int64 {
	runtime.GC() // pools keep their victims until the second
	m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	least := int64(math.MaxInt64)
	for range 2 {
		runtime.GC()
		metrics.Read(m)
		least = min(least, int64(m[0].Value.Uint64()+m[1].Value.Uint64()))
	}
	return least
}
