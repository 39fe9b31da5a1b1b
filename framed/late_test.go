package framed_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// postponed is a request whose reply is owed.
type postponed struct {
	framed.Reply
	id   uint64
	text string
}

// postponing leaves requests that begin with "late" to the test, and answers the others
// at once.
func postponing(n int) (framed.HandlerFunc, chan postponed) {
	owed := make(chan postponed, n)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		if bytes.HasPrefix(req, []byte("late")) {
			owed <- postponed{c.Later(), c.ID(), string(req)}
			return append(dst, "ignored"...), nil
		}
		return append(dst, req...), nil
	}, owed
}

func TestLateRepliesFinishOutOfOrder(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const n = 100
		h, owed := postponing(n)
		s := &framed.Server{Engine: e, Handler: h}
		p := dial(t, serve(t, s))
		var out []byte
		for id := range uint64(n) {
			out = append(out, submit(id, fmt.Sprint("late ", id))...)
		}
		p.send(append(out, submit(n, "inline")...))
		p.want(ack(n, "inline"))
		all := make([]postponed, n)
		for i := range all {
			all[n-1-i] = heard(t, owed, "a handler")
		}
		for _, r := range all { // in reverse order
			if err := r.Send([]byte("done " + r.text)); err != nil {
				t.Fatal(err)
			}
			p.want(ack(r.id, "done "+r.text))
		}
		p.send(bytes.Replace(out, []byte("late"), []byte("LATE"), -1)) // the connection is still usable
		for id := range uint64(n) {
			p.want(ack(id, fmt.Sprint("LATE ", id)))
		}
		if st := s.Stats(); st.Late != n || st.Owed != 0 {
			t.Errorf("counted %d late replies and %d owed, want %d and 0", st.Late, st.Owed, n)
		}
	})
}

func TestLateRepliesFromManyGoroutines(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const n = 500
		h, owed := postponing(n)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		var senders sync.WaitGroup
		defer senders.Wait()
		stop := make(chan struct{})
		defer close(stop)
		for range 8 {
			senders.Go(func() {
				for {
					select {
					case r := <-owed:
						if err := r.Send([]byte(r.text)); err != nil {
							t.Error(err)
						}
					case <-stop:
						return
					}
				}
			})
		}
		var out []byte
		for id := range uint64(n) {
			out = append(out, submit(id, fmt.Sprint("late ", id))...)
		}
		go p.Write(out)
		seen := make([]bool, n)
		for range n {
			r := p.packet()
			if r.ID >= n || seen[r.ID] || r.Result != wire.OK || string(r.Content) != fmt.Sprint("late ", r.ID) {
				t.Fatalf("unexpected reply %v %q", r, r.Content)
			}
			seen[r.ID] = true
		}
	})
}

func TestLateReplyAfterTheEndAnswersErrClosed(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(2)
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{Engine: e, Handler: h, OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why }}
		p := dial(t, serve(t, s))
		p.send(append(submit(1, "late"), submit(2, "late")...))
		r1, r2 := heard(t, owed, "a handler"), heard(t, owed, "a handler")
		p.reset()
		if why := heard(t, closed, "OnClose"); why != engine.PeerReset {
			t.Errorf("closed for %v, want %v", why, engine.PeerReset)
		}
		for range 2 {
			if err := r1.Send([]byte("too late")); err != framed.ErrClosed {
				t.Errorf("Send returned %v, want ErrClosed", err)
			}
			if err := r2.Fail(wire.Failed); err != framed.ErrClosed {
				t.Errorf("Fail returned %v, want ErrClosed", err)
			}
		}
		if err := (framed.Reply{}).Send(nil); err != framed.ErrClosed {
			t.Errorf("Send of the zero Reply returned %v, want ErrClosed", err)
		}
		eventually(t, "nothing is owed", func() bool { st := s.Stats(); return st.Owed == 0 && st.Open == 0 })
	})
}

// TestStaleReplySettlesNobodyElses: not even when another connection has reused its slot,
// and owes a reply with the same ticket.
func TestStaleReplySettlesNobodyElses(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{Engine: e, Handler: h, OnClose: func(framed.Conn, engine.Reason) { closed <- 0 }}
		addr := serve(t, s)
		var stale []postponed
		for id := range uint64(60) {
			p := dial(t, addr)
			p.send(submit(id, "late"))
			r := heard(t, owed, "a handler")
			for _, old := range stale {
				if err := old.Send([]byte("from the grave")); err != framed.ErrClosed {
					t.Fatalf("Send after the end returned %v, want ErrClosed", err)
				}
			}
			if now := s.Stats().Owed; now != 1 {
				t.Fatalf("%d replies owed, want 1", now)
			}
			if id%2 == 0 {
				if err := r.Send([]byte("alive")); err != nil {
					t.Fatal(err)
				}
				p.want(ack(id, "alive"))
			}
			p.reset()
			heard(t, closed, "OnClose")
			eventually(t, "no connection is counted", func() bool { return s.Stats().Open == 0 })
			stale = append(stale, r)
		}
	})
}

