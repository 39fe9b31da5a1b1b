package engine_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// replier answers "large" with a line of that many bytes and everything else with
// "small".
func replier(large int) lines {
	text := strings.Repeat("x", large)
	return lines{serve: func(t *engine.Turn, line []byte) error {
		if string(line) == "large" {
			return say(t, text)
		}
		return say(t, "small")
	}}
}

// watch tracks the maximum of of until stop is called.
func watch(of func() int64) (stop func() (most int64)) {
	var most atomic.Int64
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		for {
			most.Store(max(most.Load(), of()))
			select {
			case <-over:
				return
			case <-ticks.C:
			}
		}
	})
	return func() int64 { close(over); watching.Wait(); return most.Load() }
}

// narrow dials with small socket buffers for what the server sends.
func (s *server) narrow(t *testing.T) *client {
	c := s.dial(t)
	c.Conn.(interface{ SetReadBuffer(int) error }).SetReadBuffer(4096)
	return c
}

// Many clients request a hundred times the budget and read nothing: the memory held stays
// within the budget, except for one reply of every running handler; well-behaved clients
// are answered all the time; and the others are closed when nothing else helps.
func TestOutputBudgetHolds(t *testing.T) {
	const budget, crowd, large = 8 << 20, 100, 500_000
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, replier(large), func(s *engine.Server) {
			s.Limits.TotalOutput, s.Limits.StallTime = budget, 6*time.Second
		})
		healthy := s.dial(t)
		healthy.ask("ping", "small")
		most := watch(func() int64 { return s.Stats().OutputMemory })
		for range crowd {
			c := s.narrow(t)
			io.WriteString(c, strings.Repeat("large\n", 20))
		}
		if !eventually(patience, func() bool {
			healthy.ask("ping", "small")
			return s.Stats().Ended[engine.OutputBudget] > 0
		}) {
			t.Errorf("no connection was closed: %+v", s.Stats())
		}
		newcomer := s.dial(t)
		newcomer.ask("ping", "small")
		held := most()
		bound := int64(budget + 2*runtime.GOMAXPROCS(0)*2*large)
		if testrun.Race {
			bound = crowd * 2 * large // a machine that takes seconds for first visits lets more of them start
		}
		if held > bound || held < budget/4 {
			t.Errorf("held at most %d bytes, want %d to %d", held, budget/4, bound)
		}
		for why, n := range s.Stats().Ended {
			if why := engine.Reason(why); n > 0 && why != engine.OutputBudget && why != engine.WriteStall {
				t.Errorf("%d ended for %v", n, why)
			}
		}
	})
}

// What a visit flushes counts as its output, like what it leaves: a connection that has
// flushed much waits for room before it does so again. (Over TCP a narrow peer takes long
// to read the first reply.)
func TestOutputBudgetKnowsWhatIsFlushed(t *testing.T) {
	const budget, crowd, large = 2 << 20, 40, 300_000
	answer := strings.Repeat("x", large) + "\n"
	onEach(t, over(overUnix), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			t.Out = append(t.Out, answer...)
			return t.Flush()
		}}, func(s *engine.Server) {
			s.Limits.TotalOutput, s.Limits.StallTime = budget, 6*time.Second
		})
		var all []*client
		for range crowd {
			c := s.dial(t)
			c.ask("large", answer[:large])
			all = append(all, c)
		}
		most := watch(func() int64 { return s.Stats().OutputMemory })
		for _, c := range all {
			c.send("large\n")
		}
		if !eventually(patience, func() bool { return s.Stats().InLine > 0 || s.Stats().Ended[engine.OutputBudget] > 0 }) {
			t.Errorf("no connection waits for room: %+v", s.Stats())
		}
		if held, bound := most(), int64(budget+2*runtime.GOMAXPROCS(0)*2*large); held > bound {
			t.Errorf("held at most %d bytes, want at most %d", held, bound)
		}
	})
}

