package engine_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// echoLines answers every line with itself.
func echoLines() lines {
	return lines{serve: func(t *engine.Turn, line []byte) error { return say(t, string(line)) }}
}

// At the limit, a new connection displaces one that has never sent a byte, with a
// refusal: the oldest first. One that has sent anything stays, even half a message that
// nobody has read, and when all have, new connections are refused.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	const silent, busy = 6, 4
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.Conns = silent + busy })
		var asked, quiet []*client
		for i := range busy {
			c := s.dial(t)
			if i%2 == 0 {
				c.ask("before", "before")
			}
			c.send("hal")
			asked = append(asked, c)
		}
		for range silent {
			quiet = append(quiet, s.dial(t))
		}
		if !eventually(patience, func() bool { return s.Stats().Open == silent+busy }) {
			t.Fatalf("%d connections are open, want %d", s.Stats().Open, silent+busy)
		}
		for i := range silent {
			newcomer := s.dial(t)
			newcomer.ask("new", "new")
			asked = append(asked, newcomer)
			quiet[i].wantEnd(refusal(engine.Displaced))
		}
		s.dial(t).wantRefused(engine.TooManyConns)
		for i, c := range asked {
			if i < busy {
				c.ask("f", "half")
			}
			c.ask("after", "after")
		}
		if !eventually(patience, func() bool { return s.Stats().Open == silent+busy }) {
			t.Errorf("%d connections are open, want %d", s.Stats().Open, silent+busy)
		}
		st := s.Stats()
		if st.Open != silent+busy || st.Ended[engine.Displaced] != silent || st.Ended[engine.TooManyConns] != 1 {
			t.Errorf("%d are open, %d were displaced, %d were refused; want %d, %d and 1",
				st.Open, st.Ended[engine.Displaced], st.Ended[engine.TooManyConns], silent+busy, silent)
		}
	})
}

// Servers that share their places have one limit: a newcomer at one displaces a silent connection of another, is refused
// when all have sent something, and has a place when one has ended.
func TestSharedPlaces(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		places := new(engine.Places)
		sharing := func(s *engine.Server) { s.Limits.Conns, s.Places = 3, places }
		a, b := serve(t, g, echoLines(), sharing), serve(t, g, echoLines(), sharing)
		first, quiet := a.dial(t), a.dial(t)
		first.ask("one", "one")
		if !eventually(patience, func() bool { return a.Stats().Open == 2 }) {
			t.Fatalf("%d connections are open, want 2", a.Stats().Open)
		}
		second, third := b.dial(t), b.dial(t)
		second.ask("two", "two")
		third.ask("three", "three")
		quiet.wantEnd(refusal(engine.Displaced))
		a.dial(t).wantRefused(engine.TooManyConns)
		b.dial(t).wantRefused(engine.TooManyConns)
		third.Close()
		if !eventually(patience, func() bool { return b.Stats().Open == 1 }) {
			t.Fatalf("%d connections are open, want 1", b.Stats().Open)
		}
		a.dial(t).ask("four", "four")
		first.ask("five", "five")
	})
}

// Behind a proxy, a connection with a PROXY header counts as silent until a byte of a
// message has arrived.
func TestSilentBehindAProxyMakesRoom(t *testing.T) {
	const header = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), trustingLoopback, func(s *engine.Server) { s.Limits.Conns = 2 })
		asked := s.dial(t)
		asked.send(header)
		asked.ask("one", "one")
		quiet := s.dial(t)
		quiet.send(header)
		if !eventually(patience, func() bool { return s.Stats().BytesIn >= uint64(2*len(header)) }) {
			t.Fatal("the headers are not read")
		}
		newcomer := s.dial(t)
		newcomer.send(header)
		newcomer.ask("two", "two")
		quiet.wantEnd(refusal(engine.Displaced))
		asked.ask("three", "three")
	})
}

// Three hundred silent connections, or two thousand with HONE_TEST_ALL=1, lock nobody out.
func TestSilentCrowdKeepsNobodyOut(t *testing.T) {
	limit, newcomers := testrun.Sized(300, 2000), uint64(testrun.Sized(25, 100))
	oneByOne(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.Conns = limit })
		for range limit {
			s.dial(t)
		}
		if !eventually(patience, func() bool { return s.Stats().Open == limit }) {
			t.Fatalf("%d connections are open, want %d", s.Stats().Open, limit)
		}
		for range newcomers {
			s.dial(t).ask("new", "new")
		}
		if !eventually(patience, func() bool { return s.Stats().Open == limit }) {
			t.Errorf("%d connections are open, want %d", s.Stats().Open, limit)
		}
		if st := s.Stats(); st.Ended[engine.Displaced] != newcomers || st.Ended[engine.TooManyConns] != 0 {
			t.Errorf("%d were displaced and %d were refused, want %d and none", st.Ended[engine.Displaced], st.Ended[engine.TooManyConns], newcomers)
		}
	})
}