// TestSecondSendIsSettledAndDisturbsNobody: not even when another request has reused the
// settled one's ticket slot.
func TestSecondSendIsSettledAndDisturbsNobody(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		var old []postponed
		for id := range uint64(20) {
			p.send(submit(id, "late"))
			r := heard(t, owed, "a handler")
			for _, r := range old {
				if err := r.Send([]byte("again")); err != engine.ErrSettled {
					t.Fatalf("a second Send returned %v, want ErrSettled", err)
				}
				if err := r.Fail(wire.Failed); err != engine.ErrSettled {
					t.Fatalf("Fail after Send returned %v, want ErrSettled", err)
				}
			}
			if err := r.Send([]byte("once")); err != nil {
				t.Fatalf("Send of another Reply after an older one's second Send: %v", err)
			}
			p.want(ack(id, "once"))
			old = append(old, r)
		}
		p.closeWrite()
		p.wantEnd()
	})
}

func TestOnlyOneOfManySendsOfOneReplyWins(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		for id := range uint64(50) {
			p.send(submit(id, "late"))
			r := heard(t, owed, "a handler")
			var won atomic.Int32
			inParallel(t, 6, func(int) error {
				switch err := r.Send([]byte("won")); err {
				case nil:
					won.Add(1)
				case engine.ErrSettled:
				default:
					return err
				}
				return nil
			})
			if won.Load() != 1 {
				t.Fatalf("%d of 6 Sends won, want 1", won.Load())
			}
			p.want(ack(id, "won"))
		}
		p.closeWrite()
		p.wantEnd()
	})
}

func TestLateReplyMayBeSentBeforeTheHandlerReturns(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			if err := r.Send(req); err != nil {
				return nil, err
			}
			if err := r.Send(req); err != engine.ErrSettled {
				return nil, fmt.Errorf("a second Send: %w", err)
			}
			return append(dst, "ignored"...), nil
		})}))
		var out []byte
		for id := range uint64(100) {
			out = append(out, submit(id, fmt.Sprint(id))...)
		}
		p.send(out)
		for id := range uint64(100) { // from one goroutine, hence in order
			p.want(ack(id, fmt.Sprint(id)))
		}
		p.closeWrite()
		p.wantEnd()
	})
}

func TestFailCarriesTheCode(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		for err, want := range map[error]wire.Result{
			wire.Unauthorised: wire.Unauthorised,
			fmt.Errorf("the token: %w", wire.Overloaded): wire.Overloaded,
			wire.Result(200): 200,
			io.EOF:           wire.Failed,
			wire.OK:          wire.Failed,
		} {
			p.send(submit(5, "late"))
			if err := heard(t, owed, "a handler").Fail(err); err != nil {
				t.Fatal(err)
			}
			p.want(frame(wire.SubmitAck, 5, want, ""))
		}
	})
}

func TestErrorTakesThePromiseBack(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		kept := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			kept <- c.Later()
			return append(dst, "partial"...), wire.Unauthorised
		})}
		p := dial(t, serve(t, s))
		p.send(submit(1, "a"))
		p.want(frame(wire.SubmitAck, 1, wire.Unauthorised, ""))
		if err := heard(t, kept, "a handler").Send([]byte("late")); err != engine.ErrSettled {
			t.Errorf("Send after the handler's error returned %v, want ErrSettled", err)
		}
		if st := s.Stats(); st.Owed != 0 || st.Late != 0 {
			t.Errorf("counted %d owed and %d late replies, want none", st.Owed, st.Late)
		}
		p.closeWrite() // nothing is owed, so it ends
		p.wantEnd()
	})
}

// TestErrorAfterTheLateReplyIsNoSecondAnswer: a sent reply cannot be taken back, so the
// error causes no second one.
func TestErrorAfterTheLateReplyIsNoSecondAnswer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if err := c.Later().Send([]byte("done")); err != nil {
				t.Error(err)
			}
			return dst, wire.Unauthorised
		})}))
		p.send(append(submit(1, ""), submit(2, "")...))
		p.closeWrite()
		p.want(ack(1, "done"))
		p.want(ack(2, "done"))
		p.wantEnd()
	})
}

