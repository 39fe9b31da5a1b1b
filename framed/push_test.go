package framed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// deliver encodes a push as a frame.
func deliver(id uint64, content string) []byte { return frame(wire.Deliver, id, 0, content) }

// introducing is a handler that hands the connection of every request "hello" to the test
// and echoes the others.
func introducing() (framed.HandlerFunc, chan framed.Conn) {
	met := make(chan framed.Conn, 1)
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		if string(req) == "hello" {
			met <- c.Conn()
		}
		return append(dst, req...), nil
	}, met
}

// meet opens a connection and returns it with its Conn on the server's side.
func meet(t *testing.T, addr string, met <-chan framed.Conn) (*peer, framed.Conn) {
	t.Helper()
	p := dial(t, addr)
	p.send(submit(1, "hello"))
	c := heard(t, met, "a handler")
	p.want(ack(1, "hello"))
	return p, c
}

func TestPushReachesAnIdleConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, met := introducing()
		s := &framed.Server{Engine: e, Handler: h}
		p, c := meet(t, serve(t, s), met)
		for id := range uint64(20) {
			content := string(make([]byte, id*1000))
			if err := c.Push(id, []byte(content)); err != nil {
				t.Fatal(err)
			}
			p.want(deliver(id, content))
		}
		if st := s.Stats(); st.Pushes != 20 {
			t.Errorf("counted %d pushes, want 20", st.Pushes)
		}
	})
}

// Of what is offered to a peer that does not read, the oldest are dropped and counted; what is pushed stays,
// and all of it keeps its order.
func TestOffersToAPeerThatReadsLaterAreDropped(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const offers = 200
		h, met := introducing()
		s := &framed.Server{Engine: e, Handler: h}
		p, c := meet(t, serve(t, s), met)
		content, full := make([]byte, 1<<10), make([]byte, 32<<10)
		pushed := uint64(0)
		push := func(content []byte) {
			if err := c.Push(pushed, content); err != nil {
				t.Fatal(err)
			}
			pushed++
		}
		for c.Unsent() < 64<<10 {
			push(full)
		}
		for id := range uint64(offers) {
			if err := c.Offer(1<<32|id, content); err != nil {
				t.Fatal(err)
			}
			if id == offers/2 {
				push(full)
			}
		}
		push(nil)
		got, last := uint64(0), uint64(0)
		for next := uint64(0); next < pushed; {
			packet := p.packet()
			switch id := packet.ID & (1<<32 - 1); {
			case packet.ID == next:
				next++
			case packet.ID < 1<<32 || got > 0 && id <= last:
				t.Fatalf("%x after push %d and offer %d", packet.ID, next-1, last)
			default:
				got, last = got+1, id
			}
		}
		st := s.Stats()
		if last != offers-1 || got == offers || st.Dropped != offers-got || st.Pushes != pushed+offers {
			t.Errorf("%d offers arrive, the last %d; %d are counted as dropped, %d as pushes", got, last, st.Dropped, st.Pushes)
		}
		c.Close()
		eventually(t, "the connection ends", func() bool { return s.Stats().Open == 0 })
		if err := c.Offer(1, nil); err != framed.ErrClosed {
			t.Errorf("an offer after the end: %v", err)
		}
	})
}

func TestPushReachesAConnectionInTheMiddleOfAFrame(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, met := introducing()
		p, c := meet(t, serve(t, &framed.Server{Engine: e, Handler: h}), met)
		request := submit(2, "a request in two pieces")
		for cut := 1; cut < len(request); cut += 5 {
			p.send(request[:cut])
			c.Push(9, []byte("news"))
			p.want(deliver(9, "news"))
			p.send(request[cut:])
			p.want(ack(2, "a request in two pieces"))
		}
	})
}

func TestPushReachesAConnectionWhoseHandlerIsBlocked(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		met, release := make(chan framed.Conn, 1), make(chan struct{})
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			met <- c.Conn()
			<-release
			return append(dst, req...), nil
		})}))
		t.Cleanup(func() { close(release) })
		p.send(submit(1, "blocked"))
		c := heard(t, met, "a handler")
		for id := range uint64(5) {
			c.Push(id, []byte("news"))
			p.want(deliver(id, "news"))
		}
		release <- struct{}{}
		p.want(ack(1, "blocked"))
	})
}