// Silent connections that send a request just when they are to be displaced stay, and the
// limit still holds: newcomers are closed.
func TestSilentConnectionsThatAskKeepTheirPlaces(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		const places = 3
		s := serve(t, g, lines{serve: echoing}, func(s *engine.Server) { s.Limits.Conns, s.Limits.LingerTime = places, 20*time.Millisecond })
		for range 20 {
			var all []*client
			for range 2 * places {
				all = append(all, s.dial(t))
				all[len(all)-1].Write([]byte("hello\n")) // a refused peer may be gone
			}
			if !eventually(patience, func() bool { return s.Stats().Open <= places }) {
				t.Fatalf("%d connections stay open with a limit of %d", s.Stats().Open, places)
			}
			for _, c := range all {
				c.Close()
			}
			if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
				t.Fatal("the connections did not end")
			}
		}
	})
}

// yielding is lines whose connections give way.
type yielding struct{ lines }

func (yielding) GivesWay() bool { return true }

// At the limit, connections between two messages make room where the protocol allows it;
// those with a request in progress, half a message or a reply owed stay.
// (Over TLS, a goroutine engine may displace a newcomer in its handshake, because it does not see unread bytes.)
func TestIdleConnectionsMakeRoom(t *testing.T) {
	onEach(t, everywhere(func(g ground) bool { return g.network != overTLS || g.isLoop() }), func(t *testing.T, g ground) {
		const idle, busy = 4, 3
		begun, gate := make(chan struct{}, 1), make(chan struct{})
		s := serve(t, g, yielding{lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "wait":
				t.Leave()
				begun <- struct{}{}
				<-gate
			case "later":
				t.Later()
				return nil
			}
			return say(t, string(line))
		}}}, func(s *engine.Server) { s.Limits.Conns = idle + busy })
		waits, half, owed := s.dial(t), s.dial(t), s.dial(t)
		for _, c := range []*client{waits, half, owed} {
			c.ask("one", "one")
		}
		waits.send("wait\n")
		heard(t, begun, "the handler")
		half.send("ha")
		owed.send("later\n")
		if !eventually(patience, func() bool { return s.Stats().Owed == 1 && s.Stats().BytesIn >= 3*4+5+2+6 }) {
			t.Fatalf("the requests have not arrived: %+v", s.Stats())
		}
		for range idle {
			s.dial(t).ask("one", "one")
		}
		var last *client
		for i := range 3 * idle {
			last = s.dial(t)
			if i < 3*idle-idle {
				last.ask("new", "new")
				continue
			}
			last.send("ha") // from here on nobody gives way
			if !eventually(patience, func() bool { return s.Stats().Ended[engine.Displaced] == uint64(i+1) }) {
				t.Fatalf("newcomer %d: %d have made room", i, s.Stats().Ended[engine.Displaced])
			}
		}
		if !eventually(patience, func() bool { return s.Stats().Open == idle+busy }) {
			t.Fatalf("%d connections are open, want %d", s.Stats().Open, idle+busy)
		}
		last.send("lf\n")
		last.want("half\n")
		last.send("ha")
		half.ask("lf", "half")
		half.send("ha")
		close(gate)
		waits.want("wait\n")
		if st := s.Stats(); st.Ended[engine.Displaced] != 3*idle || st.Ended[engine.TooManyConns] != 0 {
			t.Errorf("%d have made room and %d were refused, want %d and none", st.Ended[engine.Displaced], st.Ended[engine.TooManyConns], 3*idle)
		}
	})
}

// Where the protocol does not allow it, idle connections stay.
func TestIdleConnectionsStay(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, echoLines(), func(s *engine.Server) { s.Limits.Conns = 2 })
		one, two := s.dial(t), s.dial(t)
		one.ask("one", "one")
		two.ask("two", "two")
		refused := s.dial(t)
		go io.WriteString(refused, strings.Repeat("in flight\n", 3000)) // must not destroy the refusal
		refused.wantRefused(engine.TooManyConns)
		one.ask("one", "one")
		two.ask("two", "two")
	})
}

// A crowd of idle connections keeps nobody out, however many newcomers there are.
func TestIdleCrowdKeepsNobodyOut(t *testing.T) {
	limit, newcomers := testrun.Sized(200, 2000), uint64(testrun.Sized(250, 4000))
	oneByOne(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, yielding{echoLines()}, func(s *engine.Server) { s.Limits.Conns = limit })
		for range limit {
			s.dial(t).ask("one", "one")
		}
		for range newcomers {
			s.dial(t).ask("new", "new")
		}
		if !eventually(patience, func() bool { return s.Stats().Open == limit }) {
			t.Errorf("%d connections are open, want %d", s.Stats().Open, limit)
		}
		if st := s.Stats(); st.Ended[engine.Displaced] != newcomers || st.Ended[engine.TooManyConns] != 0 {
			t.Errorf("%d have made room and %d were refused, want %d and none", st.Ended[engine.Displaced], st.Ended[engine.TooManyConns], newcomers)
		}
	})
}