func TestPanicTakesThePromiseBack(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		kept := make(chan framed.Reply, 1)
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				kept <- c.Later()
				panic("a handler's")
			}),
			OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
		}
		p := dial(t, serve(t, s))
		p.send(submit(1, "a"))
		p.want(frame(wire.SubmitAck, 1, wire.Internal, "")) // not delayed by the promise
		err := heard(t, kept, "a handler").Send([]byte("late"))
		if err != engine.ErrSettled && err != framed.ErrClosed {
			t.Errorf("Send after the handler's panic returned %v, want ErrSettled or ErrClosed", err)
		}
		p.wantEnd()
		p.Close()
		if why := heard(t, closed, "OnClose"); why != engine.Panicked {
			t.Errorf("closed for %v, want %v", why, engine.Panicked)
		}
	})
}

// TestPanicAfterTheLateReplyIsNoSecondAnswer: the connection still ends, without a second
// reply to the request.
func TestPanicAfterTheLateReplyIsNoSecondAnswer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if err := c.Later().Send([]byte("done")); err != nil {
				t.Error(err)
			}
			panic("a handler's")
		})}
		p := dial(t, serve(t, s))
		p.send(submit(1, ""))
		p.want(ack(1, "done"))
		for {
			r, err := p.tryPacket()
			if err == io.EOF {
				break
			}
			if err != nil || r.Command == wire.SubmitAck {
				t.Fatalf("after the answer: %+v, %v, want no second answer and the end", r, err)
			}
		}
		p.Close()
		ended(t, s, engine.Panicked, 1)
	})
}

func TestLaterTwiceForOneRequestIsTheProgrammersMistake(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		said := make(chan any, 1)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			defer func() {
				said <- recover()
				r.Send([]byte("once"))
			}()
			c.Later()
			return nil, nil
		})}))
		p.send(submit(1, ""))
		if v, ok := heard(t, said, "a handler").(string); !ok || !strings.HasPrefix(v, "framed: ") {
			t.Errorf("the second Later panicked with %q, want a panic that names the package", v)
		}
		p.want(ack(1, "once"))
	})
}

// TestInFlightStopsReadingAndResumes sends one reply at a time and counts the handlers
// that run: never more than InFlight ahead of the replies.
func TestInFlightStopsReadingAndResumes(t *testing.T) {
	const most, n = 4, 100
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(n)
		s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{InFlight: most}}
		p := dial(t, serve(t, s))
		pad := strings.Repeat("x", 20<<10)
		var out []byte
		for id := range uint64(n) {
			out = append(out, submit(id, "late"+pad)...)
		}
		go p.Write(out) // ends with the connection
		var held []postponed
		for range most {
			held = append(held, heard(t, owed, "a handler"))
		}
		none(t, owed, "a handler beyond InFlight")
		if st := s.Stats(); st.Owed != most || st.BytesIn > uint64(len(out)/2) {
			t.Errorf("%d replies owed, want %d; %d of %d bytes read", st.Owed, most, st.BytesIn, len(out))
		}
		for id := range uint64(n) {
			if len(held) == 0 {
				held = append(held, heard(t, owed, "a handler"))
			}
			if err := held[0].Send([]byte("done")); err != nil {
				t.Fatal(err)
			}
			held = held[1:]
			p.want(ack(id, "done"))
			for ran := true; ran; {
				select {
				case r := <-owed:
					held = append(held, r)
				default:
					ran = false
				}
			}
			if len(held) > most {
				t.Fatalf("%d replies owed after the %dth, want at most %d", len(held), id+1, most)
			}
		}
		p.closeWrite()
		p.wantEnd()
		eventually(t, "as many handlers have run", func() bool { return s.Stats().Requests == n })
	})
}

func TestConnPacketMayBeAnsweredLate(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		connect, owed := postponing(2)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Connect: connect}))
		p.send(frame(wire.Conn, 1, 0, "late key"))
		p.send(frame(wire.Conn, 2, 0, "late other"))
		p.send(submit(3, "meanwhile"))
		p.want(ack(3, "meanwhile"))
		key, other := heard(t, owed, "Connect"), heard(t, owed, "Connect")
		if err := other.Fail(wire.Unauthorised); err != nil {
			t.Fatal(err)
		}
		p.want(frame(wire.ConnAck, 2, wire.Unauthorised, ""))
		if err := key.Send([]byte("welcome")); err != nil {
			t.Fatal(err)
		}
		p.want(frame(wire.ConnAck, 1, wire.OK, "welcome"))
	})
}