// TestPushFromWithinAHandler: to its own connection and to another one.
func TestPushFromWithinAHandler(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var other atomic.Value
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "other" {
				other.Store(c.Conn())
				return dst, nil
			}
			return dst, errors.Join(c.Conn().Push(c.ID(), req), other.Load().(framed.Conn).Push(c.ID(), req))
		})}
		addr := serve(t, s)
		b := dial(t, addr)
		b.send(submit(1, "other"))
		b.want(ack(1, ""))
		a := dial(t, addr)
		for id := uint64(1); id <= 50; id++ {
			a.send(submit(id, "news"))
			b.want(deliver(id, "news"))
			pushed, answered := false, false
			for range 2 {
				switch r := a.packet(); {
				case r.Command == wire.Deliver && r.ID == id && string(r.Content) == "news":
					pushed = true
				case r.Command == wire.SubmitAck && r.ID == id && r.Result == wire.OK:
					answered = true
				}
			}
			if !pushed || !answered {
				t.Fatalf("request %d: pushed %v, answered %v", id, pushed, answered)
			}
		}
	})
}

// TestPushesOfOneGoroutineKeepTheirOrder: while requests are answered on the same
// connection.
func TestPushesOfOneGoroutineKeepTheirOrder(t *testing.T) {
	const pushers, each = 4, 300
	run(t, func(t *testing.T, e engine.Engine) {
		h, met := introducing()
		p, c := meet(t, serve(t, &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{HardCap: -1}}), met)
		var all sync.WaitGroup
		defer all.Wait()
		for i := range uint64(pushers) {
			all.Go(func() {
				for n := range uint64(each) {
					if err := c.Push(i<<32|n, []byte(fmt.Sprint(n))); err != nil {
						t.Errorf("push: %v", err)
					}
				}
			})
		}
		var out []byte
		for id := range uint64(each) {
			out = append(out, submit(id, "request")...)
		}
		go p.Write(out)
		var next [pushers]uint64
		reply := uint64(0)
		for range pushers*each + each {
			switch r := p.packet(); {
			case r.Command == wire.SubmitAck && r.ID == reply:
				reply++
			case r.Command == wire.Deliver && r.ID>>32 < pushers && r.ID&0xffffffff == next[r.ID>>32] && string(r.Content) == fmt.Sprint(next[r.ID>>32]):
				next[r.ID>>32]++
			default:
				t.Fatalf("got %+v; the next reply is %d, the next pushes are %v", r, reply, next)
			}
		}
	})
}

// TestConnIsAMapKey: Conns of one connection are equal, and those of different
// connections are not, however many have come and gone.
func TestConnIsAMapKey(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var mu sync.Mutex
		names := map[framed.Conn]string{}
		var gone sync.WaitGroup
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if _, ok := names[c.Conn()]; !ok {
					names[c.Conn()] = string(req)
				}
				return append(dst, names[c.Conn()]...), nil
			}),
			OnClose: func(c framed.Conn, _ engine.Reason) {
				mu.Lock()
				delete(names, c)
				mu.Unlock()
				gone.Done()
			},
		}
		addr := serve(t, s)
		for round := range 3 {
			var open []*peer
			for i := range 20 {
				gone.Add(1)
				p := dial(t, addr)
				name := fmt.Sprint("conn ", round, i)
				p.send(submit(1, name))
				p.want(ack(1, name))
				open = append(open, p)
			}
			for i, p := range open {
				p.send(submit(2, "who am I?"))
				p.want(ack(2, fmt.Sprint("conn ", round, i)))
				p.Close()
			}
			gone.Wait()
			mu.Lock()
			if len(names) != 0 {
				t.Errorf("%d connections are left in the map", len(names))
			}
			mu.Unlock()
		}
	})
}