// Clients that read everything get everything, however small the budget: they take turns,
// and none starves.
func TestLargeRepliesTakeTurns(t *testing.T) {
	const crowd, each, large = 24, 6, 150_000
	answer := strings.Repeat("x", large) + "\n"
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, replier(large), func(s *engine.Server) {
			s.Limits.TotalOutput, s.Limits.StallTime = 512<<10, time.Hour // no stalls, however busy the machine
		})
		waited := watch(func() int64 { return int64(s.Stats().InLine) })
		var all sync.WaitGroup
		for range crowd {
			c := s.dial(t)
			all.Go(func() {
				io.WriteString(c, strings.Repeat("large\n", each))
				got := make([]byte, len(answer))
				for n := range each {
					if _, err := io.ReadFull(c.r, got); err != nil || string(got) != answer {
						t.Errorf("reply %d of %d: %v", n+1, each, err)
						return
					}
				}
			})
		}
		all.Wait()
		if waited() == 0 && !g.isAdapter() {
			t.Log("nobody had to wait") // on a slow machine
		}
		if st := s.Stats(); st.Open != crowd || st.InLine != 0 {
			t.Errorf("%d connections are open, want %d; %d in line", st.Open, crowd, st.InLine)
		}
	})
}

// Pushes to peers that do not read also stay within the budget. (An adapter's kernel
// buffers hold more than this test sends.)
func TestPushesKeepToTheOutputBudget(t *testing.T) {
	const budget, crowd, size, each = 2 << 20, 100, 50_000, 20
	push := make([]byte, size)
	onEach(t, everywhere(func(g ground) bool { return !g.isAdapter() }), func(t *testing.T, g ground) {
		conns := make(chan engine.Conn, crowd+1)
		s := serve(t, g, replier(0), func(s *engine.Server) {
			s.Limits.TotalOutput, s.Limits.HardCap, s.Limits.StallTime = budget, 16<<20, time.Hour
			s.OnOpen = func(c engine.Conn) { conns <- c }
		})
		healthy := s.dial(t)
		healthy.ask("ping", "small")
		<-conns
		most := watch(func() int64 { return s.Stats().OutputMemory })
		var crowded []engine.Conn
		for range crowd {
			s.narrow(t)
			crowded = append(crowded, heard(t, conns, "a connection"))
		}
		refused := 0
		for range each {
			for _, c := range crowded {
				switch err := c.Push(push); {
				case errors.Is(err, engine.OutputBudget), errors.Is(err, engine.ErrClosed):
					refused++
				case err != nil:
					t.Fatalf("a push: %v", err)
				}
			}
			healthy.ask("ping", "small")
		}
		held := most()
		// Each connection may hold one push when the budget is found exceeded.
		if bound := int64(budget + budget/8 + crowd*size*3/2); refused == 0 || held > bound {
			t.Errorf("%d of %d pushes were refused, and at most %d bytes held, want at most %d", refused, crowd*each, held, bound)
		}
	})
}

// parcels are lines, and messages that begin with an L and never end.
type parcels struct{ lines }

func (p parcels) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if len(in) > 0 && in[0] == 'L' {
		return 0, 1<<20 - len(in), nil
	}
	return p.lines.Advance(t, in)
}

// Unfinished messages: the connections that have held most for longest are closed.
func TestInputBudgetHolds(t *testing.T) {
	const budget, crowd, size = 2 << 20, 100, 60_000
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, parcels{replier(0)}, func(s *engine.Server) {
			s.Limits.TotalInput, s.Limits.FrameSize, s.Limits.FrameTime = budget, 1<<20, time.Hour
		})
		healthy := s.dial(t)
		healthy.ask("ping", "small")
		waiting := s.dial(t)
		waiting.send("pi") // holds little, for longest
		most := watch(func() int64 { return s.Stats().InputMemory })
		for range crowd {
			io.WriteString(s.dial(t), strings.Repeat("L", size))
			healthy.ask("ping", "small")
		}
		if !eventually(patience, func() bool {
			return s.Stats().InputMemory <= budget*3/4 && s.Stats().Ended[engine.InputBudget] > 0 // although nobody sends any more
		}) {
			t.Errorf("%d bytes are held of %d; %+v", s.Stats().InputMemory, budget, s.Stats())
		}
		waiting.ask("ng", "small")
		if held := most(); held > budget+crowd*4096 {
			t.Errorf("held at most %d bytes, want at most %d", held, budget)
		}
		for why, n := range s.Stats().Ended {
			if n > 0 && engine.Reason(why) != engine.InputBudget {
				t.Errorf("%d ended for %v", n, engine.Reason(why))
			}
		}
	})
}