func TestReplyKnowsItsConn(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			r := c.Later()
			if r.Conn() != c.Conn() {
				return nil, wire.Failed
			}
			r.Conn().Push(9, []byte("push"))
			r.Send([]byte("reply"))
			return nil, nil
		})}))
		p.send(submit(1, ""))
		p.want(frame(wire.Deliver, 9, 0, "push"))
		p.want(ack(1, "reply"))
	})
}

// TestLateRepliesOfManyConnections has 64 × 200 of them, sent in random order by
// independent goroutines.
func TestLateRepliesOfManyConnections(t *testing.T) {
	const conns, each = 64, 200
	run(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan postponed, 1024)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			owed <- postponed{c.Later(), c.ID(), string(req)}
			return nil, nil
		})}
		var finishers sync.WaitGroup
		for i := range 4 {
			finishers.Go(func() { finish(owed, rand.New(rand.NewPCG(uint64(i), 7)), t.Errorf) })
		}
		addr := serve(t, s)
		inParallel(t, conns, func(i int) error {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer nc.Close()
			p := peerOf(t, nc)
			var out []byte
			for id := range uint64(each) {
				out = append(out, submit(id, fmt.Sprintf("conn %d request %d", i, id))...)
			}
			if _, err := p.Write(out); err != nil {
				return err
			}
			seen := make([]bool, each)
			for range each {
				r, err := p.tryPacket()
				if err != nil {
					return err
				}
				if r.ID >= each || seen[r.ID] || r.Result != wire.OK || string(r.Content) != fmt.Sprintf("re: conn %d request %d", i, r.ID) {
					return fmt.Errorf("unexpected reply %v %q", r, r.Content)
				}
				seen[r.ID] = true
			}
			return nil
		})
		ended(t, s, engine.PeerClosed, conns)
		s.Close() // no handler runs any more
		close(owed)
		finishers.Wait()
		if st := s.Stats(); st.Late != conns*each || st.Owed != 0 {
			t.Errorf("counted %d late replies and %d owed, want %d and 0", st.Late, st.Owed, conns*each)
		}
	})
}

// finish sends the owed replies in small groups, each in random order, until owed is
// closed.
func finish(owed <-chan postponed, rnd *rand.Rand, complain func(string, ...any)) {
	for first := range owed {
		batch := []postponed{first}
		for more := true; more && len(batch) < 16; {
			select {
			case r, ok := <-owed:
				if more = ok; ok {
					batch = append(batch, r)
				}
			default:
				more = false
			}
		}
		rnd.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		for _, r := range batch {
			if err := r.Send([]byte("re: " + r.text)); err != nil && !errors.Is(err, framed.ErrClosed) {
				complain("request %d: Send: %v", r.id, err)
			}
		}
	}
}

// lineProtocol is a line protocol without ids: replies are in order when Limits.InFlight
// is 1. Returning false ends the visit, as required by Turn.TakeOver.
type lineProtocol func(t *engine.Turn, line string) bool

func (answer lineProtocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		n := bytes.IndexByte(in[used:], '\n')
		if n < 0 {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		line := string(in[used : used+n])
		more := answer(t, line)
		used += n + 1
		if !more {
			return used, 0, nil
		}
	}
}

func (lineProtocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return fmt.Appendf(dst, "refused: %v\n", why)
}

// serveLines is serve for a line protocol.
func serveLines(t *testing.T, s *engine.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveLinesOn(t, s, ln)
}

func serveLinesOn(t *testing.T, s *engine.Server, ln net.Listener) string {
	served := make(chan error, 1)
	if s.Logger == nil { // several listeners may share a server, which then reads it already
		s.Logger = slog.New(slog.DiscardHandler) // panics are often intended
	}
	ln = grounds(t, ln)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != engine.ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
	})
	return ln.Addr().String()
}