func TestStaleConnAnswersErrClosedForGood(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, met := introducing()
		closed := make(chan framed.Conn, 64)
		s := &framed.Server{Engine: e, Handler: h, OnClose: func(c framed.Conn, _ engine.Reason) { closed <- c }}
		addr := serve(t, s)
		p, stale := meet(t, addr, met)
		where := stale.RemoteAddr()
		p.Close()
		if c := heard(t, closed, "OnClose"); c != stale {
			t.Error("OnClose got another connection than the handler")
		}
		for range testrun.Sized(30, 100) {
			var open []*peer
			for range 10 {
				q, c := meet(t, addr, met)
				if c == stale {
					t.Fatal("a new Conn is equal to an old one")
				}
				if v, from := c.Value(), c.RemoteAddr().String(); v != nil || from != q.LocalAddr().String() {
					t.Fatalf("a new connection has the value %v and the address %s", v, from)
				}
				open = append(open, q)
			}
			if err := stale.Push(1, []byte("to nobody")); err != framed.ErrClosed {
				t.Fatalf("Send to a stale Conn returned %v, want ErrClosed", err)
			}
			stale.SetValue("nobody's")
			stale.Close()
			for _, q := range open {
				q.send(submit(2, "still there"))
				q.want(ack(2, "still there"))
				q.Close()
				heard(t, closed, "OnClose")
			}
		}
		if got := stale.RemoteAddr(); got != where && got != (netip.AddrPort{}) {
			t.Errorf("a stale Conn's address is %v, want %v or none", got, where)
		}
		var zero framed.Conn
		if err := zero.Push(1, nil); err != framed.ErrClosed {
			t.Errorf("Send to the zero Conn returned %v, want ErrClosed", err)
		}
		zero.Close()
		if zero.Value() != nil || zero.RemoteAddr() != (netip.AddrPort{}) {
			t.Error("the zero Conn has a value or an address")
		}
	})
}

type contextKey struct{}

// TestContextAndValueBelongToTheConnection: ConnContext is called once for each, before
// its first request.
func TestContextAndValueBelongToTheConnection(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var opened atomic.Int64
		kept := make(chan any, 1)
		s := &framed.Server{
			Engine: e,
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				return context.WithValue(ctx, contextKey{}, fmt.Sprint("context ", opened.Add(1), " of ", c.RemoteAddr()))
			},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if c.Conn().Value() == nil {
					c.Conn().SetValue(new(atomic.Int64))
				}
				n := c.Conn().Value().(*atomic.Int64).Add(1)
				return fmt.Appendf(dst, "%v: %d", c.Context().Value(contextKey{}), n), nil
			}),
			OnClose: func(c framed.Conn, _ engine.Reason) { kept <- c.Value() },
		}
		addr := serve(t, s)
		for conn := 1; conn <= 3; conn++ {
			p := dial(t, addr)
			for n := 1; n <= 3; n++ {
				p.send(submit(1, ""))
				p.want(ack(1, fmt.Sprintf("context %d of %v: %d", conn, p.LocalAddr(), n)))
			}
			p.Close()
			if n, ok := heard(t, kept, "OnClose").(*atomic.Int64); !ok || n.Load() != 3 {
				t.Errorf("OnClose got the value %v, want the handler's counter at 3", n)
			}
		}
	})
}

func TestValueSetInConnContextIsKept(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{
			Engine: e,
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				c.SetValue("a session")
				return context.WithValue(ctx, contextKey{}, "a context")
			},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				return fmt.Appendf(dst, "%v, %v", c.Conn().Value(), c.Context().Value(contextKey{})), nil
			}),
		}
		p := dial(t, serve(t, s))
		p.send(submit(1, ""))
		if got := string(p.packet().Content); got != "a session, a context" {
			t.Errorf("the handler got %q, want a session, a context", got)
		}
	})
}

// TestContextOutlivesTheRequest: and the drain, but not the server.
func TestContextOutlivesTheRequest(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		contexts := make(chan context.Context, 1)
		replies := make(chan framed.Reply, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			contexts <- c.Context()
			replies <- c.Later()
			return nil, nil
		})}
		addr := serve(t, s)
		p := dial(t, addr)
		p.send(submit(1, ""))
		ctx := heard(t, contexts, "a handler")
		shut := make(chan error, 1)
		go func() { shut <- s.Shutdown(context.Background()) }()
		drainBegins(t, s)
		if ctx.Err() != nil {
			t.Errorf("the context ended when the drain started: %v", ctx.Err())
		}
		heard(t, replies, "a handler").Send(nil)
		p.want(ack(1, ""))
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		if err := heard(t, shut, "Shutdown"); err != nil {
			t.Error(err)
		}
		heard(t, ctx.Done(), "the context's end")
	})
}