// Few first visits of unknown connections run at once. Handlers that block in them must
// not delay the others.
func TestFirstVisitsThatBlockHoldUpNobody(t *testing.T) {
	crowd := testrun.Sized(100, 300)
	onEach(t, everywhere(func(g ground) bool { return !g.isInline() }), func(t *testing.T, g ground) {
		block := newGate(t)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			block.pass()
			return say(t, "answer")
		}})
		var all []*client
		for range crowd {
			c := s.dial(t)
			c.send("ask\n")
			all = append(all, c)
		}
		for range crowd {
			heard(t, block.entered, "a handler")
		}
		block.open()
		for _, c := range all {
			c.want("answer\n")
		}
	})
}

// A connection that ends while it waits in line for the budget leaves the line, and one
// that has been granted room does not keep it.
func TestInLineAndGone(t *testing.T) {
	const large = 200_000
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, replier(large), func(s *engine.Server) {
			s.Limits.TotalOutput, s.Limits.StallTime = 600_000, time.Hour
		})
		var blocked []*client
		for range 3 {
			c := s.narrow(t)
			c.send(strings.Repeat("large\n", 20))
			blocked = append(blocked, c)
		}
		var waiting []*client
		for range 10 {
			c := s.dial(t)
			c.send("large\n")
			waiting = append(waiting, c)
		}
		for i, c := range waiting {
			if i%2 == 0 {
				c.reset()
			}
		}
		for _, c := range blocked {
			c.reset()
		}
		for i, c := range waiting {
			if i%2 == 1 {
				c.want(strings.Repeat("x", large) + "\n")
				c.Close()
			}
		}
	})
}

// Input that user code holds while it has the socket counts, is refused when the budget is
// used up, and counts no more when the connection has ended.
func TestHeldInputKeepsToTheBudget(t *testing.T) {
	const total, most = 1 << 20, 8
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		refused, conns := make(chan int, most), make(chan engine.Conn, most)
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			c := t.Conn()
			t.TakeOver(func(nc net.Conn, _ []byte) ([]byte, bool) {
				held := 0
				for c.HoldInput(0) && c.HoldInput(64<<10) {
					held += 64 << 10
				}
				if !c.HoldInput(1<<10) && held == 0 {
					held = -1 // a little is always allowed
				}
				refused <- held
				conns <- c
				nc.Read(make([]byte, 1)) // until the client or the engine closes it
				return nil, false
			})
			return errHandedOver
		}}, func(s *engine.Server) { s.Limits.TotalInput = total })
		var all []*client
		for i := range most {
			c := s.dial(t)
			all = append(all, c)
			c.send("take\n")
			held := heard(t, refused, "the budget is used up")
			if i == 0 && (held < total/2 || held > total) || held < 0 {
				t.Errorf("connection %d holds %d of %d bytes", i, held, total)
			}
			if n := s.Stats().InputMemory; n > total {
				t.Errorf("%d bytes are held with a limit of %d", n, total)
			}
		}
		first := <-conns
		if first.HoldInput(-1 << 31); s.Stats().InputMemory < 0 {
			t.Errorf("%d bytes are counted", s.Stats().InputMemory)
		}
		for _, c := range all {
			c.Close()
		}
		if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
			t.Fatalf("%d connections are open", s.Stats().Open)
		}
		if held := s.Stats().InputMemory; held != 0 {
			t.Errorf("%d bytes are counted after all connections have ended", held)
		}
		if first.HoldInput(1) || first.HoldInput(0) {
			t.Error("an ended connection may hold input")
		}
	})
}