// TestWithoutIDsRepliesKeepTheirOrder mixes replies that are sent at once, by a
// goroutine, and late but before the handler returns, with pushes: a push follows the
// reply to the message that caused it. Some handlers are slow before or after they have
// answered.
func TestWithoutIDsRepliesKeepTheirOrder(t *testing.T) {
	const n = 3000
	start := seed(t)
	run(t, func(t *testing.T, e engine.Engine) {
		rnd := rand.New(rand.NewPCG(start, 0))
		work := make(chan func(), n)
		var workers sync.WaitGroup
		defer workers.Wait()
		stop := make(chan struct{})
		defer close(stop)
		for range 3 {
			workers.Go(func() {
				for {
					select {
					case f := <-work:
						f()
					case <-stop:
						return
					}
				}
			})
		}
		s := &engine.Server{Engine: e, Limits: engine.Limits{InFlight: 1}, Protocol: lineProtocol(func(turn *engine.Turn, line string) bool {
			how, id, _ := strings.Cut(line, " ")
			reply, push := []byte("re "+id+"\n"), []byte("push "+id+"\n")
			if strings.HasSuffix(how, "+slow") {
				defer passes(aWhile)
			} else if strings.HasSuffix(how, "-slow") {
				passes(aWhile)
			}
			if strings.Contains(how, "push") {
				turn.Conn().Push(push)
			}
			switch {
			case strings.HasPrefix(how, "late"):
				r := turn.Later()
				work <- func() { r.Send(reply) }
			case strings.HasPrefix(how, "soon"):
				turn.Later().Send(reply)
			default:
				turn.Out = append(turn.Out, reply...)
			}
			return true
		})}
		p := dial(t, serveLines(t, s))
		var out bytes.Buffer
		kinds := []string{"now", "now", "late", "soon", "nowpush"}
		var pushes []int
		for i := range n {
			kind := kinds[rnd.IntN(len(kinds))]
			if strings.HasSuffix(kind, "push") {
				pushes = append(pushes, i)
			}
			if rnd.IntN(200) == 0 {
				kind += []string{"+slow", "-slow"}[rnd.IntN(2)]
			}
			fmt.Fprintf(&out, "%s %d\n", kind, i)
		}
		go inPieces(p.Conn, out.Bytes(), rnd) // ends with the connection
		reply := 0
		for range n + len(pushes) {
			line, err := p.r.ReadString('\n')
			if err != nil {
				t.Fatalf("after reply %d: %v", reply-1, err)
			}
			what, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			got, err := strconv.Atoi(id)
			switch {
			case err != nil:
				t.Fatalf("after reply %d: %q", reply-1, line)
			case what == "re" && got == reply:
				reply++
			case what == "push" && len(pushes) > 0 && got == pushes[0] && got < reply:
				pushes = pushes[1:]
			default:
				t.Fatalf("%q after reply %d; the next push belongs to %v", line, reply-1, pushes[:min(1, len(pushes))])
			}
		}
	})
}

// TestReplyThatComesDuringAVisitStaysBeforeIt: the reply to an earlier message is sent
// when the next message has been seen but not yet served.
func TestReplyThatComesDuringAVisitStaysBeforeIt(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan engine.Reply, 1)
		var once sync.Once // an engine may present the second message again
		seen, release := make(chan struct{}), make(chan struct{})
		s := &engine.Server{Engine: e, Limits: engine.Limits{InFlight: 1}, Protocol: hesitant{
			lineProtocol(func(turn *engine.Turn, line string) bool {
				if line == "late" {
					owed <- turn.Later()
				} else {
					turn.Out = append(turn.Out, line+"\n"...)
				}
				return true
			}),
			func(in []byte) {
				if string(in) == "second\n" {
					once.Do(func() { close(seen); <-release })
				}
			},
		}}
		p := dial(t, serveLines(t, s))
		p.send([]byte("late\n"))
		r := heard(t, owed, "the protocol")
		p.send([]byte("second\n"))
		heard(t, seen, "the next visit")
		if err := r.Send([]byte("first\n")); err != nil {
			t.Error(err)
		}
		close(release)
		p.want([]byte("first\nsecond\n"))
	})
}

// hesitant is a protocol that pauses before it calls Room.
type hesitant struct {
	engine.Protocol
	before func(in []byte)
}

func (h hesitant) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	h.before(in)
	return h.Protocol.Advance(t, in)
}

// A visit may take more tickets than it promises replies. The rest are returned however
// it ends; otherwise the connection would wait for replies that are never sent.
func TestPromisesThatWereNotMadeAreNotOwed(t *testing.T) {
	for name, end := range map[string]func(){
		"returns": func() {},
		"panics":  func() { panic("on purpose") },
		"exits":   runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, e engine.Engine) {
				const n = 5
				owed := make(chan framed.Reply, n)
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
					if c.ID() < n {
						owed <- c.Later()
						return dst, nil
					}
					end()
					return dst, nil
				})}
				p := dial(t, serve(t, s))
				var out []byte
				for id := range uint64(n + 1) {
					out = append(out, submit(id, "ask")...)
				}
				p.send(out)
				for range n {
					heard(t, owed, "a promise").Send(nil)
				}
				p.closeWrite() // nothing is owed, so it ends
				io.Copy(io.Discard, p.r)
				eventually(t, "nothing is open or owed", func() bool { st := s.Stats(); return st.Open+st.Owed == 0 })
			})
		})
	}
}