// TestOnCloseIsCalledOnceWithTheReason: after the last handler has returned.
func TestOnCloseIsCalledOnceWithTheReason(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		type end struct {
			conn    framed.Conn
			why     engine.Reason
			working bool
		}
		var working sync.Map
		ends := make(chan end, 100)
		entered, release := make(chan struct{}, 1), make(chan struct{})
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				working.Store(c.Conn(), true)
				defer working.Delete(c.Conn())
				switch string(req) {
				case "panic":
					panic("a handler's")
				case "close":
					c.Conn().Close()
				case "block":
					entered <- struct{}{}
					<-release
				}
				return append(dst, req...), nil
			}),
			OnClose: func(c framed.Conn, why engine.Reason) {
				_, at := working.Load(c)
				ends <- end{c, why, at}
			},
		}
		addr := serve(t, s)
		wantEnd := func(why engine.Reason) {
			t.Helper()
			if got := heard(t, ends, "OnClose"); got.why != why || got.working {
				t.Errorf("closed for %v, want %v; a handler was running: %v", got.why, why, got.working)
			}
		}
		begin := func(request string) *peer {
			p := dial(t, addr)
			p.send(submit(1, request))
			return p
		}

		p := begin("hello")
		p.closeWrite()
		p.want(ack(1, "hello"))
		p.wantEnd()
		wantEnd(engine.PeerClosed)

		p = begin("hello")
		p.want(ack(1, "hello"))
		p.reset()
		wantEnd(engine.PeerReset)

		p = begin("block")
		heard(t, entered, "a handler")
		p.reset()
		none(t, ends, "OnClose before the handler has returned")
		release <- struct{}{}
		wantEnd(engine.PeerReset)

		p = begin("close")
		p.want(ack(1, "close"))
		p.wantEnd()
		p.Close()
		wantEnd(engine.ClosedHere)

		p = begin("panic")
		p.want(frame(wire.SubmitAck, 1, wire.Internal, ""))
		p.wantEnd()
		p.Close()
		wantEnd(engine.Panicked)

		p = begin("hello")
		p.want(ack(1, "hello"))
		p.send([]byte{0, 0, 0, 3})
		p.wantRefusal(wire.Malformed)
		p.Close()
		wantEnd(engine.Malformed)

		p = dial(t, addr) // sends nothing at all
		p.Close()
		wantEnd(engine.PeerClosed)

		p = begin("hello")
		p.want(ack(1, "hello"))
		shut := make(chan error, 1)
		go func() { shut <- s.Shutdown(context.Background()) }()
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		wantEnd(engine.ShuttingDown)
		heard(t, shut, "Shutdown")
		if len(ends) > 0 {
			t.Errorf("OnClose was called again: %v", (<-ends).why)
		}
	})
}

// TestCloseFlushesWhatIsQueued: pushes and late replies sent before Close arrive,
// followed by a clean end.
func TestCloseFlushesWhatIsQueued(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		big := string(textOf(rand.New(rand.NewPCG(1, 1)), 200<<10))
		for _, from := range []string{"outside", "a handler"} {
			h, met := introducing()
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if string(req) != "bye" {
					return h(c, dst, req)
				}
				c.Conn().Push(1, []byte("first"))
				c.Conn().Push(2, []byte(big))
				c.Conn().Close()
				c.Conn().Close() // calling it twice is harmless
				return append(dst, "last words"...), nil
			})}
			p, c := meet(t, serve(t, s), met)
			var want map[uint64]string
			if from == "outside" {
				want = map[uint64]string{1: "first", 2: big, 3: "third"}
				for id := uint64(1); id <= 3; id++ {
					if err := c.Push(id, []byte(want[id])); err != nil {
						t.Fatal(err)
					}
				}
				c.Close()
			} else {
				want = map[uint64]string{1: "first", 2: big, 7: "last words"}
				p.send(submit(7, "bye"))
			}
			for len(want) > 0 {
				r := p.packet()
				if content, ok := want[r.ID]; !ok || content != string(r.Content) {
					t.Fatalf("Close from %s: packet %d has %d bytes, want %d", from, r.ID, len(r.Content), len(content))
				}
				delete(want, r.ID)
			}
			p.wantEnd()
			p.Close()
			ended(t, s, engine.ClosedHere, 1)
			if err := c.Push(9, nil); err != framed.ErrClosed {
				t.Errorf("Send after the end returned %v, want ErrClosed", err)
			}
		}
	})
}

// TestCloseInAHandlerIsItsConnectionsLastRequest: nothing more is read, and pipelined
// requests after it are not served, on any engine.
func TestCloseInAHandlerIsItsConnectionsLastRequest(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "bye" {
				c.Conn().Close()
			}
			return append(dst, req...), nil
		})}
		p := dial(t, serve(t, s))
		out := append(submit(1, "hello"), submit(2, "bye")...)
		for id := range uint64(20) {
			out = append(out, submit(3+id, "more")...)
		}
		p.send(out)
		p.want(ack(1, "hello"))
		p.want(ack(2, "bye"))
		p.wantEnd()
		p.Close()
		ended(t, s, engine.ClosedHere, 1)
		if n := s.Stats().Requests; n != 2 {
			t.Errorf("%d handlers ran, want 2", n)
		}
	})
}

// TestCloseWhileAHandlerIsBlocked takes effect when the handler returns, and its reply
// still arrives.
func TestCloseWhileAHandlerIsBlocked(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		met, release := make(chan framed.Conn, 1), make(chan struct{})
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			met <- c.Conn()
			<-release
			return append(dst, req...), nil
		})}
		p := dial(t, serve(t, s))
		p.send(submit(1, "blocked"))
		heard(t, met, "a handler").Close()
		close(release)
		p.want(ack(1, "blocked"))
		p.wantEnd()
		p.Close()
		ended(t, s, engine.ClosedHere, 1)
	})
}

func TestRemoteAddrIsThePeers(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				t.Logf("%s is not supported here: %v", listen, err)
				continue
			}
			h, met := introducing()
			addr := serveOn(t, &framed.Server{Engine: e, Handler: h}, ln)
			if listen == "[::]:0" { // an IPv4 peer of an IPv6 socket
				_, port, _ := net.SplitHostPort(addr)
				addr = net.JoinHostPort("127.0.0.1", port)
			}
			p, c := meet(t, addr, met)
			if want := p.LocalAddr().(*net.TCPAddr).AddrPort(); c.RemoteAddr() != want {
				t.Errorf("listening on %s: RemoteAddr is %v, want %v", listen, c.RemoteAddr(), want)
			}
		}
	})
}

// TestReplyOfABrokenConnectionReachesNobodyElse: a handler that is still running when its
// connection breaks returns a reply that no client may see.
func TestReplyOfABrokenConnectionReachesNobodyElse(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		met, release := make(chan framed.Conn, 1), make(chan struct{})
		closed := make(chan engine.Reason, 1)
		s := &framed.Server{
			Engine: e,
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if string(req) == "secret" {
					met <- c.Conn()
					<-release
				}
				return append(dst, req...), nil
			}),
			OnClose: func(_ framed.Conn, why engine.Reason) { closed <- why },
		}
		addr := serve(t, s)
		for range 5 {
			p := dial(t, addr)
			p.send(submit(1, "secret"))
			c := heard(t, met, "a handler")
			p.reset()
			eventually(t, "a push finds the connection broken", func() bool { return c.Push(1, []byte("push")) == framed.ErrClosed })
			release <- struct{}{}
			heard(t, closed, "OnClose")

			var others [3]*peer
			for i := range others {
				others[i] = dial(t, addr)
				others[i].send(submit(2, "hello"))
			}
			for _, p := range others {
				p.want(ack(2, "hello"))
				p.Close()
				heard(t, closed, "OnClose")
			}
		}
	})
}
